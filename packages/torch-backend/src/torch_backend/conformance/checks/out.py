"""The check `out`: out= of the right shape, to be resized, with other strides, or of another dtype, as on the CPU.

out= on another device than the operands is refused, as on CUDA (checks/mixed_devices.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from torch_backend.conformance.bits import bit_identical
from torch_backend.conformance.case import Observation
from torch_backend.conformance.checks.forward import compare_calls
from torch_backend.conformance.checks.mixed_devices import problem_of_refusal, taken, values_problem
from torch_backend.conformance.device import Device
from torch_backend.conformance.device_copies import copy_to_device, tensors_in
from torch_backend.conformance.outcome import Outcome, attempt
from torch_backend.conformance.profiles import Limits
from torch_backend.conformance.randomness import CPU, reference
from torch_backend.conformance.samples import Sample, samples


def _filled(tensor: torch.Tensor) -> torch.Tensor:
    """Fills memory with a number that is not the result."""
    return tensor.fill_(1 if tensor.dtype == torch.bool else 77)


def _exact(result: torch.Tensor) -> torch.Tensor:
    return _filled(torch.empty_like(result))


def _to_resize(result: torch.Tensor) -> torch.Tensor:
    return _filled(torch.empty([*result.shape, 2], dtype=result.dtype))


def _empty(result: torch.Tensor) -> torch.Tensor:
    return torch.empty(0, dtype=result.dtype)


def _strided(result: torch.Tensor) -> torch.Tensor:
    """Dimensions in reverse order in memory, and every second element only, with spare memory on both sides."""
    shape = [*reversed(result.shape), 2]
    elements = math.prod(shape)
    spare = elements + SPARE_ELEMENTS
    memory = _filled(torch.empty(elements + 2 * spare, dtype=result.dtype))[spare : spare + elements].view(shape)
    return memory[..., 0].permute(*reversed(range(result.dim())))


def _other_dtype(result: torch.Tensor) -> torch.Tensor:
    """Integers for a floating-point result, which raises; otherwise a wider dtype, to which the result is converted."""
    other = torch.int64 if result.dtype.is_floating_point or result.dtype.is_complex else torch.float64
    return _filled(torch.empty_like(result, dtype=other))


VARIANTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "out of the right shape": _exact,
    "out to be resized": _to_resize,
    "empty out": _empty,
    "out with other strides": _strided,
    "out of another dtype": _other_dtype,
}
# Variants for which the CPU sometimes raises. Then the device must raise the same type.
ERRORS_COUNT = {"out of another dtype", "out to be resized"}

# Some kernels of PyTorch treat such an out= as contiguous and write outside of it (tril, triu and lu_unpack
# on batches). They write into the spare memory, where it does no harm and is noticed.
SPARE_ELEMENTS = 4096


def _call(op: Any, sample: Sample, out: Any, device: Device) -> Callable[[], Any]:
    def call() -> Any:
        given = copy_to_device(out, device.device)
        result, _ = sample.call(op.op, device.device, out=given)
        is_returned = [
            one is other
            for one, other in zip(pytree.tree_leaves(result), pytree.tree_leaves(given), strict=True)
            if isinstance(other, torch.Tensor)
        ]
        return result, given, is_returned

    return call


def _overruns(op: Any, sample: Sample, out: Any) -> bool:
    """Whether the CPU writes into the spare memory around such an out=, so that there is nothing to compare with."""
    given = copy_to_device(out, CPU.device)

    def spared() -> list[torch.Tensor]:
        return [part.clone() for tensor in tensors_in(given) for part in _spare_memory(tensor)]

    before = spared()
    attempt(CPU, lambda: sample.call(op.op, CPU.device, out=given))
    return not all(map(bit_identical, before, spared()))


def _spare_memory(tensor: torch.Tensor) -> list[torch.Tensor]:
    memory = tensor.as_strided((tensor.untyped_storage().nbytes() // tensor.element_size(),), (1,), 0)
    start = tensor.storage_offset()
    return [memory[:start], memory[memory.numel() - start :]]


def _holds_its_elements(tensor: torch.Tensor) -> bool:
    """Whether the memory is as large as sizes and strides say: a refused call must not leave sizes without memory."""
    if tensor.numel() == 0 or tensor.layout != torch.strided:
        return True
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return (tensor.storage_offset() + last + 1) * tensor.element_size() <= tensor.untyped_storage().nbytes()


def _places(device: Device) -> Iterator[tuple[str, torch.device, torch.device]]:
    """Names, the device of out=, the device of the operands."""
    for other in device.elsewhere():
        yield f"out on {other}", other, device.device
    if device.elsewhere():
        yield "operands on the CPU", device.device, CPU.device


def _is_listed(op: Any, dtype: torch.dtype) -> bool:
    """Whether mixed.toml lists the entry, for all types or for complex ones."""
    names = {op.full_name, f"{op.full_name} of complex numbers"} if dtype.is_complex else {op.full_name}
    return not names.isdisjoint(taken("out"))


def _elsewhere(
    device: Device, op: Any, sample: Sample, plain: Outcome, values: bool, listed: bool, took: list[bool]
) -> Iterator[Observation]:
    """out= on another device than the operands, of the right shape and empty. Notes in `took` which calls took it."""
    if not tensors_in(sample.values):
        return  # without a tensor among its arguments a call takes its device from out=
    for name, variant in ((name, VARIANTS[name]) for name in ("out of the right shape", "empty out")):
        built = pytree.tree_map(variant, plain.value)
        built = tuple(built) if isinstance(built, tuple) else built
        if attempt(CPU, _call(op, sample, built, CPU)).error is not None:
            continue
        for place, on, operands in _places(device):
            given = copy_to_device(built, on)
            value, problem = problem_of_refusal(device, lambda g=given, o=operands: sample.call(op.op, o, out=g)[0])  # type: ignore[misc]
            took.append(value is not None)
            if value is not None and not listed:
                problem = "takes out= on another device; mixed.toml does not list it under 'out'"
            elif value is not None and values:
                problem = values_problem(plain.value, value[0])
            elif not all(map(_holds_its_elements, tensors_in(given))):
                problem = "leaves out= with sizes that its memory does not hold"
            yield Observation(sample=f"{place}, {name}, {sample.describe()}", problem=problem)


def out(device: Device, op: Any, dtype: torch.dtype, limits: Limits) -> Iterator[Observation]:
    """Values, strides after the call, whether the call returns the given tensors, and exceptions."""
    took: list[bool] = []
    listed = _is_listed(op, dtype)
    for sample in samples(op, dtype, limits):
        plain, random = reference(lambda s=sample: s.call(op.op, CPU.device)[0])  # type: ignore[misc]
        leaves = pytree.tree_leaves(plain.value)
        if plain.error is not None or not leaves or not all(isinstance(leaf, torch.Tensor) for leaf in leaves):
            yield Observation(sample=sample.describe(), vacuous="the call without out= gives no tensors on the CPU")
            continue
        for name, variant in VARIANTS.items():
            built = attempt(CPU, lambda v=variant, p=plain: pytree.tree_map(v, p.value))  # type: ignore[misc]
            if built.error is not None:
                yield Observation(sample=name, vacuous=f"no such out= for this result: {built.error}")
                continue
            if isinstance(built.value, tuple):
                built.value = tuple(built.value)  # a named tuple of results is not what out= takes
            if variant is _strided and _overruns(op, sample, built.value):
                yield Observation(sample=name, vacuous="PyTorch writes outside of such an out= on the CPU")
                continue
            observation = compare_calls(
                _call(op, sample, built.value, CPU),
                _call(op, sample, built.value, device),
                device,
                uninitialised=op.has_nondeterministic_output or random,
                repeats=limits.repeats,
                statistics=False,
                strides=True,
                errors_count=name in ERRORS_COUNT,
            )
            observation.sample = f"{name}, {sample.describe()}"
            yield observation
        yield from _elsewhere(device, op, sample, plain, not (op.has_nondeterministic_output or random), listed, took)
    # A call that names its device takes out= on another one of the type only.
    second = any(place.type == device.device.type for place in device.elsewhere())
    if took and not any(took) and listed and second:
        yield Observation(problem="refuses out= on another device, but mixed.toml lists it; remove the entry")
