"""tb-allocator under `torch.cuda`, by PyTorch's own hook for allocators. Imports torch; torch-backend is not needed.

    import tb_allocator.torch
    tb_allocator.torch.install()  # before the first tensor on a CUDA device

Statistics and snapshots are tb_allocator's: those of torch.cuda know nothing of an allocator that is plugged in.
"""

from __future__ import annotations

import ctypes
from typing import Any

import torch.cuda.memory

from . import _core, foreign

# PyTorch's setters of what is optional, and our functions.
_OPTIONAL = {
    "set_record_stream_fn": "tb_torch_record_stream",
    "set_reset_fn": "tb_torch_reset",
    "set_memory_fraction_fn": "tb_torch_memory_fraction",
    "set_base_alloc_fn": "tb_torch_base_allocation",
    "set_begin_allocate_to_pool": "tb_torch_begin_allocate_to_pool",
    "set_end_allocate_to_pool_fn": "tb_torch_end_allocate_to_pool",
    "set_release_pool": "tb_torch_release_pool",
}


def allocator() -> torch.cuda.memory.CUDAPluggableAllocator:
    """The allocator as an object of PyTorch, for install() or for a `torch.cuda.MemPool`.

    Raises RuntimeError where the driver is not CUDA's or PyTorch is built without CUDA.
    """
    foreign.require_cuda("torch")
    if not hasattr(torch._C, "_cuda_customAllocator"):
        raise RuntimeError("this PyTorch is built without CUDA: install one with CUDA to give it another allocator")
    made = torch.cuda.memory.CUDAPluggableAllocator(_core.__file__, "tb_torch_alloc", "tb_torch_free")
    library = ctypes.CDLL(_core.__file__)
    inner: Any = made.allocator()  # type: ignore[no-untyped-call]
    for setter, symbol in _OPTIONAL.items():
        getattr(inner, setter)(ctypes.cast(getattr(library, symbol), ctypes.c_void_p).value)
    return made


def install() -> None:
    """Make tb-allocator the allocator of all CUDA memory of PyTorch. RuntimeError where PyTorch allocated already."""
    torch.cuda.memory.change_current_allocator(allocator())
