"""CuPy's own allocation functions over tb_allocator.cupy. What asks the device (arrays, kernels) needs a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import cupy
import numpy as np
import pytest
import tb_allocator
import tb_allocator.cupy
import tb_device


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    # Both ask the CUDA runtime, which says that there is no driver.
    monkeypatch.setattr(cupy.cuda.device, "get_device_id", lambda: 0)
    monkeypatch.setattr(cupy.cuda, "get_current_stream", lambda: SimpleNamespace(ptr=0))
    tb_allocator.cupy.install()
    yield
    cupy.cuda.set_allocator(None)
    cupy.cuda.set_pinned_memory_allocator(None)


def test_memory_of_cupy_is_ours_as_long_as_its_pointer() -> None:
    pointer = cupy.cuda.alloc(3 << 20)
    assert isinstance(pointer, cupy.cuda.MemoryPointer)
    assert isinstance(pointer.mem, cupy.cuda.UnownedMemory)
    assert pointer.mem.size == 3 << 20
    assert pointer.device_id == 0
    assert tb_allocator.memory_allocated() == 3 << 20
    part = pointer + 100
    address = pointer.ptr
    del pointer
    assert part.ptr == address + 100
    assert tb_allocator.memory_allocated() == 3 << 20
    del part
    assert tb_allocator.memory_allocated() == 0


def test_nothing_asked_is_no_memory() -> None:
    assert cupy.cuda.alloc(0).ptr == 0


def test_pinned_memory_is_ours_and_the_host_writes_to_it() -> None:
    pointer = cupy.cuda.alloc_pinned_memory(1000)
    assert tb_allocator.host_memory_stats()["requested_bytes.all.current"] == 1000
    array = np.frombuffer(pointer, np.uint8, 1000)
    array[:] = 5
    del pointer
    assert array.sum() == 5000
    assert tb_allocator.host_memory_stats()["requested_bytes.all.current"] == 1000
    del array


def test_out_of_memory_is_an_error_with_figures() -> None:
    with pytest.raises(tb_device.OutOfMemoryError, match="TiB"):
        cupy.cuda.alloc(1 << 45)


def test_the_allocator_is_known_by_the_name_that_users_expect() -> None:
    assert tb_allocator.cupy_allocator is tb_allocator.cupy.allocator
    assert tb_allocator.cupy_pinned_allocator is tb_allocator.cupy.pinned_allocator
