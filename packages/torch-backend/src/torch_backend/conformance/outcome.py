"""The outcome of a call: a value or an exception. The CPU's outcome is the reference for the device's."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch_backend.conformance.case import Observation
from torch_backend.conformance.comparison import compare
from torch_backend.conformance.device import Device

DOES_NOT_RAISE = "the device does not raise"
RAISES = "the device raises"


@dataclass
class Outcome:
    value: Any = None
    error: Exception | None = None


def attempt(device: Device, call: Callable[[], Any]) -> Outcome:
    """Runs the call and waits for the device, so that an error of queued work is this call's error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            value = call()
            device.synchronize()
        except Exception as error:
            # Work that was queued before the exception may fail too. Its error must not be raised by the next call.
            device.drain()
            # The traceback would keep every tensor of the call alive.
            return Outcome(error=error.with_traceback(None))
    return Outcome(value=value)


def error_text(error: Exception) -> str:
    """The type and the text of an exception in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:400]}"


def agree(
    expected: Outcome,
    actual: Outcome,
    device: Device,
    *,
    values: bool = True,
    strides: bool = False,
    cancelling: bool = False,
    errors_count: bool = False,
    nudged: Sequence[Callable[[], Any]] = (),
) -> Observation:
    """Compares the device's outcome with the CPU's.

    Two exceptions agree if their types are equal. With `errors_count`, for checks of errors, such a sample counts; else
    it is vacuous. A device may do what the CPU has not implemented; then there is nothing to compare with.
    `values=False` compares everything except values.
    """
    if expected.error is not None and actual.error is not None:
        if type(expected.error) is not type(actual.error):
            types = (
                f"the device raises {type(actual.error).__name__} where the CPU raises {type(expected.error).__name__}"
            )
            return Observation(
                problem=f"{types}: device: {error_text(actual.error)}; CPU: {error_text(expected.error)}"
            )
        return Observation(vacuous=None if errors_count else f"the CPU raises {error_text(expected.error)}")
    if isinstance(expected.error, NotImplementedError):
        return Observation(vacuous="the device does what the CPU has not implemented")
    if expected.error is not None:
        name = type(expected.error).__name__
        return Observation(problem=f"{DOES_NOT_RAISE} where the CPU raises {name}: {error_text(expected.error)}")
    if actual.error is not None:
        return Observation(problem=f"{RAISES} {error_text(actual.error)}")
    try:
        return compare(
            expected.value,
            actual.value,
            device.device,
            values=values,
            strides=strides,
            cancelling=cancelling,
            nudged=nudged,
        )
    except Exception as error:  # reading the result back failed
        return Observation(problem=f"reading the result back raises {error_text(error)}")
