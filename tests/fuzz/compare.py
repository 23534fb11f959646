"""What differs between a run on cpu and one on tb."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import torch
from torch import Tensor

from .stage import Facts, Result

_WHOLE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def differences(expected: Sequence[Result], actual: Sequence[Result]) -> list[str]:
    """A line for each difference; a program that failed has one line."""
    found = []
    for number, (one, other) in enumerate(zip(expected, actual, strict=True)):
        where = f"program {number}: " if len(expected) > 1 else ""
        if other.error:
            found.append(f"{where}tb fails in {other.error}")
            continue
        for i, (read, here) in enumerate(zip(one.reads, other.reads, strict=True)):
            if text := _difference(read, here):
                found.append(f"{where}read {i}: {text}")
        for name, facts in one.alive.items():
            found += [f"{where}{name}: {text}" for text in _of_facts(facts, other.alive[name])]
    return found


def _of_facts(one: Facts, other: Facts) -> list[str]:
    texts = [_difference(one.values, other.values)] if one.shape == other.shape and one.dtype == other.dtype else []
    for field in fields(Facts)[1:]:
        expected, actual = getattr(one, field.name), getattr(other, field.name)
        if expected != actual:
            texts.append(f"{field.name} {actual}, on cpu {expected}")
    return [text for text in texts if text]


def _difference(one: Any, other: Any) -> str:
    if not isinstance(one, Tensor):  # repr: nan is nan, and 0.0 is not -0.0
        return "" if repr(one) == repr(other) else f"{str(other)[:200]}, on cpu {str(one)[:200]}"
    if one.shape != other.shape or one.dtype != other.dtype:
        return f"{other.dtype} {tuple(other.shape)}, on cpu {one.dtype} {tuple(one.shape)}"
    wrong = ~same_bits(one, other)
    if not wrong.any():
        return ""
    flat = int(wrong.flatten().nonzero()[0])
    values = torch.view_as_real(one.contiguous()) if one.is_complex() else one
    others = torch.view_as_real(other.contiguous()) if other.is_complex() else other
    return (
        f"{int(wrong.sum())} of {wrong.numel()} elements differ, element {flat} is {others.flatten()[flat].item()!r}, "
        f"on cpu {values.flatten()[flat].item()!r}"
    )


def same_bits(one: Tensor, other: Tensor) -> Tensor:
    """Where two tensors of one shape and type agree to the last bit; any NaN agrees with any NaN.

    Complex numbers count as two. Returns booleans, of shape (..., 2) for complex numbers.
    """
    if one.is_complex():
        one, other = torch.view_as_real(one.contiguous()), torch.view_as_real(other.contiguous())
    kind = _WHOLE[one.element_size()]
    same = one.contiguous().view(kind) == other.contiguous().view(kind)
    return same | (one.isnan() & other.isnan()) if one.is_floating_point() else same
