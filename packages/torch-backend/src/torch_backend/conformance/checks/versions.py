"""The check `versions`: calls increment the `_version` of the same arguments, and as often, as on the CPU.

Autograd refuses a backward pass over a saved tensor whose `_version` has changed. A device whose kernels do not count
their writes returns wrong gradients there without an error.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._foreach_utils import _get_foreach_kernels_supported_devices

from torch_backend.conformance.case import Observation
from torch_backend.conformance.checks import optimizers
from torch_backend.conformance.device import Device
from torch_backend.conformance.device_copies import copy_to_device, tensors_in
from torch_backend.conformance.outcome import agree, attempt
from torch_backend.conformance.profiles import Limits
from torch_backend.conformance.randomness import CPU
from torch_backend.conformance.samples import Sample, choose, samples

# How often an argument is written depends on the kernel and not on values, so a few samples are enough.
MOST_SAMPLES = 4

Modifications = list[int]
Call = Callable[[Device], Modifications]


def _counted(tensors: list[torch.Tensor], call: Callable[[], Any]) -> Modifications:
    """How often the call modified each of the tensors, by their `_version`."""
    before = [tensor._version for tensor in tensors]
    call()
    return [tensor._version - version for tensor, version in zip(tensors, before, strict=True)]


def _plain(op: Any, sample: Sample) -> Call | None:
    return lambda device: _modifications(op.op, sample, device)


def _in_place(op: Any, sample: Sample) -> Call | None:
    variant = op.get_inplace()
    if variant is None or sample.broadcasts_input:
        return None
    return lambda device: _modifications(variant, sample, device)


def _out(op: Any, sample: Sample) -> Call | None:
    if not op.supports_out or op.full_name.startswith("_foreach_"):  # there it means an out-of-place variant
        return None
    plain = attempt(CPU, lambda: sample.call(op.op, CPU.device)[0])
    leaves = pytree.tree_leaves(plain.value)
    if not leaves or not all(isinstance(leaf, torch.Tensor) for leaf in leaves):
        return None
    out = pytree.tree_map(torch.empty_like, plain.value)
    out = tuple(out) if isinstance(out, tuple) else out  # a named tuple of results is not what out= takes
    return lambda device: _modifications(op.op, sample, device, out)


def _modifications(function: Callable[..., Any], sample: Sample, device: Device, out: Any = None) -> Modifications:
    positional, keywords = sample.arguments(device.device)
    if out is not None:
        keywords |= {"out": copy_to_device(out, device.device)}

    def call() -> None:
        with torch.no_grad():
            function(*positional, **keywords)

    return _counted(tensors_in((positional, keywords)), call)


def _forced(op: Any, sample: Sample) -> Call | None:
    """In place on lists, with the CPU's kernel, if the device has a way to force it."""
    variant = op.get_inplace()
    if variant is None or sample.broadcasts_input or not op.full_name.startswith("_foreach_"):
        return None
    overloads = [f"aten::{variant.__name__}.{name}".removesuffix(".default") for name in _overloads(variant.__name__)]

    def call(device: Device) -> Modifications:
        force = getattr(device.module, "force_fallback", None)
        with contextlib.nullcontext() if force is None else force(*overloads):
            return _modifications(variant, sample, device)

    return call


def _overloads(name: str) -> list[str]:
    return [str(overload) for overload in getattr(torch.ops.aten, name).overloads()]


VARIANTS: dict[str, Callable[[Any, Sample], Call | None]] = {
    "plain": _plain,
    "in place": _in_place,
    "in place, by the CPU's kernel": _forced,
    "out=": _out,
}


def _operator(op: Any, dtype: torch.dtype, limits: Limits) -> Iterator[tuple[str, Call]]:
    for sample in samples(op, dtype, limits):
        for name, variant in VARIANTS.items():
            call = variant(op, sample)
            if call is not None:
                yield f"{name}, {sample.describe()}", call


# ---- optimizers --------------------------------------------------------------------------------------------------


def _steps(info: Any, keywords: dict[str, Any], dtype: torch.dtype, device: Device) -> Modifications:
    """How often the second step modifies parameters, gradients and state. The first step makes the state."""
    given = optimizers.initial_parameters(dtype, device)
    if keywords.get("differentiable"):
        given = [leaf.clone() for leaf in given]
    optimizer = info.optim_cls(given, **copy.deepcopy(keywords))
    optimizers.train(info, optimizer, given, 1)
    gradients = [parameter.grad for parameter in given if parameter.grad is not None]
    written = [*given, *gradients, *tensors_in(optimizer.state_dict()["state"])]
    return _counted(written, lambda: optimizer.step(lambda: torch.zeros(())))


def _optimizer(info: Any, dtype: torch.dtype, limits: Limits, device: Device) -> Iterator[tuple[str, Call]]:
    """By default an accelerator runs the implementation for lists, and the CPU that for single tensors."""
    takes_lists = device.device.type in _get_foreach_kernels_supported_devices()
    listed = optimizers.configurations(info)
    for description, keywords in choose(listed, limits, f"{info.name} {dtype}", lambda _: 0):
        chosen = any(name in keywords for name in ("foreach", "fused", "differentiable"))
        lists = {"foreach": True} if takes_lists and not chosen and "foreach" in info.supported_impls else {}

        def call(device: Device, given: dict[str, Any] = keywords, on_cpu: dict[str, Any] = lists) -> Modifications:
            return _steps(info, given | (on_cpu if device is CPU else {}), dtype, device)

        yield description, call


def versions(device: Device, info: Any, dtype: torch.dtype, limits: Limits) -> Iterator[Observation]:
    """Every variant of a call: how often each tensor among its arguments was modified."""
    fewer = dataclasses.replace(limits, samples=min(limits.samples or MOST_SAMPLES, MOST_SAMPLES))
    is_optimizer = hasattr(info, "optim_cls")
    for description, call in _optimizer(info, dtype, limits, device) if is_optimizer else _operator(info, dtype, fewer):
        expected = attempt(CPU, lambda c=call: c(CPU))  # type: ignore[misc]
        actual = attempt(device, lambda c=call: c(device))  # type: ignore[misc]
        observation = agree(expected, actual, device, values=False)
        if expected.error is None and actual.error is None and expected.value != actual.value:
            observation.problem = f"the arguments are modified {actual.value} times; on the CPU {expected.value} times"
        observation.sample = description
        yield observation
