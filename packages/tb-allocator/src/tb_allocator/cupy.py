"""tb-allocator under CuPy. Imports cupy.

import tb_allocator.cupy
tb_allocator.cupy.install()
"""

from __future__ import annotations

from typing import Any

import cupy

from . import foreign
from ._core import Buffer, pinned


def allocator(nbytes: int) -> Any:
    """A cupy.cuda.MemoryPointer of memory for CuPy's current device and stream, as cupy.cuda.set_allocator() wants it.

    Raises tb_device.OutOfMemoryError with the figures, RuntimeError where the driver is not CUDA's.
    """
    foreign.require_cuda("cupy")
    device = cupy.cuda.device.get_device_id()
    buffer = foreign.allocate(nbytes, device, cupy.cuda.get_current_stream().ptr)
    return cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(buffer.ptr, nbytes, buffer, device), 0)


class _Pinned:
    """What cupy.cuda.PinnedMemoryPointer reads of its memory, kept as long as the pointer."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.ptr = buffer.ptr
        self.size = buffer.nbytes


def pinned_allocator(nbytes: int) -> Any:
    """A cupy.cuda.PinnedMemoryPointer, as cupy.cuda.set_pinned_memory_allocator() wants it. Raises as allocator()."""
    foreign.require_cuda("cupy")
    return cupy.cuda.PinnedMemoryPointer(_Pinned(pinned(nbytes)), 0)


def install() -> None:
    """Make tb-allocator CuPy's allocator of device and of pinned memory, for all threads."""
    foreign.require_cuda("cupy")
    cupy.cuda.set_allocator(allocator)
    cupy.cuda.set_pinned_memory_allocator(pinned_allocator)
