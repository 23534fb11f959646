"""Kernels in images of the driver's module_load, called from Python or registered for an operator."""

from __future__ import annotations

import ctypes
import os
import pathlib
import struct
from collections.abc import Sequence

import torch

from . import _core

# The numbers of tb/kernels.h.
DTYPES = {
    torch.bool: 0,
    torch.uint8: 1,
    torch.int8: 2,
    torch.int16: 3,
    torch.int32: 4,
    torch.int64: 5,
    torch.float16: 6,
    torch.bfloat16: 7,
    torch.float32: 8,
    torch.float64: 9,
    torch.complex64: 10,
    torch.complex128: 11,
}

Argument = torch.Tensor | int | float | None | ctypes._SimpleCData | ctypes.Structure  # type: ignore[type-arg]


class DeviceKernel:
    """A kernel in an image. load_kernel() makes it; it is loaded on a device when it first runs there."""

    def __init__(self, image: bytes, entry: str, source: str) -> None:
        self.entry = entry
        self.source = source
        self._image = _core.image(image, entry)

    def __repr__(self) -> str:
        return f"DeviceKernel({self.entry!r} of {self.source})"

    def __call__(
        self, *arguments: Argument, grid: Sequence[int] | None = None, block: int | Sequence[int] = 256, shared: int = 0
    ) -> None:
        """Queues a launch on the current stream, on the device of the tensors.

        Args:
            arguments: the kernel's parameters (tb/image_kernel.h): a tensor is a tb_image_tensor, None an absent one,
                an int or bool an int64_t, a float a double, and a value of ctypes its bytes.
            grid: blocks in up to three dimensions; by default a thread for each element of the last tensor.
            block: threads of a block; with the default grid the most of a block.
            shared: bytes of shared memory.

        Raises:
            RuntimeError: the tensors are not contiguous ones of one tb device, or the driver refuses the launch.
            NotImplementedError: the driver loads no images.
            TypeError: an argument is of another type.
        """
        tensors = [each for each in arguments if isinstance(each, torch.Tensor)]
        devices = {each.device for each in tensors}
        if len(devices) != 1 or (device := devices.pop()).type != "tb":
            found = ", ".join(sorted(str(each.device) for each in tensors)) or "no tensor"
            raise RuntimeError(
                f"{self.entry} needs tensors of one tb device, and got {found}. Move them with .to(device)"
            )
        parameters = [self._parameter(each) for each in arguments]
        number = device.index or 0
        if grid is not None:
            threads = _three([block] if isinstance(block, int) else block, "block")
            _core.launch_image(self._image, number, _three(grid, "grid"), threads, shared, parameters)
        elif isinstance(block, int) and shared == 0:
            _core.launch_image_elements(self._image, number, tensors[-1].numel(), block, parameters)
        else:
            raise TypeError(f"{self.entry}: a block of several dimensions, or shared memory, needs a grid: pass grid=")

    def register(self, operation: str, *, dtypes: Sequence[torch.dtype] = (torch.float32,), block: int = 256) -> None:
        """Lets the kernel serve an operator of PyTorch or of another library, for the life of the process.

        All forms of the operator run by it: the kernel's parameters are the operator's arguments in the schema's
        order, then its outputs. Calls with tensors of other dtypes, or with an argument that is no parameter of an
        image, run as before. vendor_kernels() counts both.

        Args:
            operation: the overload with out=, such as "aten::mul.out".
            dtypes: what all tensors of a call must be of.
            block: the most threads of a block; there is a thread for each element of the last output.

        Raises:
            RuntimeError: the operator does not exist, has no such form, or an argument that no image takes.
        """
        bits = 0
        for dtype in dtypes:
            if dtype not in DTYPES:
                raise ValueError(f"{self.entry} cannot serve {dtype}: take some of {', '.join(map(str, DTYPES))}")
            bits |= 1 << DTYPES[dtype]
        _core.serve_by_image(self._image, operation, self.source, bits, block)

    def _parameter(self, argument: Argument) -> bytes:
        match argument:
            case torch.Tensor():
                return _core.image_parameter(argument)
            case None:
                return _core.image_parameter(None)
            case int():
                return struct.pack("q", argument)
            case float():
                return struct.pack("d", argument)
            case ctypes._SimpleCData() | ctypes.Structure():
                return bytes(argument)
        raise TypeError(f"{self.entry} takes tensors, numbers, None and values of ctypes, and not {type(argument)}")


def load_kernel(image: bytes | str | os.PathLike[str], entry: str) -> DeviceKernel:
    """The kernel `entry` of an image that the driver's module_load takes, as bytes or as a file.

    What an image is, is the driver's matter: a cubin or PTX for CUDA, a shared object of tb/host_kernel.h for the
    drivers cpu and sim.
    """
    if isinstance(image, bytes):
        return DeviceKernel(image, entry, "an image of the program")
    return DeviceKernel(pathlib.Path(image).read_bytes(), entry, os.fspath(image))


def _three(given: Sequence[int], name: str) -> tuple[int, int, int]:
    if not 1 <= len(given) <= 3:
        raise TypeError(f"{name} has one to three dimensions, and not {len(given)}")
    x, y, z = (*given, 1, 1)[:3]
    return x, y, z


def serve_by_image(file: str, entry: str, operation: str, dtypes: str, block: int) -> None:
    """For generated operators: load_kernel and register in one, with the names of dtypes as a text with commas."""
    kernel = load_kernel(file, entry)
    kernel.register(operation, dtypes=[getattr(torch, name) for name in dtypes.split(",")], block=block)
