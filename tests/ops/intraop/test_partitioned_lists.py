"""Threads share list operations and attention's backward pass while the host waits, with the bits of one thread."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from conftest import RunPython
from ops.cases.case import assert_same
from ops.threads import WORKER, one_thread
from torch_backend._testing import held

LENGTHS = [1, 5, 0, 64, 4000, 17, 3, 2500, 900, 6001] * 8


def tensors(seed: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.rand(length, generator=generator) + 0.5 for length in LENGTHS]


def while_waiting(run: Callable[[], list[torch.Tensor]]) -> list[torch.Tensor]:
    """The results of `run`, whose work starts while the host waits, except in the first call, which waits itself."""
    with held() as gate:
        gate.open_once_this_thread_waits()
        results = run()
        torch.accelerator.synchronize()
    return [result.cpu() for result in results]


def mul(lists: list[list[torch.Tensor]]) -> list[torch.Tensor]:
    return list(torch._foreach_mul(lists[0], 1.7))


def mul_each(lists: list[list[torch.Tensor]]) -> list[torch.Tensor]:
    return list(torch._foreach_mul(lists[0], [0.1 * i for i in range(len(LENGTHS))]))


def adam(lists: list[list[torch.Tensor]]) -> list[torch.Tensor]:
    torch._foreach_lerp_(lists[0], lists[1], 0.1)
    torch._foreach_mul_(lists[2], 0.99)
    torch._foreach_addcmul_(lists[2], lists[1], lists[1], 0.01)
    roots = torch._foreach_sqrt(lists[2])
    torch._foreach_add_(roots, 1e-8)
    torch._foreach_addcdiv_(lists[3], lists[0], roots, -0.1)
    return lists[3]


def norms(lists: list[list[torch.Tensor]]) -> list[torch.Tensor]:
    return list(torch._foreach_norm([tensor for tensor in lists[0] if tensor.numel()]))


def copies(lists: list[list[torch.Tensor]]) -> list[torch.Tensor]:
    torch._foreach_copy_(lists[0], lists[1])
    return lists[0]


def one_tensor_many_times(lists: list[list[torch.Tensor]]) -> list[torch.Tensor]:
    torch._foreach_add_([lists[0][4]] * 200, 0.1)
    return [lists[0][4]]


def each_reads_what_the_last_wrote(lists: list[list[torch.Tensor]]) -> list[torch.Tensor]:
    long = lists[0][4]
    parts = [long[20 * i : 20 * i + 40] for i in range(190)]
    torch._foreach_mul_(parts, 1.01)
    return [long]


def each_adds_its_neighbour(lists: list[list[torch.Tensor]]) -> list[torch.Tensor]:
    rows = list(lists[0][4].view(200, 20).unbind())
    torch._foreach_add_(rows[1:], rows[:-1])
    return [lists[0][4]]


@pytest.mark.parametrize(
    "run",
    [
        mul,
        mul_each,
        adam,
        norms,
        copies,
        one_tensor_many_times,
        each_reads_what_the_last_wrote,
        each_adds_its_neighbour,
    ],
)
def test_list_operations_are_bit_identical_to_one_thread(
    run: Callable[[list[list[torch.Tensor]]], list[torch.Tensor]],
) -> None:
    with one_thread():
        expected = run([tensors(seed) for seed in range(4)])
    for _ in range(5):
        given = [[tensor.to("tb") for tensor in tensors(seed)] for seed in range(4)]
        found = while_waiting(lambda given=given: run(given))  # type: ignore[misc]
        assert_same(expected, found)


def test_attention_backward_is_bit_identical_to_one_thread_at_every_call() -> None:
    shapes = [(8, 4, 64, 16), (3, 5, 77, 24), (2, 2, 257, 33)]
    for call in range(12):
        for shape in shapes:
            generator = torch.Generator().manual_seed(call)
            given = [torch.randn(shape, generator=generator) for _ in range(4)]

            def run(device: str, given: list[torch.Tensor] = given) -> list[torch.Tensor]:
                query, key, value, grad = (tensor.to(device).requires_grad_() for tensor in given)
                out = F.scaled_dot_product_attention(query, key, value, is_causal=True)
                return list(torch.autograd.grad(out, [query, key, value], grad.detach()))

            with one_thread():
                expected = run("cpu")
            found = while_waiting(lambda run=run: run("tb"))  # type: ignore[misc]
            assert_same(expected, found)


def helped(run_python: RunPython, *works: str) -> list[bool]:
    """Whether threads join the worker for each of `works` while the host waits."""
    done = run_python(
        WORKER
        + f"""
import torch.nn.functional as F

many = [torch.ones(300, device="tb") for _ in range(100)]
matrix, row = torch.ones(256, 256, device="tb"), torch.ones(256, device="tb")
q = torch.randn(2, 8, 64, 16, device="tb", requires_grad=True)
out = F.scaled_dot_product_attention(q, q, q)
for work in {works!r}:
    exec(work)  # the first call of a kernel waits
    print(int(starts(lambda: exec(work))))
"""
    )
    return [word == "1" for word in done.stdout.split()]


@pytest.mark.parametrize(
    "work",
    [
        "torch._foreach_mul_(many, 1.5)",
        "torch.autograd.grad(out, [q], q.detach(), retain_graph=True)",
    ],
    ids=["list", "attention backward"],
)
def test_a_second_thread_helps_while_the_host_waits(run_python: RunPython, work: str) -> None:
    assert helped(run_python, work) == [True]


def test_a_product_is_shared_as_in_a_linear_layer(run_python: RunPython) -> None:
    """Whether the parts are bit-identical to the whole depends on the BLAS, but is the same for both."""
    linear, product, with_bias, product_with_bias = helped(
        run_python,
        "F.linear(matrix, matrix)",
        "torch.mm(matrix, matrix.T)",
        "F.linear(matrix, matrix, row)",
        "torch.addmm(row, matrix, matrix.T)",
    )
    assert (linear, with_bias) == (product, product_with_bias)
