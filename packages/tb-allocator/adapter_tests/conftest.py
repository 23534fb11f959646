"""The adapters take the CPU driver's memory here: the libraries above them are real, the device is not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import tb_allocator
from tb_allocator import foreign


@pytest.fixture(autouse=True)
def without_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(foreign, "require_cuda", lambda adapter: None)
    tb_allocator.empty_cache()
    yield
    assert tb_allocator.memory_allocated() == 0
    assert tb_allocator.host_memory_stats()["allocated_bytes.all.current"] == 0
