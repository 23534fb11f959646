"""The check `forward`: an operator's results, and its arguments after the call, compared with the CPU's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from torch_backend.conformance.case import Observation
from torch_backend.conformance.device import Device
from torch_backend.conformance.outcome import Outcome, agree, attempt
from torch_backend.conformance.profiles import Limits
from torch_backend.conformance.randomness import CPU, SEED, agree_statistically, reference, same
from torch_backend.conformance.samples import Sample, samples

NUDGES = 3
FURTHER_RUNS = 8  # of the CPU, for an outcome that does not agree with the first


def nudged_calls(make: Callable[[Sample], Callable[[], Any]], sample: Sample) -> list[Callable[[], Any]]:
    """Calls whose arguments differ from the sample's in the last bit; they compute nothing before they are called."""
    return [lambda seed=seed: make(sample.nudged(seed))() for seed in range(NUDGES)]  # type: ignore[misc]


def caller(op: Callable[..., Any], sample: Sample, device: Device) -> Callable[[], Any]:
    """A call that makes new arguments each time and returns the result and the arguments after the call."""

    return lambda: sample.call(op, device.device)


def compare_calls(
    cpu_call: Callable[[], Any],
    device_call: Callable[[], Any],
    device: Device,
    *,
    uninitialised: bool,
    repeats: int,
    statistics: bool = True,
    strides: bool = False,
    cancelling: bool = False,
    errors_count: bool = False,
    nudged: Sequence[Callable[[], Any]] = (),
) -> Observation:
    """Compares the device's outcome with the CPU's: values, or statistics if the values depend on the generator.

    Some CPU kernels give other values from run to run. So an outcome that does not agree is compared with further runs
    of the CPU, as far as they differ from the first, and has to agree with one of them.
    """
    expected, random = reference(cpu_call)
    if random and statistics and not uninitialised:
        return agree_statistically(expected, cpu_call, device_call, device, repeats)
    device.seed(SEED)
    outcome = attempt(device, device_call)

    def against(one: Outcome) -> Observation:
        return agree(
            one,
            outcome,
            device,
            values=not (random or uninitialised),
            strides=strides,
            cancelling=cancelling,
            errors_count=errors_count,
            nudged=nudged,
        )

    observation = against(expected)
    if not observation.problem or expected.error is not None:
        return observation
    for _ in range(FURTHER_RUNS):
        again, _ = reference(cpu_call)
        if again.error is None and not same(expected.value, again.value):
            other = against(again)
            if not other.problem:
                return other
    return observation


def forward(device: Device, op: Any, dtype: torch.dtype, limits: Limits) -> Iterator[Observation]:
    """Every sample: values, dtypes, shapes and device of the results, and the arguments after the call."""
    for index, sample in enumerate(samples(op, dtype, limits)):
        observation = compare_calls(
            caller(op.op, sample, CPU),
            caller(op.op, sample, device),
            device,
            uninitialised=op.has_nondeterministic_output,
            repeats=limits.repeats,
            # The statistics of a few samples are enough; the others still compare everything else.
            statistics=index < 4,
            nudged=nudged_calls(lambda moved: caller(op.op, moved, CPU), sample),
        )
        observation.sample = sample.describe()
        yield observation
