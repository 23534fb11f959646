"""The one bit-exact comparison of tensors: the conformance suite, the tests and the fuzzer all use it.

Two tensors are bit-identical if layout, dtype, shape and, where asked, strides agree and every element agrees in each
bit. An infinity equals only itself, and -0 is not 0. There is one exception: a NaN equals every NaN, and nothing else.
Its sign and payload are not compared, because IEEE 754 leaves them open: a compiler that swaps the operands of an
addition changes them, and one kernel of PyTorch gives other ones in its vectors than in the elements that remain. A
complex number is two numbers. A sparse tensor is the tensors that it consists of: some dtypes have sparse tensors and
no conversion to dense ones. This file needs nothing but torch.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_INTEGER_OF_SIZE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
_ROWS = ("crow_indices", "col_indices", "values")
_COLUMNS = ("ccol_indices", "row_indices", "values")
_PARTS = {
    torch.sparse_coo: ("_indices", "_values"),  # those without _ refuse a tensor that is not coalesced
    torch.sparse_csr: _ROWS,
    torch.sparse_bsr: _ROWS,
    torch.sparse_csc: _COLUMNS,
    torch.sparse_bsc: _COLUMNS,
}


def bit_identical(expected: Tensor, actual: Tensor, *, strides: bool = False, zero_sign: bool = True) -> bool:
    """Whether bit_difference() finds nothing."""
    return not bit_difference(expected, actual, strides=strides, zero_sign=zero_sign)


def assert_bit_identical(expected: Tensor, actual: Tensor, *, strides: bool = False, zero_sign: bool = True) -> None:
    """Raises AssertionError with what bit_difference() finds."""
    difference = bit_difference(expected, actual, strides=strides, zero_sign=zero_sign)
    if difference:
        raise AssertionError(difference)


def bit_difference(expected: Tensor, actual: Tensor, *, strides: bool = False, zero_sign: bool = True) -> str:
    """The first difference between two tensors of any devices and shapes, in words; "" if they are bit-identical.

    `strides`: they must agree too. `zero_sign=False`: -0 equals 0; only for a kernel whose zeros may have either sign,
    with the reason beside the call.
    """
    for name in ("layout", "dtype", "shape"):
        wanted, found = getattr(expected, name), getattr(actual, name)
        if wanted != found:
            return f"{name} is {_text(found)}, expected {_text(wanted)}"
    if strides and expected.layout == torch.strided and expected.stride() != actual.stride():
        return f"strides of shape {_text(expected.shape)} are {actual.stride()}, expected {expected.stride()}"
    if expected.layout in _PARTS:
        for name in _PARTS[expected.layout]:
            difference = bit_difference(getattr(expected, name)(), getattr(actual, name)(), zero_sign=zero_sign)
            if difference:
                return f"{name} of the sparse tensor: {difference}"
        return ""
    one, other = _on_cpu(expected), _on_cpu(actual)
    if one.is_quantized:
        return "" if torch.equal(one, other) else f"the quantized values are {other}, expected {one}"
    wrong = _differing(one, other, zero_sign)
    if wrong is None:
        return ""
    if one.is_complex():
        wrong = wrong.any(-1)
    index = tuple(wrong.nonzero()[0].tolist())
    return (
        f"element {list(index)} is {other[index].item()!r}, expected {one[index].item()!r}; "
        f"{int(wrong.sum())} of {wrong.numel()} elements differ"
    )


def _text(value: Any) -> str:
    return str(tuple(value)) if isinstance(value, torch.Size) else str(value)


def _on_cpu(tensor: Tensor) -> Tensor:
    tensor = tensor.detach().cpu().resolve_conj().resolve_neg()
    return tensor if tensor.layout == torch.strided else tensor.to_dense()


def _differing(one: Tensor, other: Tensor, zero_sign: bool) -> Tensor | None:
    """Which numbers differ, with a last dimension of 2 for complex ones; None: none does."""
    if one.is_complex():
        one, other = torch.view_as_real(one), torch.view_as_real(other)
    kind = _INTEGER_OF_SIZE[one.element_size()]
    wrong = one.contiguous().view(kind) != other.contiguous().view(kind)
    if one.is_floating_point() and bool(wrong.any()):
        if one.element_size() == 1:  # types of 8 bits have few operators
            one, other = one.float(), other.float()
        wrong &= ~(one.isnan() & other.isnan())
        if not zero_sign:
            wrong &= (one != 0) | (other != 0)
    return wrong if bool(wrong.any()) else None
