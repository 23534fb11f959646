"""tb-allocator under RMM, and so under cuDF, cuML and what else takes RMM's memory resources. Imports rmm.

    import tb_allocator.rmm
    tb_allocator.rmm.install()

The resource calls Python for every allocation, a microsecond or two; C++ programs use tb/memory_resource.h instead.
"""

from __future__ import annotations

from typing import Any

import rmm.mr

from . import foreign
from ._core import Buffer


class _Blocks:
    """The buffers behind the addresses that RMM holds."""

    def __init__(self, device: int) -> None:
        self.device = device
        self.live: dict[int, tuple[Buffer, int]] = {}

    def allocate(self, nbytes: int, stream: Any) -> int:
        native = _native(stream)
        buffer = foreign.allocate(nbytes, self.device, native)
        if buffer.ptr:
            self.live[buffer.ptr] = buffer, native
        return buffer.ptr

    def deallocate(self, address: int, nbytes: int, stream: Any) -> None:
        if not address:
            return
        buffer, native = self.live.pop(address)
        freed_on = _native(stream)
        if freed_on != native:
            foreign.record_stream(buffer, self.device, freed_on)
        buffer.free()


def _native(stream: Any) -> int:
    version, handle = stream.__cuda_stream__()
    if version != 0:
        raise ValueError(f"RMM's stream speaks version {version} of __cuda_stream__, but tb-allocator knows version 0")
    return int(handle)


def resource(device: int = 0) -> rmm.mr.CallbackMemoryResource:
    """A memory resource of RMM whose memory is tb-allocator's. RuntimeError where the driver is not CUDA's."""
    foreign.require_cuda("rmm")
    blocks = _Blocks(device)
    return rmm.mr.CallbackMemoryResource(blocks.allocate, blocks.deallocate)


def install(device: int = 0) -> None:
    """Make tb-allocator RMM's resource of a device, before RMM allocates there."""
    rmm.mr.set_per_device_resource(device, resource(device))
