"""Compares a run on cpu with a run on tb."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from torch import Tensor
from torch_backend.conformance.bits import bit_difference

from .stage import Facts, Result


def differences(expected: Sequence[Result], actual: Sequence[Result]) -> list[str]:
    """The differences, one line each. A program that failed on tb has one line."""
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
    if not isinstance(one, Tensor):  # by repr(), nan equals nan, and 0.0 differs from -0.0
        return "" if repr(one) == repr(other) else f"{str(other)[:200]}, on cpu {str(one)[:200]}"
    return bit_difference(one, other)
