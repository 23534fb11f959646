"""The check `layout`: arguments of any strides and memory format; strides of the results, and what they alias."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import torch

from torch_backend.conformance.case import Observation
from torch_backend.conformance.checks.forward import compare_calls
from torch_backend.conformance.device import Device
from torch_backend.conformance.device_copies import tensors_in
from torch_backend.conformance.profiles import Limits
from torch_backend.conformance.randomness import CPU
from torch_backend.conformance.samples import Sample, samples


def _as_is(tensor: torch.Tensor) -> torch.Tensor:
    return tensor


def _with_gaps(tensor: torch.Tensor) -> torch.Tensor:
    """Every second element of a buffer."""
    if tensor.dim() == 0:
        return tensor
    buffer = torch.zeros([*tensor.shape, 2], dtype=tensor.dtype)
    return buffer[..., 0].copy_(tensor)


def _transposed(tensor: torch.Tensor) -> torch.Tensor:
    """The last two dimensions in the other order in memory."""
    return tensor.mT.contiguous().mT if tensor.dim() >= 2 else tensor


def channels_last(tensor: torch.Tensor) -> torch.Tensor:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return tensor.contiguous(memory_format=formats[tensor.dim()]) if tensor.dim() in formats else tensor


VARIANTS = {"as is": _as_is, "with gaps": _with_gaps, "transposed": _transposed, "channels last": channels_last}


def arranged(sample: Sample, variant: Callable[[torch.Tensor], torch.Tensor]) -> tuple[Any, bool]:
    """The sample's arguments in another layout, and whether any stride changed."""
    changed = False

    def leaf(value: Any) -> Any:
        nonlocal changed
        if not isinstance(value, torch.Tensor) or value.layout != torch.strided or value.is_quantized:
            return value
        if value.is_conj() or value.is_neg() or type(value) is not torch.Tensor:
            return value
        with torch.no_grad():
            moved = variant(value.detach())
        changed = changed or moved.stride() != value.stride()
        return moved

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: walk(member) for key, member in value.items()}
        if type(value) in (list, tuple):
            return type(value)(walk(member) for member in value)
        return leaf(value)

    return walk(sample.values), changed


def _aliases(results: Any, arguments: Any) -> list[int | None]:
    """For each result, the index of the first argument whose memory it shares; None if there is none."""

    def memory(tensor: torch.Tensor) -> int | None:
        if tensor.layout != torch.strided or tensor.untyped_storage().nbytes() == 0:
            return None
        return tensor.untyped_storage().data_ptr()

    places = [memory(tensor) for tensor in tensors_in(arguments)]
    found = [memory(tensor) for tensor in tensors_in(results)]
    return [places.index(place) if place is not None and place in places else None for place in found]


def _call(op: Any, sample: Sample, device: Device) -> Callable[[], Any]:
    def call() -> Any:
        result, arguments = sample.call(op.op, device.device)
        return result, _aliases(result, arguments)

    return call


def layout(device: Device, op: Any, dtype: torch.dtype, limits: Limits) -> Iterator[Observation]:
    """Values and strides for every layout of the arguments that differs from the sample's own."""
    for sample in samples(op, dtype, limits):
        for name, variant in VARIANTS.items():
            values, changed = arranged(sample, variant)
            given = dataclasses.replace(sample, values=values)
            if not changed and name != "as is":
                continue
            observation = compare_calls(
                _call(op, given, CPU),
                _call(op, given, device),
                device,
                uninitialised=op.has_nondeterministic_output,
                repeats=limits.repeats,
                statistics=False,
                strides=True,
                errors_count=name != "as is",
            )
            observation.sample = f"{name}, {sample.describe()}"
            yield observation
