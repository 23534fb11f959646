"""The check `origins`: whether an exception is raised at the call or at the next wait, if the operator has run before.

A device that queues work may raise late what depends on values. Other errors must be raised at the call, and not only
at the first one with new types or shapes, for which a device may wait. So each invalid call follows two valid ones, by
itself and under a mode. late.toml lists the operators that raise late, for each type of device: these must, and others
must not.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import pathlib
import tomllib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from torch_backend.conformance.case import Observation
from torch_backend.conformance.checks.forward import caller
from torch_backend.conformance.databases import usual_first
from torch_backend.conformance.device import Device
from torch_backend.conformance.device_copies import tensors_in
from torch_backend.conformance.outcome import attempt
from torch_backend.conformance.profiles import Limits
from torch_backend.conformance.randomness import CPU
from torch_backend.conformance.samples import Sample, from_sample_input, samples, seed_everything

LATE = pathlib.Path(__file__).parent.parent / "late.toml"
GOOD_CALLS = 2
# Equal for all profiles: which of the listed operators raise late must not depend on the profile.
LIMITS = Limits(samples=12, window=64, elements=5_000, repeats=0)
# PyTorch's CPU kernels end the process when they meet NaN.
NAN_CRASHES = frozenset({"linalg.eigvals"})


class PassOn(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that changes nothing, but through which every operator passes."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


MODES: dict[str, Callable[[], contextlib.AbstractContextManager[Any]]] = {
    "plain": contextlib.nullcontext,
    "under a mode": PassOn,
}


@functools.cache
def late_operators(device_type: str) -> frozenset[str]:
    """The entries that raise at the next wait."""
    return frozenset(tomllib.loads(LATE.read_text()).get(device_type, []))


def origin(device: Device, call: Callable[[], Any]) -> str | None:
    """Where the call's exception is raised; None if there is none."""
    device.drain()
    try:
        call()
    except Exception:
        device.drain()
        return "at the call"
    try:
        device.synchronize()
    except Exception:
        device.drain()
        return "at the next wait"
    return None


def _error_inputs(op: Any, limits: Limits) -> Iterator[tuple[str, Sample, list[Sample]]]:
    """The database's error inputs, each with good samples of its first tensor's dtype."""
    if op.error_inputs_func is None:
        return
    seed_everything(limits.seed)
    good: dict[torch.dtype, list[Sample]] = {}
    for error_input in list(op.error_inputs("cpu", set_seed=False)):
        bad = from_sample_input(error_input.sample_input)
        given = {tensor.dtype for tensor in tensors_in(bad.values)} & set(op.dtypes)
        for dtype in sorted(given, key=usual_first)[:1]:
            if dtype not in good:
                good[dtype] = samples(op, dtype, limits)
            yield "error input", bad, good[dtype]


def _spoiled(op: Any, limits: Limits) -> Iterator[tuple[str, Sample, list[Sample]]]:
    """Samples with NaN for all their numbers, each with the sample itself: the same types and shapes."""

    def nan(value: Any) -> Any:
        spoils = isinstance(value, torch.Tensor) and value.layout == torch.strided and value.is_floating_point()
        return torch.full_like(value, float("nan")) if spoils else value

    floating = [dtype for dtype in op.dtypes if dtype.is_floating_point and op.full_name not in NAN_CRASHES]
    for dtype in sorted(floating, key=usual_first)[:1]:
        for sample in samples(op, dtype, limits):
            bad = dataclasses.replace(sample, values=pytree.tree_map(nan, sample.values))
            yield "NaN", bad, [sample] * GOOD_CALLS


def origins(device: Device, op: Any, _: torch.dtype, limits: Limits) -> Iterator[Observation]:
    """Error inputs, and samples filled with NaN, that raise on the CPU."""
    may_be_late, was_late, shown = op.full_name in late_operators(device.device.type), False, False
    chosen = dataclasses.replace(LIMITS, seed=limits.seed)
    for kind, bad, good in [*_error_inputs(op, chosen), *_spoiled(op, chosen)]:
        if was_late and may_be_late:
            break  # the others prove nothing more
        if attempt(CPU, caller(op.op, bad, CPU)).error is None:
            continue
        for name, mode in MODES.items():
            observation = Observation(sample=f"{name}, {kind}, {bad.describe()}")
            with mode():
                for sample in good[:GOOD_CALLS]:
                    attempt(device, caller(op.op, sample, device))
                found = origin(device, caller(op.op, bad, device))
            was_late, shown = was_late or found == "at the next wait", True
            if found is None:
                observation.problem = "does not raise after good calls; the CPU does"
            elif found == "at the next wait" and not may_be_late:
                observation.problem = "raises at the next wait; late.toml does not list the operator"
            yield observation
    if may_be_late and not was_late and not device.fallbacks():  # a fallback raises at the call
        yield Observation(problem="raises at the call, but late.toml says that it raises late; remove the entry")
    if not shown and not may_be_late:
        yield Observation(vacuous="the CPU raises for none of the samples")
