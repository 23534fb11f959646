"""What a check of a client is, and how one is run on the CPU and on tb and compared."""

from __future__ import annotations

import dataclasses
import math
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import Any


@dataclasses.dataclass(frozen=True)
class Ran:
    """What one run gave: the device that the client used, and the values that are compared."""

    device: Any
    values: Any


@dataclasses.dataclass(frozen=True)
class Check:
    """A function that gets "cpu" or "tb". For "cpu" it asks the client for the CPU, for "tb" it asks for nothing.

    Attributes:
    tolerance: by how much numbers may differ between the devices, absolute and relative; 0 demands equal ones.
    """

    name: str
    function: Callable[[str], Ran]
    tolerance: float


@dataclasses.dataclass(frozen=True)
class Result:
    """One check's outcome: "passed", "failed", or "ran on the cpu unasked"; `reason` is the error in one line."""

    client: str
    check: str
    outcome: str
    reason: str = ""
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        return self.outcome == "passed"


class Checks:
    """The checks of one client.

    Attributes:
    client: the name of its distribution.
    """

    def __init__(self, client: str) -> None:
        self.client = client
        self.all: list[Check] = []

    def check(self, name: str, tolerance: float = 1e-4) -> Callable[[Callable[[str], Ran]], Callable[[str], Ran]]:
        """Decorates a check."""

        def add(function: Callable[[str], Ran]) -> Callable[[str], Ran]:
            self.add(name, function, tolerance)
            return function

        return add

    def add(self, name: str, function: Callable[[str], Ran], tolerance: float = 1e-4) -> None:
        """Adds a check. ValueError: there is one of this name."""
        if name in (check.name for check in self.all):
            raise ValueError(f"two checks of {self.client} have the name {name!r}")
        self.all.append(Check(name, function, tolerance))


def run(client: str, check: Check) -> Result:
    """Runs a check on both devices and compares."""
    started = time.monotonic()
    outcome, reason = "failed", ""
    try:
        expected, got = check.function("cpu"), check.function("tb")
        if device_type(expected.device) != "cpu":
            reason = f"asked for the cpu, it ran on {expected.device}"
        elif device_type(got.device) != "tb":
            outcome, reason = "ran on the cpu unasked", f"device {got.device}"
        else:
            reason = difference(expected.values, got.values, check.tolerance) or ""
            outcome = "failed" if reason else "passed"
    except Exception as error:
        traceback.print_exc()
        reason = f"{type(error).__name__}: {error}".splitlines()[0]
    return Result(client, check.name, outcome, reason, round(time.monotonic() - started, 2))


def difference(expected: Any, got: Any, tolerance: float, path: str = "values") -> str | None:
    """Where two nested values differ, in words; None if they agree."""
    import torch

    if isinstance(expected, torch.Tensor):
        if not isinstance(got, torch.Tensor):
            return f"{path}: a tensor on the cpu, {type(got).__name__} on tb"
        if expected.shape != got.shape or expected.dtype != got.dtype:
            return f"{path}: {expected.dtype}{list(expected.shape)} on the cpu, {got.dtype}{list(got.shape)} on tb"
        try:
            torch.testing.assert_close(
                got.detach().cpu(), expected.detach(), atol=tolerance, rtol=tolerance, equal_nan=True
            )
        except AssertionError as error:
            return f"{path}: {' '.join(str(error).split())}"
        return None
    if isinstance(expected, Mapping):
        if not isinstance(got, Mapping) or list(expected) != list(got):
            return f"{path}: other keys"
        return _first(difference(expected[key], got[key], tolerance, f"{path}[{key!r}]") for key in expected)
    if isinstance(expected, Sequence) and not isinstance(expected, str):
        if not isinstance(got, Sequence) or len(expected) != len(got):
            return f"{path}: {len(expected)} entries on the cpu, {len(got)} on tb"
        return _first(
            difference(one, other, tolerance, f"{path}[{index}]")
            for index, (one, other) in enumerate(zip(expected, got, strict=True))
        )
    if isinstance(expected, float) and isinstance(got, float):
        equal = math.isclose(expected, got, rel_tol=tolerance, abs_tol=tolerance)
    else:
        equal = bool(expected == got)
    return None if equal else f"{path}: {expected} on the cpu, {got} on tb"


def _first(found: Any) -> str | None:
    return next((text for text in found if text is not None), None)


def device_type(device: Any) -> str:
    return str(device).split(":")[0]
