"""Fake convolutions of tb have the memory format of the real ones, which is the CPU's.

PyTorch predicts the memory format from the device's name, and predicts contiguous results for devices that it does not
know. Compiled code would read the real results with wrong strides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

_Implementation = Callable[..., Any]


def follow_the_cpu() -> None:
    """Replaces PyTorch's prediction for convolutions whose input is on tb."""
    from torch._subclasses import fake_impls

    table: dict[Any, _Implementation] = fake_impls.op_implementations_dict
    aten = torch.ops.aten
    for operator in (aten.convolution.default, aten._convolution.default, aten.convolution_backward.default):
        table[operator] = _predicting(table[operator])


def _predicting(stock: _Implementation) -> _Implementation:
    from torch._subclasses.fake_tensor import FakeTensor, in_kernel_invocation_manager
    from torch.utils._pytree import tree_map_only

    def on(mode: Any, values: Any, device: torch.device) -> Any:
        def move(tensor: torch.Tensor) -> torch.Tensor:
            with in_kernel_invocation_manager(mode):
                like = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")
            return FakeTensor(mode, like, device)

        return tree_map_only(FakeTensor, move, values)

    def predict(fake_mode: Any, func: Any, *arguments: Any, **keywords: Any) -> Any:
        given = [*arguments, *keywords.values()]
        device = next(value.fake_device for value in given if isinstance(value, FakeTensor))
        if device.type != "tb":
            return stock(fake_mode, func, *arguments, **keywords)
        on_cpu = on(fake_mode, (arguments, keywords), torch.device("cpu"))
        return on(fake_mode, stock(fake_mode, func, *on_cpu[0], **on_cpu[1]), device)

    return predict
