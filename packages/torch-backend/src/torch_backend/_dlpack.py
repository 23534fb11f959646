"""Tensor.__dlpack_device__ for tb.

torch compares the device type with the string "privateuse1", which a renamed backend never has, and raises ValueError.
This file can be removed when `torch.ones(1, device="tb").__dlpack_device__()` works without it:
tests/test_dlpack.py fails then.
"""

import enum
import functools

import torch
from torch.overrides import has_torch_function_unary


def repair() -> None:
    """Wraps torch.Tensor.__dlpack_device__; for other devices and for subclasses the original runs."""
    original = torch.Tensor.__dlpack_device__

    @functools.wraps(original)
    def __dlpack_device__(self: torch.Tensor) -> tuple[enum.IntEnum, int]:
        if has_torch_function_unary(self) or self.device.type != "tb":
            return original(self)
        from torch.utils.dlpack import DLDeviceType

        return DLDeviceType.kDLExtDev, self.device.index or 0

    torch.Tensor.__dlpack_device__ = __dlpack_device__  # type: ignore[method-assign]
