"""nn.DataParallel beside tb: a model on the CPU is called where it is, and one on tb is divided among the devices.

PyTorch takes the first kind of device that the process has, without asking where the model is: a program for the CPU
would find its model moved to tb. And the copies among devices are functions of torch._C that only builds for CUDA have.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import chain
from typing import Any

import torch
from torch import Tensor
from torch._utils import _get_available_device_type
from torch.nn.parallel import DataParallel


def divide_models_of_tb() -> None:
    """Replaces what PyTorch does where tb is the device that it would take. Called once, at import."""
    _leave_models_on_the_cpu()
    for function in (_broadcast, _broadcast_coalesced, _broadcast_out, _gather, _gather_out, _scatter, _scatter_out):
        stock = getattr(torch._C, function.__name__, None)
        setattr(torch._C, function.__name__, _unless_cuda(function, stock))


def _leave_models_on_the_cpu() -> None:
    stock_init, stock_forward = DataParallel.__init__, DataParallel.forward

    @functools.wraps(stock_init)
    def __init__(self: Any, module: torch.nn.Module, *arguments: Any, **keywords: Any) -> None:
        stays = _get_available_device_type() == "tb" and not _is_on_tb(module)  # type: ignore[no-untyped-call]
        stock_init(self, torch.nn.Module() if stays else module, *arguments, **keywords)  # moves what it is given
        self.module = module

    @functools.wraps(stock_forward)
    def forward(self: Any, *inputs: Any, **keywords: Any) -> Any:
        # Asked here and not above, because programs move the DataParallel object.
        if self.device_ids and self.src_device_obj.type == "tb" and not _is_on_tb(self.module):
            with torch.autograd.profiler.record_function("DataParallel.forward"):
                return self.module(*inputs, **keywords)
        return stock_forward(self, *inputs, **keywords)

    DataParallel.__init__ = __init__  # type: ignore[method-assign]
    DataParallel.forward = forward  # type: ignore[method-assign]


def _is_on_tb(module: torch.nn.Module) -> bool:
    return any(tensor.device.type == "tb" for tensor in chain(module.parameters(), module.buffers()))


def _unless_cuda(ours: Callable[..., Any], stock: Callable[..., Any] | None) -> Callable[..., Any]:
    @functools.wraps(ours)
    def call(*arguments: Any) -> Any:
        chosen = ours if stock is None or _get_available_device_type() == "tb" else stock  # type: ignore[no-untyped-call]
        return chosen(*arguments)

    return call


# The functions of torch._C, which torch.nn.parallel.comm calls. Devices are numbers; -1 is the CPU.


def _device(number: int | None) -> torch.device:
    if number is None:
        return torch.device("tb", torch.accelerator.current_device_index())
    return torch.device("cpu") if number < 0 else torch.device("tb", number)


def _on(streams: Sequence[torch.Stream | None] | None, number: int) -> AbstractContextManager[Any]:
    return (streams[number] if streams else None) or nullcontext()


def _scatter(
    tensor: Tensor,
    devices: Sequence[int],
    chunk_sizes: Sequence[int] | None,
    dim: int,
    streams: Sequence[torch.Stream | None] | None,
) -> list[Tensor]:
    chunks = tensor.chunk(len(devices), dim) if chunk_sizes is None else torch.split(tensor, list(chunk_sizes), dim)
    copies = []
    for number, chunk in enumerate(chunks):
        with _on(streams, number):
            copies.append(chunk.contiguous().to(_device(devices[number]), non_blocking=True))
    return copies


def _scatter_out(
    tensor: Tensor, out: Sequence[Tensor], dim: int, streams: Sequence[torch.Stream | None] | None
) -> Sequence[Tensor]:
    for number, chunk in enumerate(torch.split(tensor, [one.size(dim) for one in out], dim)):
        with _on(streams, number):
            out[number].copy_(chunk, non_blocking=True)
    return out


def _gather(tensors: Sequence[Tensor], dim: int, destination: int | None) -> Tensor:
    return torch.cat([tensor.to(_device(destination)) for tensor in tensors], dim)


def _gather_out(tensors: Sequence[Tensor], out: Tensor, dim: int) -> Tensor:
    for place, tensor in zip(torch.split(out, [one.size(dim) for one in tensors], dim), tensors, strict=True):
        place.copy_(tensor)
    return out


def _broadcast(tensor: Tensor, devices: Sequence[int]) -> list[Tensor]:
    return [tensor.to(_device(number), non_blocking=True) for number in devices]


def _broadcast_out(tensor: Tensor, out: Sequence[Tensor]) -> Sequence[Tensor]:
    for one in out:
        one.copy_(tensor, non_blocking=True)
    return out


def _broadcast_coalesced(tensors: Sequence[Tensor], devices: Sequence[int], buffer_size: int) -> list[list[Tensor]]:
    # Nothing is coalesced: a copy between devices of tb costs less than packing the tensors together.
    return [[tensor.to(_device(number), non_blocking=True) for tensor in tensors] for number in devices]
