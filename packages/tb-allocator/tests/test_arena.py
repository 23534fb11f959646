"""Arenas: separate memory, limits, and pausing, which keeps addresses and contents."""

from __future__ import annotations

import random

import pytest
import tb_allocator
import tb_device
from conftest import Python
from tb_allocator import Arena

MiB = 1 << 20


def test_an_arena_has_its_own_memory_and_statistics_which_are_part_of_the_devices() -> None:
    arena = Arena(tag="weights")
    before = tb_allocator.memory_allocated()
    with arena.empty(3 * MiB) as buffer:
        buffer.copy_from(bytes(3 * MiB))
        assert (buffer.device, arena.device, arena.tag, arena.contiguous) == (0, 0, "weights", False)
        assert arena.memory_stats()["allocated_bytes.all.current"] == 3 * MiB
        assert tb_allocator.memory_allocated() == before + 3 * MiB
        buffer.record_stream(buffer.stream)
    arena.trim()
    assert arena.memory_stats()["reserved_bytes.all.current"] == 0


def test_inside_a_with_block_all_memory_of_the_thread_comes_from_the_arena() -> None:
    outer, inner = Arena(tag="outer"), Arena(tag="inner")
    with outer:
        first = tb_allocator.empty(MiB)
        with inner:
            second = tb_allocator.empty(2 * MiB)
        third = tb_allocator.empty(4 * MiB)
    with tb_allocator.empty(MiB):
        held = [arena.memory_stats()["allocated_bytes.all.current"] for arena in (outer, inner)]
    assert held == [5 * MiB, 2 * MiB]
    for buffer in (first, second, third):
        buffer.free()


def test_a_buffer_may_outlive_its_arena() -> None:
    buffer = Arena().empty(100)
    buffer.copy_from(bytes(100))
    assert buffer.tobytes() == bytes(100)
    buffer.free()


def test_the_limit_of_an_arena_bounds_what_it_reserves() -> None:
    arena = Arena(limit=10 * MiB)
    with arena.empty(8 * MiB), pytest.raises(tb_device.OutOfMemoryError, match=r"limit of 10\.00 MiB"):
        arena.empty(4 * MiB)
    arena.trim()


def test_an_arena_of_an_unknown_device_is_refused() -> None:
    with pytest.raises(tb_device.OutOfRangeError):
        Arena(7)


def test_a_paused_arena_uses_no_memory_and_resumes_with_addresses_and_contents() -> None:
    arena = Arena()
    free, _ = tb_allocator.mem_get_info()
    small, large = arena.empty(1000), arena.empty(5 * MiB)
    contents = random.Random(1).randbytes(1000), random.Random(2).randbytes(5 * MiB)
    small.copy_from(contents[0])
    large.copy_from(contents[1])
    addresses = small.ptr, large.ptr
    arena.pause()
    assert arena.paused
    assert arena.memory_stats()["reserved_bytes.all.current"] == 0
    assert arena.memory_stats()["allocated_bytes.all.current"] == 1024 + 5 * MiB
    assert tb_allocator.mem_get_info()[0] == free
    with pytest.raises(tb_device.FailedPreconditionError, match="call resume"):
        arena.empty(10)
    arena.trim()  # there is nothing to free
    arena.resume()
    assert not arena.paused
    assert (small.ptr, large.ptr) == addresses
    assert (small.tobytes(), large.tobytes()) == contents
    small.free()
    large.free()
    arena.trim()
    assert arena.memory_stats()["reserved_bytes.all.current"] == 0


def test_pausing_a_thousand_times_changes_nothing() -> None:
    arena = Arena()
    with arena.empty(3 * MiB) as buffer:
        content = random.Random(3).randbytes(3 * MiB)
        buffer.copy_from(content)
        address = buffer.ptr
        for _ in range(1000):
            arena.pause()
            arena.resume()
        assert buffer.ptr == address
        assert buffer.tobytes() == content
    arena.trim()


def test_buffers_may_be_freed_while_paused_and_contents_may_be_dropped() -> None:
    arena = Arena()
    first, second = arena.empty(3 * MiB), arena.empty(3 * MiB)
    arena.pause(backup=None)
    first.free()
    arena.resume()
    second.copy_from(bytes(3 * MiB))
    with arena.empty(3 * MiB) as again:
        again.copy_from(bytes(3 * MiB))
    second.free()
    arena.trim()
    assert arena.memory_stats()["reserved_bytes.all.current"] == 0


def test_pausing_in_the_wrong_state_is_refused() -> None:
    arena = Arena()
    with pytest.raises(tb_device.FailedPreconditionError, match="not paused"):
        arena.resume()
    with pytest.raises(ValueError, match='backup is "host"'):
        arena.pause(backup="disk")
    arena.pause()
    with pytest.raises(tb_device.FailedPreconditionError, match="paused already"):
        arena.pause()
    arena.resume()
    with pytest.raises(tb_device.UnsupportedError, match="not contiguous"):
        Arena(contiguous=True).pause()


def test_an_arena_that_finds_no_room_stays_paused(python: Python) -> None:
    code = """
    import tb_allocator, tb_device
    arena = tb_allocator.Arena()
    buffer = arena.empty(30 << 20)
    buffer.copy_from(b"x" * (30 << 20))
    arena.pause()
    other = tb_allocator.empty(50 << 20)
    try:
        arena.resume()
    except tb_device.OutOfMemoryError:
        print(arena.paused, arena.memory_stats()["reserved_bytes.all.current"])
    other.free()
    tb_allocator.empty_cache()
    arena.resume()
    print(buffer.tobytes() == b"x" * (30 << 20))
    """
    assert python.output(code, TB_CPU_MEMORY="64M").splitlines() == ["True 0", "True"]
