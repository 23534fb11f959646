"""Every driver call that tb-allocator makes fails once, and all from it on: nothing leaks, hangs or breaks, statistics
stay exact, and the next use works. Each point of the sweep has a process of its own."""

from __future__ import annotations

import pytest
from conftest import Python

CODE = """
import ctypes
import os
import tb_device
import tb_allocator
from tb_device import _core
from tb_device.fault_sweep import sweep_in_processes
from tb_device.layers import leak

MiB = 1 << 20
STATUS = int(os.environ["STATUS"])
PAGED = os.environ["TB_ALLOC_CONF"].endswith("True")

def call(name, *arguments):
    driver = tb_device.default_driver()
    offset = {name: offset for _, _, name, offset in _core.slots()}[name]
    address = ctypes.c_void_p.from_address(driver.table_address + offset).value
    status = ctypes.CFUNCTYPE(ctypes.c_int32)(address)(ctypes.c_void_p(driver.self_address), *arguments)
    if status:
        raise tb_device.exception(status, "", "cpu", name, 0, 0)

def stream(*arguments):
    out = ctypes.c_void_p()
    call("stream_create" if arguments else "stream_default", ctypes.c_int32(0), *arguments, ctypes.byref(out))
    return out

def program():
    for allocate in tb_allocator.empty, tb_allocator.pinned:
        try:
            allocate(1).free()
        except tb_device.Error as error:
            # A failure that came to light in deallocate, which cannot raise, is reported by the next call, once.
            if error.function != "deallocate":
                raise
    used = stream().value
    with tb_allocator.empty(1000) as small, tb_allocator.empty(3 * MiB) as large:
        small.copy_from(bytes(1000))
        assert small.tobytes() == bytes(1000)
        large.record_stream(used)
    with tb_allocator.empty(22 * MiB, stream=used), tb_allocator.pinned(4096) as pinned:
        pinned.copy_from(bytes(4096))
        pinned.record_stream(used)
    # What is idle of pinned memory goes back before more comes: too small, too large, and not while a stream uses it.
    for size in (4, 6, 3, 7):
        with tb_allocator.pinned(size * MiB) as pinned:
            if size == 3:
                pinned.record_stream(used)
    other = stream(ctypes.c_int32(0), ctypes.c_uint64(0))
    parts = []
    try:
        # Where pages move: room for each only together, held apart; then for another stream.
        parts = [tb_allocator.empty(size * MiB) for size in (4, 2, 4)]
        del parts[2], parts[0]
        with tb_allocator.empty(7 * MiB), tb_allocator.empty(1 * MiB):
            pass
        tb_allocator.empty(6 * MiB, stream=other.value).free()
        del parts[:]
        tb_allocator.empty_cache()
        if PAGED:  # a block in parts of two pages, where there is no more; it goes on and comes back with them
            tb_allocator.set_memory_limit(6 * MiB)
            parts = [tb_allocator.empty(MiB) for _ in range(6)]
            del parts[4], parts[1]
            with tb_allocator.empty(2 * MiB) as remapped:
                remapped.copy_from(bytes(2 * MiB))
                assert remapped.tobytes() == bytes(2 * MiB)
            del parts[:]
            tb_allocator.empty(6 * MiB).free()
    finally:
        del parts[:]
        tb_allocator.set_memory_limit(None)
        call("stream_destroy", other)
    tb_allocator.empty_cache()
    tb_allocator.empty_host_cache()

def reported():
    try:
        program()
    except tb_device.Error as error:
        assert error.status == STATUS, (error.status, str(error))
        raise

def check():
    tb_allocator.empty_cache()
    tb_allocator.empty_host_cache()
    for stats in (tb_allocator.memory_stats(), tb_allocator.host_memory_stats()):
        for key in ("allocated_bytes", "active_bytes", "reserved_bytes", "requested_bytes", "inactive_split_bytes",
                    "allocation", "active", "segment", "inactive_split"):
            assert stats.get(key + ".all.current", 0) == 0, (key, stats[key + ".all.current"])
    # What is cached is streams' events, and no memory.
    assert not set(leak.counts()) - {"event"}, leak.report()
    free, total = tb_allocator.mem_get_info()
    assert free == total, (free, total)

print(sweep_in_processes(reported, statuses=[STATUS], check=check))
"""


@pytest.mark.parametrize("segments", ["False", "True"], ids=["fixed", "expandable"])
@pytest.mark.parametrize("status", ["8", "13", "14", "33"])
def test_every_fault_is_survived_and_the_counts_are_exact(python: Python, status: str, segments: str) -> None:
    layers = {"TB_LAYERS": "fault,leak", "TB_DRIVER": "cpu", "TB_CPU_DEVICES": "1", "TB_CPU_MEMORY": "4G"}
    settings = f"expandable_segments:{segments}"
    python.limit = 300  # hundreds of processes
    assert int(python.output(CODE, STATUS=status, TB_ALLOC_CONF=settings, **layers)) > 30
