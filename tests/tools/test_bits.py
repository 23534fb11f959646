"""The bit-exact comparison finds each difference that a kernel could cause, and names the first one."""

from __future__ import annotations

import math
import re
import struct

import pytest
import torch
from torch import Tensor
from torch_backend.conformance.bits import assert_bit_identical, bit_difference, bit_identical

FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
COMPLEX = [torch.complex128, torch.complex64, torch.complex32]
SMALL = [torch.float8_e4m3fn, torch.float8_e5m2]
WHOLE = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16, torch.uint32, torch.uint64]
DEVICES = ["cpu", "tb"]
inf, nan = math.inf, math.nan


@pytest.mark.parametrize("dtype", [*FLOATS, *COMPLEX, *SMALL, *WHOLE, torch.bool], ids=str)
@pytest.mark.parametrize("device", DEVICES)
def test_a_copy_is_identical_and_another_number_is_not(dtype: torch.dtype, device: str) -> None:
    x = torch.ones(2, 3).to(dtype)
    y = x.clone()
    assert bit_difference(x, y.to(device), strides=True) == ""
    y[1, 2] = 0
    assert bit_difference(x, y.to(device)).startswith("element [1, 2] is ")


@pytest.mark.parametrize("dtype", [*FLOATS, *COMPLEX, *SMALL], ids=str)
@pytest.mark.parametrize(
    ("one", "other"),
    [(nan, 0.0), (nan, inf), (nan, 1.0), (0.0, -0.0), (1.0, -1.0)],
    ids=["nan and 0", "nan and infinity", "nan and 1", "0 and -0", "1 and -1"],
)
def test_special_numbers_equal_only_themselves(dtype: torch.dtype, one: float, other: float) -> None:
    first, second = (torch.tensor([7.0, number]).to(dtype) for number in (one, other))
    assert bit_identical(first, first.clone())
    assert bit_identical(second, second.clone())
    for expected, actual in ((first, second), (second, first)):
        assert bit_difference(expected, actual).startswith("element [1] is ")


@pytest.mark.parametrize("dtype", [*FLOATS, *COMPLEX], ids=str)
@pytest.mark.parametrize("other", [-inf, nan, 1.0, 0.0])
def test_an_infinity_equals_only_itself_not_even_the_largest_number(dtype: torch.dtype, other: float) -> None:
    infinite = torch.tensor(inf).to(dtype)
    largest = torch.tensor(torch.finfo(dtype).max, dtype=dtype)
    assert bit_identical(infinite, infinite.clone())
    assert not bit_identical(infinite, largest)
    assert not bit_identical(infinite, torch.tensor(other).to(dtype))


def test_the_last_bit_counts() -> None:
    x = torch.tensor([1.0, 1e-40, 3e38])
    for i in range(3):
        y = x.clone()
        y[i] = torch.nextafter(y[i], torch.tensor(inf))
        assert bit_difference(x, y).startswith(f"element [{i}] is ")


def test_both_parts_of_complex_numbers_count() -> None:
    x = torch.tensor([complex(nan, 1.0)])
    assert bit_identical(x, x.clone())
    assert not bit_identical(x, torch.tensor([complex(nan, 2.0)]))
    assert not bit_identical(x, torch.tensor([complex(nan, nan)]))
    assert not bit_identical(torch.tensor([complex(1.0, 0.0)]), torch.tensor([complex(1.0, -0.0)]))


def test_nan_equals_every_nan() -> None:
    """Neither IEEE 754 nor PyTorch's kernels define the sign and payload of a NaN."""

    def of_bits(bits: int) -> Tensor:
        return torch.frombuffer(bytearray(struct.pack("<I", bits)), dtype=torch.float32)

    nans = [of_bits(bits) for bits in (0x7FC00000, 0xFFC00000, 0x7FC00001, 0x7F800001)]
    assert all(bit_identical(one, other) for one in nans for other in nans)


def test_the_sign_of_zeros_is_ignored_where_asked_and_nothing_else_is() -> None:
    x = torch.tensor([0.0, nan, 1.0])
    assert bit_identical(x, torch.tensor([-0.0, nan, 1.0]), zero_sign=False)
    for other in ([-0.0, 0.0, 1.0], [-0.0, nan, -1.0], [1e-45, nan, 1.0]):
        assert not bit_identical(x, torch.tensor(other), zero_sign=False)


