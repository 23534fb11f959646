"""Calls on plain tensors, for which kernels have a fast path, give the results and errors of the CPU."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch_backend.conformance.bits import assert_bit_identical, bit_identical

Call = Callable[..., torch.Tensor]

LIMIT = 2**17 // 4  # the largest number of floats that are copied as plain bytes
SIZES = [(), (0,), (1,), (16,), (17,), (2, 3, 4, 5), (LIMIT,), (LIMIT + 1,)]
DTYPES = [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64]
SHAPES: list[list[tuple[int, ...]]] = [[()] * 3, [(5,)] * 3, [(2, 3, 4)] * 3, [(2, 3), (3,), (2, 1)]]
ELEMENTWISE: dict[str, tuple[int, Call]] = {
    "add": (2, torch.add),
    "add with alpha": (2, lambda a, b: torch.add(a, b, alpha=2)),
    "addcdiv": (3, torch.addcdiv),
    "addcmul": (3, lambda a, b, c: torch.addcmul(a, b, c, value=0.5)),
    "clamp_min": (1, lambda a: torch.clamp_min(a, 1)),
    "cos": (1, torch.cos),
    "div": (2, torch.div),
    "exp": (1, torch.exp),
    "gelu": (1, lambda a: torch.nn.functional.gelu(a, approximate="tanh")),
    "leaky_relu": (1, torch.nn.functional.leaky_relu),
    "log": (1, torch.log),
    "maximum": (2, torch.maximum),
    "minimum": (2, torch.minimum),
    "mul": (2, torch.mul),
    "neg": (1, torch.neg),
    "reciprocal": (1, torch.reciprocal),
    "relu": (1, torch.relu),
    "rsqrt": (1, torch.rsqrt),
    "sigmoid": (1, torch.sigmoid),
    "silu": (1, torch.nn.functional.silu),
    "sin": (1, torch.sin),
    "sqrt": (1, torch.sqrt),
    "sub": (2, torch.sub),
    "tanh": (1, torch.tanh),
}


def values(size: tuple[int, ...], dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return (torch.rand(size) * 4 + 0.5).to(dtype)


@pytest.mark.usefixtures("no_fallbacks")
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_copy_brings_the_same_bytes_in_every_direction(size: tuple[int, ...], dtype: torch.dtype) -> None:
    source = values(size, dtype)
    there = torch.empty(size, dtype=dtype, device="tb").copy_(source)
    beside = torch.empty(size, dtype=dtype, device="tb").copy_(there)
    back = torch.empty(size, dtype=dtype).copy_(beside)
    assert_bit_identical(source, back)


def test_the_source_of_a_copy_may_change_at_once() -> None:
    source, targets = torch.zeros(1), [torch.empty(1, device="tb") for _ in range(100)]
    for number, target in enumerate(targets):
        source.fill_(number)
        target.copy_(source)
    assert [target.item() for target in targets] == list(range(100))


def test_a_copy_back_waits_for_the_work_before_it() -> None:
    x = torch.ones(300, 300, device="tb")
    for _ in range(20):
        x = x @ torch.ones(300, 300, device="tb") / 300
    assert_bit_identical(torch.ones(300, 300), torch.empty(300, 300).copy_(x))


@pytest.mark.parametrize("device", ["cpu", "tb"])
def test_writing_to_a_partly_overlapping_operand_is_refused_at_the_call(device: str) -> None:
    x = torch.arange(8.0, device=device)
    for call in (x[1:].add_, x[1:].mul_, x[1:].copy_):
        with pytest.raises(RuntimeError, match="unsupported operation"):
            call(x[:-1])
        torch.accelerator.synchronize("tb")
    assert x.tolist() == list(range(8))


def test_writing_to_the_operand_itself_works() -> None:
    x = torch.arange(4.0, device="tb")
    x.add_(x).copy_(x.view(2, 2).view(4))
    assert x.tolist() == [0.0, 2.0, 4.0, 6.0]


@pytest.mark.parametrize("device", ["cpu", "tb"])
@pytest.mark.parametrize("alpha", [True, 1j])
def test_a_number_that_does_not_fit_is_refused_at_the_call(device: str, alpha: complex) -> None:
    x = torch.ones(3, device=device)
    with pytest.raises(RuntimeError):
        torch.add(x, x, alpha=alpha)


@pytest.mark.usefixtures("no_fallbacks")
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_results_are_those_of_the_cpu_in_value_type_and_layout(name: str) -> None:
    count, call = ELEMENTWISE[name]
    for shapes in SHAPES:
        for dtype in (torch.float32, torch.float64):
            inputs = [values(shape, dtype) for shape in shapes[:count]]
            expected = call(*inputs)
            found = call(*(x.to("tb") for x in inputs))
            assert (found.dtype, found.shape, found.stride()) == (expected.dtype, expected.shape, expected.stride())
            assert_bit_identical(expected, found)


@pytest.mark.usefixtures("no_fallbacks")
def test_tensors_in_another_order_keep_it() -> None:
    x = values((2, 3, 4, 5)).to(memory_format=torch.channels_last)
    for found in (x.to("tb") + x.to("tb"), torch.empty_like(x, device="tb").copy_(x) * 2):
        assert found.stride() == x.stride()
        assert_bit_identical(x * 2, found)


def test_a_scalar_is_not_affected_by_shapes_of_earlier_calls() -> None:
    number = torch.tensor(-0.06738138198852539)
    expected = torch.linalg.vector_norm(number, 6, 0)
    assert not bit_identical(expected, number.abs()), "the norm of a scalar is computed, not taken for its size"
    for shape in [(1,), (1, 1)]:
        ones = torch.ones(shape, device="tb")
        for _ in range(40):  # gives all reused aliases of the worker this shape before the next call
            ones = ones + ones.abs()
        assert_bit_identical(expected, torch.linalg.vector_norm(number.to("tb"), 6, 0))


# Tensors to concatenate, and the dimension.
JOINED: dict[str, tuple[list[torch.Tensor], int]] = {
    "of one shape": ([torch.rand(2, 3), torch.rand(2, 3)], 0),
    "one": ([torch.rand(2, 3)], 1),
    "from the end": ([torch.rand(2, 3, 4), torch.rand(2, 5, 4)], -2),
    "nothing in one": ([torch.rand(2, 0), torch.rand(2, 3), torch.rand(2, 0)], 1),
    "nothing of another shape": ([torch.rand(2, 3), torch.rand(0)], 1),
    "nothing of another shape first": ([torch.rand(0), torch.rand(2, 3)], 1),
    "types": ([torch.rand(3), torch.arange(3)], 0),
    "strided": ([torch.rand(3, 2).t(), torch.rand(2, 3)], 0),
    "conjugated": ([torch.rand(3, dtype=torch.complex64).conj(), torch.rand(2, dtype=torch.complex64)], 0),
    "one channel": ([torch.rand(2, 1, 3, 3), torch.rand(2, 1, 3, 3)], 0),
    "channels last": ([torch.rand(2, 4, 3, 3).to(memory_format=torch.channels_last) for _ in range(2)], 1),
    "both orders": ([torch.rand(2, 4, 1, 1), torch.rand(2, 4, 1, 1).to(memory_format=torch.channels_last)], 1),
    "five dimensions": ([torch.rand(2, 1, 3, 3, 3), torch.rand(2, 1, 3, 3, 3)], 0),
}


@pytest.mark.usefixtures("no_fallbacks")
@pytest.mark.parametrize("name", JOINED)
def test_joined_tensors_are_those_of_the_cpu_in_value_type_and_layout(name: str) -> None:
    tensors, dim = JOINED[name]
    expected = torch.cat(tensors, dim)
    result = torch.cat([tensor.to("tb") for tensor in tensors], dim)
    assert (result.dtype, result.stride()) == (expected.dtype, expected.stride())
    assert_bit_identical(expected, result)


@pytest.mark.parametrize(
    ("shapes", "dim"),
    [([(2, 3), (3, 3)], 1), ([(2, 3), (2,)], 0), ([(2, 3), (2, 3)], 2), ([(2, 3), (2, 3)], -3), ([(), ()], 0)],
    ids=str,
)
def test_tensors_that_cannot_be_joined_are_refused_with_the_cpus_text(shapes: list[tuple[int, ...]], dim: int) -> None:
    def error_on(device: str) -> str:
        with pytest.raises((RuntimeError, IndexError, ValueError)) as caught:
            torch.cat([torch.ones(shape, device=device) for shape in shapes], dim)
        return f"{caught.type.__name__}: {caught.value}"

    assert error_on("tb") == error_on("cpu")


@pytest.mark.parametrize("call", [torch.cat, torch.stack, torch.hstack])
@pytest.mark.parametrize("devices", [("tb", "cpu"), ("cpu", "tb")], ids=str)
def test_tensors_of_several_devices_are_not_joined(call: Call, devices: tuple[str, str]) -> None:
    with pytest.raises(RuntimeError, match="on the same device, but aten::cat got tensors on tb:0 and cpu"):
        call([torch.ones(2, device=device) for device in devices])


def test_tensors_of_the_host_are_not_joined_on_the_device() -> None:
    with pytest.raises(RuntimeError, match="Expected out tensor to have device cpu, but got tb:0"):
        torch.cat([torch.ones(2), torch.ones(2)], out=torch.empty(4, device="tb"))
