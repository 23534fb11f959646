"""The check `second_device`: all arguments are on a device of the type that is not the current one.

Results, gradients, in-place and out= variants are compared with the CPU's. The results must be on that device, the
current device must stay what it is, and neither memory nor random numbers of the current device may be used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from torch_backend.conformance.case import Observation
from torch_backend.conformance.checks.forward import compare_calls
from torch_backend.conformance.checks.gradients import first_gradients
from torch_backend.conformance.comparison import flatten
from torch_backend.conformance.device import Device
from torch_backend.conformance.device_copies import copy_to_device
from torch_backend.conformance.outcome import attempt
from torch_backend.conformance.profiles import Limits
from torch_backend.conformance.randomness import CPU, SEED, reference
from torch_backend.conformance.samples import Sample, samples

Call = Callable[[], Any]


def _forward(op: Any, sample: Sample, device: Device) -> Call:
    return lambda: sample.call(op.op, device.device)


def _in_place(op: Any, sample: Sample, device: Device) -> Call:
    def call() -> Any:
        positional, named = sample.arguments(device.device)
        return op.get_inplace()(*positional, **named)

    return call


def _out(op: Any, sample: Sample, device: Device, like: Any) -> Call:
    return lambda: sample.call(op.op, device.device, out=copy_to_device(like, device.device))[0]


def _calls(op: Any, sample: Sample, plain: Any) -> Iterator[tuple[str, Callable[[Device], Call]]]:
    """Names, and functions that make the call for a device."""
    yield "forward", lambda device: _forward(op, sample, device)
    if op.get_inplace() is not None and not sample.broadcasts_input:
        yield "in place", lambda device: _in_place(op, sample, device)
    if op.supports_out and plain is not None:
        like = pytree.tree_map(torch.empty_like, plain)
        yield "out", lambda device: _out(op, sample, device, tuple(like) if isinstance(like, tuple) else like)


def _every_call(op: Any, dtype: torch.dtype, limits: Limits) -> Iterator[tuple[str, Callable[[Device], Call]]]:
    for sample in samples(op, dtype, limits):
        plain, _ = reference(lambda s=sample: s.call(op.op, CPU.device)[0])  # type: ignore[misc]
        if plain.error is not None:
            continue
        leaves = pytree.tree_leaves(plain.value)
        tensors = bool(leaves) and all(isinstance(leaf, torch.Tensor) for leaf in leaves)
        for name, make in _calls(op, sample, plain.value if tensors else None):
            yield f"{name}, {sample.describe()}", make
    if op.supports_autograd and dtype in op.supported_backward_dtypes("cpu"):
        for sample in samples(op, dtype, limits, requires_grad=True):
            yield f"gradients, {sample.describe()}", lambda device, s=sample: first_gradients(op, s, device)  # type: ignore[misc]


class _Current:
    """What the current device has before a call: its number, memory and random state."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.before = self._state()

    def _state(self) -> dict[str, Any]:
        module, index = self.device.module, self.device.device.index or 0
        state: dict[str, Any] = {"current device": module.current_device()}
        if hasattr(module, "memory_stats"):
            state["number of allocations"] = module.memory_stats(index).get("allocation.all.allocated")
        if hasattr(module, "get_rng_state"):
            state["random state"] = module.get_rng_state(index).tolist()
        return state

    def problem(self) -> str | None:
        for name, now in self._state().items():
            if now != self.before[name]:
                return f"the {name} of {self.device.device} was {self.before[name]} before the call and is {now}"
        return None


def second_device(device: Device, op: Any, dtype: torch.dtype, limits: Limits) -> Iterator[Observation]:
    """Every sample, on the device that Device.second() names."""
    second = device.second()
    if second is None:
        yield Observation(vacuous="the type has one device only")
        return
    there = device.of(second)
    for name, make in _every_call(op, dtype, limits):
        device.seed(SEED)  # as the comparison does
        device.synchronize()
        current = _Current(device)
        observation = compare_calls(
            make(CPU),
            make(there),
            there,
            uninitialised=op.has_nondeterministic_output,
            repeats=limits.repeats,
            statistics=False,
            cancelling=name.startswith("gradients"),
        )
        observation.problem = observation.problem or current.problem() or _elsewhere(make(there), there)
        observation.sample = name
        yield observation


def _elsewhere(call: Call, there: Device) -> str | None:
    outcome = attempt(there, call)
    for leaf in flatten(outcome.value):
        if isinstance(leaf, torch.Tensor) and leaf.device.type == there.device.type and leaf.device != there.device:
            return f"a result is on {leaf.device}, the arguments are on {there.device}"
    return None