@pytest.mark.parametrize(
    ("other", "text"),
    [
        (torch.ones(2, 3, dtype=torch.float64), "dtype is torch.float64, expected torch.float32"),
        (torch.ones(2, 3, dtype=torch.bfloat16), "dtype is torch.bfloat16, expected torch.float32"),
        (torch.ones(3, 2), "shape is (3, 2), expected (2, 3)"),
        (torch.ones(6), "shape is (6,), expected (2, 3)"),
        (torch.ones(2, 3).to_sparse(), "layout is torch.sparse_coo, expected torch.strided"),
    ],
)
def test_types_shapes_and_layouts_count(other: Tensor, text: str) -> None:
    assert bit_difference(torch.ones(2, 3), other) == text


@pytest.mark.parametrize("device", DEVICES)
def test_strides_count_where_asked(device: str) -> None:
    x, transposed = torch.ones(2, 3), torch.ones(3, 2, device=device).t()
    assert bit_identical(x, transposed)
    assert bit_difference(x, transposed, strides=True) == "strides of shape (2, 3) are (1, 2), expected (3, 1)"
    image = torch.ones(1, 2, 3, 3)
    assert not bit_identical(image, image.to(memory_format=torch.channels_last), strides=True)


@pytest.mark.parametrize("device", DEVICES)
def test_views_are_compared_by_the_elements_that_they_show(device: str) -> None:
    x = torch.arange(24.0).reshape(4, 6).to(torch.complex64) * (1 + 2j)
    for view in (x.t(), x[1:, ::2], x.conj(), x.imag, x.conj().imag, x[:1].expand(4, 6)):
        assert bit_identical(view.clone(), view.to(device))
        assert not bit_identical(view.clone(), (view + 1).to(device))


def test_sparse_tensors_are_compared_by_their_elements() -> None:
    x = torch.tensor([[0.0, nan], [3.0, 0.0]])
    assert bit_identical(x.to_sparse(), x.to_sparse())
    assert not bit_identical(x.to_sparse(), torch.tensor([[0.0, nan], [4.0, 0.0]]).to_sparse())
    assert not bit_identical(x.to_sparse_csr(), torch.tensor([[0.0, 0.0], [3.0, 0.0]]).to_sparse_csr())
    moved = torch.tensor([[nan, 0.0], [3.0, 0.0]]).to_sparse()
    assert bit_difference(x.to_sparse(), moved).startswith(
        "_indices of the sparse tensor: element [1, 0] is 0, expected 1"
    )


def test_a_sparse_tensor_needs_no_conversion_to_a_dense_one() -> None:
    indices = torch.tensor([[0, 1], [1, 0]])
    one, other = (
        torch.sparse_coo_tensor(indices, torch.tensor(values, dtype=torch.complex32), (2, 2))
        for values in ([1, 2j], [1, 3j])
    )
    with pytest.raises(NotImplementedError):
        one.to_dense()
    assert bit_identical(one, one.clone())
    assert not bit_identical(one, other)


def test_empty_tensors_are_identical_and_one_number_needs_no_index() -> None:
    assert bit_identical(torch.ones(0, 3), torch.ones(0, 3))
    assert bit_difference(torch.tensor(0.0), torch.tensor(-0.0)).startswith("element [] is -0.0, expected 0.0")


def test_the_report_has_the_first_index_both_values_and_the_count() -> None:
    x, y = torch.zeros(3, 4, 5), torch.zeros(3, 4, 5)
    y[1, 2, 3], y[2, 0, 0] = nan, 1.5
    text = "element [1, 2, 3] is nan, expected 0.0; 2 of 60 elements differ"
    assert bit_difference(x, y) == text
    with pytest.raises(AssertionError, match=re.escape(text)):
        assert_bit_identical(x, y)
    assert_bit_identical(y, y.clone(), strides=True)
    numbers = torch.zeros(2, dtype=torch.complex64), torch.tensor([0, 2j])
    assert bit_difference(*numbers) == "element [1] is 2j, expected 0j; 1 of 2 elements differ"
