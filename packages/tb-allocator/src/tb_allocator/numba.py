"""tb-allocator under Numba's CUDA target, as an External Memory Management plugin. Imports numba.cuda.

Set NUMBA_CUDA_MEMORY_MANAGER=tb_allocator.numba, or before the first CUDA context:

    import tb_allocator.numba
    tb_allocator.numba.install()

Numba allocates for no stream in particular: memory is ready for work on the default stream and is used again in its
order. Synchronise streams made with flag non-blocking before an array that they use ends.
"""

from __future__ import annotations

from typing import Any

from numba import cuda

from . import foreign
from ._core import mem_get_info


class MemoryManager(cuda.HostOnlyCUDAMemoryManager):  # type: ignore[misc]
    """Device memory from tb-allocator; pinned and mapped host memory stays Numba's."""

    def initialize(self) -> None:
        """Called for every context. RuntimeError where the driver is not CUDA's."""
        foreign.require_cuda("numba")

    def memalloc(self, size: int) -> Any:
        """A numba.cuda.MemoryPointer to `size` bytes. Raises tb_device.OutOfMemoryError."""
        buffer = foreign.allocate(size, self.context.device.id, 0)
        address = buffer.ptr
        allocations = self.allocations  # that Numba clears when the context ends
        allocations[address] = buffer

        def finalizer() -> None:
            allocations.pop(address, None)

        return cuda.MemoryPointer(self.context, _device_pointer(address), size, finalizer=finalizer)

    def get_ipc_handle(self, memory: Any) -> Any:
        """NotImplementedError: pages that move have no handle of CUDA's old kind."""
        raise NotImplementedError(
            "tb-allocator's memory cannot be opened in another process by Numba: allocate what is shared from "
            "tb_allocator.Arena(contiguous=True)"
        )

    def get_memory_info(self) -> Any:
        """numba.cuda.MemoryInfo with the free and the total bytes of the device."""
        return cuda.MemoryInfo(*mem_get_info(self.context.device.id))

    @property
    def interface_version(self) -> int:
        """Of Numba's plugin interface."""
        return 1


def _device_pointer(address: int) -> Any:
    try:
        from cuda.bindings.driver import CUdeviceptr
    except ImportError:  # a Numba with bindings of its own
        import ctypes

        return ctypes.c_uint64(address)
    return CUdeviceptr(address)


_numba_memory_manager = MemoryManager  # by this name Numba finds it


def install() -> None:
    """Make tb-allocator the memory manager of all CUDA contexts to come."""
    cuda.set_memory_manager(MemoryManager)
