"""The check `out`: out= of the right shape, to be resized, with other strides, or of another dtype, as on the CPU."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from torch_backend.conformance.bits import bit_identical
from torch_backend.conformance.case import Observation
from torch_backend.conformance.checks.forward import compare_calls
from torch_backend.conformance.device import Device
from torch_backend.conformance.device_copies import copy_to_device, tensors_in
from torch_backend.conformance.outcome import attempt
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


def out(device: Device, op: Any, dtype: torch.dtype, limits: Limits) -> Iterator[Observation]:
    """Values, strides after the call, whether the call returns the given tensors, and exceptions."""
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
