"""The checks `inplace`, `inplace_view`, `inplace_expanded`: in-place on plain, strided and overlapping memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch

from torch_backend.conformance.case import Observation
from torch_backend.conformance.checks.forward import compare_calls
from torch_backend.conformance.device import Device
from torch_backend.conformance.device_copies import copy_tensor_to_device, copy_to_device
from torch_backend.conformance.profiles import Limits
from torch_backend.conformance.randomness import CPU
from torch_backend.conformance.samples import Sample, samples


def _plain(tensor: torch.Tensor) -> torch.Tensor | None:
    return copy_tensor_to_device(tensor, CPU.device)


def _view(tensor: torch.Tensor) -> torch.Tensor | None:
    """The same values as every second element of a larger buffer, whose other elements must stay as they are."""
    shape = tensor.shape or (1,)
    buffer = torch.zeros([*shape[:-1], 2 * shape[-1] + 1], dtype=tensor.dtype)
    buffer.fill_(1 if tensor.dtype == torch.bool else 3)
    view = buffer[..., 1::2] if tensor.dim() else buffer[1]
    return view.copy_(tensor)


def _expanded(tensor: torch.Tensor) -> torch.Tensor | None:
    """An expanded tensor: several elements share their memory."""
    if tensor.dim() == 0 or tensor.shape[0] < 2:
        return None
    return copy_tensor_to_device(tensor[:1], CPU.device).expand_as(tensor)


def _call(op: Any, sample: Sample, target: torch.Tensor, device: Device) -> Callable[[], Any]:
    variant = op.get_inplace()

    def call() -> Any:
        written = copy_to_device(target, device.device)
        _, rest, keywords = sample.values
        rest, keywords = copy_to_device((rest, keywords), device.device)
        result = variant(written, *rest, **keywords)
        return result, result is written, _memory(written)

    return call


def _memory(tensor: torch.Tensor) -> torch.Tensor:
    """All of the memory under a tensor, the gaps included."""
    if tensor.layout != torch.strided or tensor.is_conj() or tensor.is_neg():
        return tensor
    elements = tensor.untyped_storage().nbytes() // tensor.element_size()
    return tensor.as_strided((elements,), (1,), 0)


def _check(
    arrange: Callable[[torch.Tensor], torch.Tensor | None],
    errors_count: bool,
    device: Device,
    op: Any,
    dtype: torch.dtype,
    limits: Limits,
) -> Iterator[Observation]:
    for sample in samples(op, dtype, limits):
        target = sample.values[0]
        if sample.broadcasts_input or not isinstance(target, torch.Tensor) or target.layout != torch.strided:
            continue
        with torch.no_grad():
            arranged = arrange(target)
        if arranged is None:
            continue
        observation = compare_calls(
            _call(op, sample, arranged, CPU),
            _call(op, sample, arranged, device),
            device,
            uninitialised=op.has_nondeterministic_output,
            repeats=limits.repeats,
            statistics=False,
            strides=True,
            errors_count=errors_count,
        )
        observation.sample = sample.describe()
        yield observation


def inplace(device: Device, op: Any, dtype: torch.dtype, limits: Limits) -> Iterator[Observation]:
    """The operator writes to the tensor itself and returns it."""
    return _check(_plain, False, device, op, dtype, limits)


def inplace_view(device: Device, op: Any, dtype: torch.dtype, limits: Limits) -> Iterator[Observation]:
    """The operator writes to a view; the elements between those of the view must not change."""
    return _check(_view, False, device, op, dtype, limits)


def inplace_expanded(device: Device, op: Any, dtype: torch.dtype, limits: Limits) -> Iterator[Observation]:
    """The operator writes to an expanded tensor; most raise the CPU's exception."""
    return _check(_expanded, True, device, op, dtype, limits)
