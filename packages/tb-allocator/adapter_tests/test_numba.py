"""Numba takes tb_allocator.numba as its memory manager, and what it gives. Contexts and kernels need a GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
import tb_allocator
import tb_allocator.numba
from numba import cuda
from numba.cuda.cudadrv import driver


@pytest.fixture
def manager() -> Any:
    context = SimpleNamespace(device=SimpleNamespace(id=0))
    made = tb_allocator.numba.MemoryManager(context=context)
    made.initialize()
    return made


def test_numba_takes_the_manager(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "_memory_manager", None)
    tb_allocator.numba.install()
    assert driver._memory_manager is tb_allocator.numba.MemoryManager


def test_numba_finds_the_manager_by_its_environment_variable() -> None:
    code = "from numba.cuda.cudadrv import driver; driver._ensure_memory_manager(); print(driver._memory_manager)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "NUMBA_CUDA_MEMORY_MANAGER": "tb_allocator.numba"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "tb_allocator.numba.MemoryManager" in done.stdout


def test_memory_of_numba_is_ours_until_it_is_freed(manager: Any) -> None:
    pointer = manager.memalloc(2 << 20)
    assert isinstance(pointer, cuda.MemoryPointer)
    assert pointer.size == 2 << 20
    assert int(pointer.handle) in manager.allocations
    assert tb_allocator.memory_allocated() == 2 << 20
    pointer.free()
    assert tb_allocator.memory_allocated() == 0
    assert not manager.allocations


def test_a_reset_context_gives_everything_back(manager: Any) -> None:
    kept = manager.memalloc(1 << 20)
    manager.reset()
    assert tb_allocator.memory_allocated() == 0
    del kept  # its finalizer finds nothing more to free


def test_free_and_total_memory_are_reported(manager: Any) -> None:
    info = manager.get_memory_info()
    assert isinstance(info, cuda.MemoryInfo)
    assert info.total == tb_allocator.mem_get_info(0)[1]
    assert 0 < info.free <= info.total


def test_ipc_says_what_to_do(manager: Any) -> None:
    with pytest.raises(NotImplementedError, match="contiguous=True"):
        manager.get_ipc_handle(None)
