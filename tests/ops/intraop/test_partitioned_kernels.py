"""In a graph intra-op threads share kernels. The results are bit-identical to stock CPU's on one thread.

If the parts of a matrix product are not bit-identical to the whole, the BLAS computes it. It uses all threads for a
long product, which is then bit-identical to stock CPU's with the same number of threads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from ops.replay import replayed
from ops.threads import one_thread
from torch_backend.conformance.bits import assert_bit_identical, bit_identical

# (rows, columns, K). Some are divided by rows and some by columns; in some the last part is smaller.
SIZES = ((32, 128, 128), (512, 192, 64), (64, 1000, 100), (1000, 37, 65), (4096, 40, 40), (2, 1024, 515), (33, 2, 9000))


def check(step: Callable[[str], Callable[[], list[torch.Tensor]]], or_all_threads: bool = False) -> None:
    """Checks that a replay of step(device)() is bit-identical to stock on one thread, or with the option on all."""
    with one_thread():
        expected = step("cpu")()
    others = step("cpu")() if or_all_threads else expected
    for wanted, other, got in zip(expected, others, replayed(step("tb")), strict=True):
        assert bit_identical(wanted, got) or bit_identical(other, got)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sizes", SIZES)
def test_a_linear_layer(sizes: tuple[int, int, int], dtype: torch.dtype, bias: bool) -> None:
    rows, outputs, inner = sizes
    torch.manual_seed(0)
    drawn = [torch.randn(*shape, dtype=dtype) for shape in ((rows, inner), (outputs, inner), (outputs,))]
    gradient = torch.randn(rows, outputs, dtype=dtype)

    def step(device: str) -> Callable[[], list[torch.Tensor]]:
        leaves = [tensor.to(device).clone().requires_grad_() for tensor in drawn[: 3 if bias else 2]]
        above = gradient.to(device)

        def run() -> list[torch.Tensor]:
            out = F.linear(*leaves)
            return [out.detach(), *torch.autograd.grad(out, leaves, above)]

        return run

    check(step, or_all_threads=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("sizes", SIZES)
def test_a_product(sizes: tuple[int, int, int], dtype: torch.dtype) -> None:
    rows, columns, inner = sizes
    torch.manual_seed(0)
    drawn = [torch.randn(*shape, dtype=dtype) for shape in ((rows, inner), (columns, inner), (columns,))]

    def step(device: str) -> Callable[[], list[torch.Tensor]]:
        left, right, row = (tensor.to(device) for tensor in drawn)
        return lambda: [left @ right.T, torch.addmm(row, left, right.T)]

    check(step, or_all_threads=True)


@pytest.mark.parametrize("sizes", [(32, 64, 64, 16), (3, 256, 250, 65), (7, 100, 33, 200)])
def test_a_batch_of_products(sizes: tuple[int, int, int, int]) -> None:
    count, rows, columns, inner = sizes
    torch.manual_seed(0)
    drawn = [torch.randn(count, *shape) for shape in ((rows, inner), (inner, columns), (rows, columns))]

    def step(device: str) -> Callable[[], list[torch.Tensor]]:
        left, right, added = (tensor.to(device) for tensor in drawn)
        return lambda: [torch.bmm(left, right), torch.baddbmm(added, left, right)]

    make = step("tb")
    for _ in range(6):  # until the trial has chosen a kernel
        make()
    check(step, or_all_threads=True)


@pytest.mark.parametrize("columns", [1, 64, 101])
@pytest.mark.parametrize("function", [F.gelu, F.silu, torch.sigmoid, F.softplus, F.mish, F.elu, lambda x: x.pow(1.5)])
def test_an_activation_of_some_columns(function: Callable[[torch.Tensor], torch.Tensor], columns: int) -> None:
    torch.manual_seed(0)
    drawn = torch.rand(2011, 3 * columns + 5).sub(0.1)

    def step(device: str) -> Callable[[], list[torch.Tensor]]:
        matrix = drawn.to(device)
        return lambda: [function(part) for part in (*matrix[:, 5:].chunk(3, 1), matrix[::2, :columns], matrix.t())]

    check(step)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("count", [64, 100_003, 300_000])
@pytest.mark.parametrize("function", [F.gelu, partial(F.gelu, approximate="tanh"), F.silu, torch.sigmoid])
def test_an_activation(function: Callable[[torch.Tensor], torch.Tensor], count: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    drawn, above = (torch.randn(count, dtype=dtype) for _ in range(2))

    def step(device: str) -> Callable[[], list[torch.Tensor]]:
        leaf, gradient = drawn.to(device).clone().requires_grad_(), above.to(device)

        def run() -> list[torch.Tensor]:
            out = function(leaf)
            return [out.detach(), *torch.autograd.grad(out, leaf, gradient)]

        return run

    check(step)


ELEMENTWISE: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "elu": lambda x, y: F.elu(x),
    "mish": lambda x, y: F.mish(x),
    "softplus": lambda x, y: F.softplus(x),
    "atan2": torch.atan2,
    "a power": lambda x, y: x.abs().pow(2.5),
    "a power of a number": lambda x, y: torch.pow(2.5, x),
    "a power of elements": lambda x, y: x.abs().pow(y),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("count", [64, 100_003, 300_000])
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_an_elementwise_function(name: str, count: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    drawn = [torch.randn(count, dtype=dtype) for _ in range(2)]

    def step(device: str) -> Callable[[], list[torch.Tensor]]:
        x, y = (tensor.to(device) for tensor in drawn)
        return lambda: [ELEMENTWISE[name](x, y), ELEMENTWISE[name](x[: count // 2 * 2].view(2, -1).t(), y[0])]

    check(step, or_all_threads=True)  # tensors of other strides are not divided


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("shape", [(70_001, 3), (517, 311), (64, 1024), (3, 100_003)])
def test_softmax(shape: tuple[int, int], dim: int) -> None:
    torch.manual_seed(0)
    drawn = torch.randn(shape)

    def step(device: str) -> Callable[[], list[torch.Tensor]]:
        x = drawn.to(device)
        return lambda: [torch.softmax(x, dim)]

    check(step, or_all_threads=dim == 0)


@pytest.mark.parametrize("shape", [(8, 24, 33, 31), (3, 5, 4000), (2, 70, 5, 9, 7), (64, 100)])
def test_batch_normalization(shape: tuple[int, ...]) -> None:
    """The last shape has single pixels, for which threads would divide a sum; it is too short to get threads."""
    torch.manual_seed(0)
    drawn = [torch.randn(shape), torch.randn(shape[1]), torch.randn(shape[1])]
    above = torch.randn(shape)

    def step(device: str) -> Callable[[], list[torch.Tensor]]:
        leaves = [tensor.to(device).clone().requires_grad_() for tensor in drawn]
        gradient = above.to(device)

        def run() -> list[torch.Tensor]:
            mean, variance = (torch.full_like(leaves[1], value).detach() for value in (0, 1))
            out = F.batch_norm(leaves[0], mean, variance, leaves[1], leaves[2], training=True)
            return [out.detach(), mean, variance, *torch.autograd.grad(out, leaves, gradient)]

        return run

    check(step)


@pytest.mark.parametrize("frozen", range(2))
def test_a_linear_layer_with_a_frozen_argument(frozen: int) -> None:
    torch.manual_seed(0)
    drawn = [torch.randn(64, 256), torch.randn(128, 256)]
    leaves = [tensor.to("tb").requires_grad_(place != frozen) for place, tensor in enumerate(drawn)]

    def step() -> list[torch.Tensor]:
        return list(torch.autograd.grad(F.linear(*leaves).square().sum(), leaves[1 - frozen]))

    with one_thread():
        same = [tensor.requires_grad_(place != frozen) for place, tensor in enumerate(drawn)]
        expected = torch.autograd.grad(F.linear(*same).square().sum(), same[1 - frozen])[0]
    assert_bit_identical(expected, replayed(step)[0])


@pytest.mark.parametrize("precision", ["highest", "high", "medium"])
def test_products_of_reduced_precision_are_left_to_pytorch(precision: str) -> None:
    torch.manual_seed(0)
    x, weight = torch.randn(64, 256), torch.randn(128, 256)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        expected, got = F.linear(x, weight), F.linear(x.to("tb"), weight.to("tb")).cpu()
    finally:
        torch.set_float32_matmul_precision(before)
    assert_bit_identical(expected, got)


def test_updates_of_lists() -> None:
    torch.manual_seed(0)
    lists = [
        [torch.randn(300, 301), torch.randn(7), torch.randn(128, 256).T, torch.randn(50_000)[::2], torch.randn(8192)]
        for _ in range(2)
    ]
    parameters, updates = ([tensor.to("tb") for tensor in each] for each in lists)

    def step() -> list[torch.Tensor]:
        own = [parameter + 0 for parameter in parameters]
        torch._foreach_add_(own, updates, alpha=-0.125)
        return [*own, *torch._foreach_mul(own, updates)]

    with one_thread():
        sums = torch._foreach_add(*lists, alpha=-0.125)
        expected = [*sums, *torch._foreach_mul(sums, lists[1])]
    for wanted, got in zip(expected, replayed(step), strict=True):
        assert_bit_identical(wanted, got)


def _draw(device: str, times: int) -> list[torch.Tensor]:
    torch.manual_seed(5)
    x = torch.ones(1_000_003, device=device)
    dropped = [F.dropout(x, 0.3) for _ in range(times)]
    return [*dropped, *(torch.empty_like(x).normal_() for _ in range(times))]


def test_random_numbers_on_intra_op_threads() -> None:
    """Several draws are needed, because a kernel is timed before it gets threads."""
    with one_thread():
        expected = [tensor.cpu() for tensor in _draw("tb", 8)]
    for wanted, got in zip(expected, _draw("tb", 8), strict=True):
        assert_bit_identical(wanted, got)


def test_random_numbers_of_a_graph() -> None:
    x = torch.ones(50_001, device="tb", requires_grad=True)

    def step() -> list[torch.Tensor]:
        dropped = F.dropout(x, 0.3)
        return [dropped.detach(), torch.empty_like(x).uniform_().detach(), *torch.autograd.grad(dropped.sum(), x)]

    torch.manual_seed(5)
    with one_thread():
        expected = [[tensor.cpu() for tensor in step()] for _ in range(4)][-1]
    torch.manual_seed(5)
    for wanted, got in zip(expected, replayed(step), strict=True):
        assert_bit_identical(wanted, got)
