"""Every driver call that tb-allocator makes fails once, and all from it on: nothing leaks, hangs or breaks, statistics
stay exact, and the next use works. Each point of the sweep has a process of its own."""

from __future__ import annotations

import pytest
from conftest import Python

CODE = """
import ctypes
import tb_device
import tb_allocator
from tb_device import _core
from tb_device.fault_sweep import sweep_in_processes
from tb_device.layers import leak

MiB = 1 << 20

def stream():
    driver = tb_device.default_driver()
    offset = {name: offset for _, _, name, offset in _core.slots()}["stream_default"]
    address = ctypes.c_void_p.from_address(driver.table_address + offset).value
    out = ctypes.c_void_p()
    status = ctypes.CFUNCTYPE(ctypes.c_int32)(address)(
        ctypes.c_void_p(driver.self_address), ctypes.c_int32(0), ctypes.byref(out))
    if status:
        raise tb_device.exception(status, "", "cpu", "stream_default", 0, 0)
    return out.value

def program():
    try:
        used = stream()
        with tb_allocator.empty(1000) as small, tb_allocator.empty(3 * MiB) as large:
            small.copy_from(bytes(1000))
            assert small.tobytes() == bytes(1000)
            large.record_stream(used)
        with tb_allocator.empty(30 * MiB, stream=used), tb_allocator.pinned(4096) as pinned:
            pinned.copy_from(bytes(4096))
            pinned.record_stream(used)
        tb_allocator.empty_cache()
        tb_allocator.empty_host_cache()
    finally:
        pass

def check():
    tb_allocator.empty_cache()
    tb_allocator.empty_host_cache()
    for stats in (tb_allocator.memory_stats(), tb_allocator.host_memory_stats()):
        for key in ("allocated_bytes", "active_bytes", "reserved_bytes", "requested_bytes", "inactive_split_bytes",
                    "allocation", "active", "segment", "inactive_split"):
            assert stats.get(key + ".all.current", 0) == 0, (key, stats[key + ".all.current"])
    assert leak.report() == [], leak.report()
    free, total = tb_allocator.mem_get_info()
    assert free == total, (free, total)

print(sweep_in_processes(program, check=check))
"""


@pytest.mark.parametrize("settings", ["", "expandable_segments:True"])
def test_every_fault_is_survived_and_the_counts_are_exact(python: Python, settings: str) -> None:
    environment = {"TB_ALLOC_CONF": settings} if settings else {}
    points = int(python.output(CODE, TB_DRIVER="cpu", TB_CPU_DEVICES="1", TB_LAYERS="fault,leak", **environment))
    assert points > 100
