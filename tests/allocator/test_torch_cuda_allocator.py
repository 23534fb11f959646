"""tb_allocator.torch: the functions that it passes to PyTorch's hook for CUDA allocators, called as PyTorch calls them.

The PyTorch of these tests is built without CUDA. A class that keeps the functions replaces PyTorch's hook, and the
memory is the CPU driver's.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import pytest
import tb_allocator
import tb_allocator.torch
import torch
from tb_allocator import foreign

Address = Callable[[int], None]


class Hook:
    """Keeps the functions' addresses, as the object behind CUDAPluggableAllocator does."""

    def __init__(self, allocate: int, free: int) -> None:
        self.functions = {"allocate": allocate, "free": free}

    def __getattr__(self, name: str) -> Address:
        assert name in tb_allocator.torch._OPTIONAL
        return lambda address: self.functions.update({name: address})


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Hook:
    chosen: list[Hook] = []
    monkeypatch.setattr(torch._C, "_cuda_customAllocator", Hook, raising=False)
    monkeypatch.setattr(torch._C, "_cuda_changeCurrentAllocator", chosen.append, raising=False)
    monkeypatch.setattr(foreign, "require_cuda", lambda adapter: None)
    tb_allocator.torch.install()
    return chosen[0]


def test_all_functions_are_handed_over(hook: Hook) -> None:
    assert set(hook.functions) == {"allocate", "free", *tb_allocator.torch._OPTIONAL}
    assert all(hook.functions.values())


def test_memory_is_allocated_and_freed_on_native_streams(hook: Hook) -> None:
    allocate = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)(
        hook.functions["allocate"]
    )
    free = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p)(
        hook.functions["free"]
    )
    record = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(hook.functions["set_record_stream_fn"])
    reset = ctypes.CFUNCTYPE(None)(hook.functions["set_reset_fn"])
    base = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t))(
        hook.functions["set_base_alloc_fn"]
    )
    before = tb_allocator.memory_allocated()
    address = allocate(3 << 20, 0, None)
    assert address
    assert tb_allocator.memory_allocated() - before == 3 << 20
    ctypes.memset(address, 1, 3 << 20)
    size = ctypes.c_size_t()
    start = base(address + 100, ctypes.byref(size))
    assert start is not None
    assert start <= address
    assert start + size.value >= address + (3 << 20)
    record(address, None)
    free(address, 3 << 20, 0, None)
    assert tb_allocator.memory_allocated() == before
    assert allocate(0, 0, None) is None
    reset()


def test_a_fraction_limits_the_device(hook: Hook) -> None:
    set_fraction = ctypes.CFUNCTYPE(None, ctypes.c_double, ctypes.c_int)(hook.functions["set_memory_fraction_fn"])
    set_fraction(0.0, 0)
    try:
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(1 << 30, dtype=torch.uint8, device="tb")
    finally:
        set_fraction(1.0, 0)


def test_a_torch_without_cuda_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match=r"tb_allocator.torch gives memory of a CUDA device"):
        tb_allocator.torch.install()
    monkeypatch.setattr(foreign, "require_cuda", lambda adapter: None)
    if not hasattr(torch._C, "_cuda_customAllocator"):
        with pytest.raises(RuntimeError, match="this PyTorch is built without CUDA"):
            tb_allocator.torch.install()
