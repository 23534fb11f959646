"""RMM's memory resources over tb_allocator.rmm. Buffers that copy need a GPU."""

from __future__ import annotations

import pytest
import rmm.mr
import tb_allocator
import tb_allocator.rmm
from rmm.pylibrmm.stream import DEFAULT_STREAM


def test_memory_of_rmm_is_ours_until_it_is_freed() -> None:
    resource = tb_allocator.rmm.resource()
    address = resource.allocate(3 << 20, DEFAULT_STREAM)
    assert tb_allocator.memory_allocated() == 3 << 20
    other = resource.allocate(1000, DEFAULT_STREAM)
    assert other != address
    resource.deallocate(address, 3 << 20, DEFAULT_STREAM)
    resource.deallocate(other, 1000, DEFAULT_STREAM)
    assert tb_allocator.memory_allocated() == 0


def test_rmm_takes_the_resource_for_a_device() -> None:
    before = rmm.mr.get_per_device_resource(0)
    try:
        tb_allocator.rmm.install(0)
        resource = rmm.mr.get_per_device_resource(0)
        assert isinstance(resource, rmm.mr.CallbackMemoryResource)
        address = resource.allocate(512, DEFAULT_STREAM)
        assert tb_allocator.memory_allocated() == 512
        resource.deallocate(address, 512, DEFAULT_STREAM)
    finally:
        rmm.mr.set_per_device_resource(0, before)


def test_rmm_s_adaptors_stack_on_it() -> None:
    limited = rmm.mr.LimitingResourceAdaptor(tb_allocator.rmm.resource(), 1 << 20)
    address = limited.allocate(1 << 19, DEFAULT_STREAM)
    with pytest.raises(MemoryError):
        limited.allocate(1 << 20, DEFAULT_STREAM)
    limited.deallocate(address, 1 << 19, DEFAULT_STREAM)


def test_out_of_memory_reaches_rmm_as_an_error() -> None:
    with pytest.raises((MemoryError, RuntimeError)):
        tb_allocator.rmm.resource().allocate(1 << 45, DEFAULT_STREAM)


class _Stream:
    def __cuda_stream__(self) -> tuple[int, int]:
        return 1, 0


def test_an_unknown_stream_protocol_is_refused() -> None:
    with pytest.raises(ValueError, match="version 1 of __cuda_stream__"):
        tb_allocator.rmm._native(_Stream())
