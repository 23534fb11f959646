"""Snapshots and the history: their contents and their cost."""

from __future__ import annotations

import csv
import pickle
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import tb_allocator
import tb_device
from conftest import Python, Stream
from tb_allocator import replay

MiB = 1 << 20
MakeStream = Callable[[], Stream]


def test_the_snapshot_shows_segments_and_their_blocks(make_stream: MakeStream) -> None:
    tb_allocator.empty_cache()
    in_arenas = tb_allocator.memory_reserved()  # of other tests, which are in the figures and not in the snapshot
    user = make_stream()
    gate = user.hold()
    waiting = tb_allocator.empty(3 * MiB)
    waiting.record_stream(user)
    with tb_allocator.empty(700) as buffer:
        address = waiting.ptr
        waiting.free()
        snapshot = tb_allocator.memory_snapshot()
        stats = tb_allocator.memory_stats()
        [small] = [one for one in snapshot["segments"] if one["segment_type"] == "small"]
        [large] = [one for one in snapshot["segments"] if one["segment_type"] == "large"]
        assert (small["allocated_size"], small["requested_size"], small["device"]) == (1024, 700, 0)
        assert small["blocks"][0] == {
            "address": buffer.ptr,
            "size": 1024,
            "requested_size": 700,
            "state": "active_allocated",
            "frames": [],
        }
        assert small["blocks"][1]["state"] == "inactive"
        assert (large["allocated_size"], large["active_size"]) == (0, 3 * MiB)
        assert (large["blocks"][0]["address"], large["blocks"][0]["state"]) == (address, "active_awaiting_free")
        for segment in snapshot["segments"]:
            assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]
        total = sum(segment["total_size"] for segment in snapshot["segments"])
        assert total + in_arenas == stats["reserved_bytes.all.current"]
    gate.set()


def test_the_snapshot_of_pinned_memory_shows_blocks_and_no_events() -> None:
    tb_allocator.empty_host_cache()
    with tb_allocator.pinned(5000) as buffer:
        address = buffer.ptr
        snapshot = tb_allocator.host_memory_snapshot()
        blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
        [block] = [block for block in blocks if block["address"] == address]
        assert (block["state"], block["requested_size"]) == ("active_allocated", 5000)
        total = sum(segment["total_size"] for segment in snapshot["segments"])
        assert total == tb_allocator.host_memory_stats()["reserved_bytes.all.current"]
        assert address not in [
            block["address"] for segment in tb_allocator.memory_snapshot()["segments"] for block in segment["blocks"]
        ]
    after = tb_allocator.host_memory_snapshot()
    [block] = [one for segment in after["segments"] for one in segment["blocks"] if one["address"] == address]
    assert block["state"] == "inactive"
    assert after["device_traces"] == [[]]
    tb_allocator.empty_host_cache()
    left = tb_allocator.host_memory_snapshot()["segments"]
    assert address not in [block["address"] for segment in left for block in segment["blocks"]]


def test_the_history_is_always_on_in_order_and_timed() -> None:
    tb_allocator.record_memory_history()
    before = time.time_ns() // 1000
    buffer = tb_allocator.empty(5000)
    address = buffer.ptr
    buffer.free()
    time.sleep(0.01)  # lets some time pass between two comparisons of the clocks
    [events] = tb_allocator.memory_snapshot()["device_traces"]
    actions = [event["action"] for event in events]
    assert actions[-3:] == ["alloc", "free_requested", "free_completed"]
    assert actions[0] in ("segment_alloc", "alloc")
    assert all(event["addr"] == address and event["size"] == 5120 for event in events[-3:])
    times = [event["time_us"] for event in events]
    assert times == sorted(times)
    assert before - 1000 <= times[0] <= times[-1] <= time.time_ns() // 1000 + 1000


def test_the_history_keeps_the_last_events_or_none() -> None:
    tb_allocator.record_memory_history(4)
    for _ in range(5):
        tb_allocator.empty(100).free()
    [events] = tb_allocator.memory_snapshot()["device_traces"]
    assert [event["action"] for event in events] == ["alloc", "free_requested", "free_completed"] * 2
    tb_allocator.record_memory_history(0)
    tb_allocator.empty(100).free()
    assert tb_allocator.memory_snapshot()["device_traces"] == [[]]
    tb_allocator.record_memory_history()


def test_running_out_is_an_event() -> None:
    tb_allocator.record_memory_history()
    with pytest.raises(tb_device.OutOfMemoryError):
        tb_allocator.empty(1 << 45)
    last = tb_allocator.memory_snapshot()["device_traces"][0][-1]
    assert (last["action"], last["size"]) == ("oom", 1 << 45)
    assert last["device_free"] == tb_allocator.mem_get_info()[0]


def test_a_million_events_are_dumped_in_a_second(tmp_path: Path) -> None:
    events = 1 << 20
    tb_allocator.record_memory_history(events)
    for _ in range(events // 2):
        tb_allocator.empty(512).free()
    file = tmp_path / "snapshot.pickle"
    best = 10.0
    for _ in range(3):
        begin = time.process_time()  # processor time, which other load of the machine does not increase
        tb_allocator.dump_snapshot(file)
        best = min(best, time.process_time() - begin)
    tb_allocator.record_memory_history()
    assert best < 1.0
    assert len(pickle.loads(file.read_bytes())["device_traces"][0]) == events * 3 // 2


def test_the_log_has_rmms_columns(tmp_path: Path, make_stream: MakeStream) -> None:
    tb_allocator.record_memory_history()
    stream = make_stream()
    with tb_allocator.empty(1000, stream=stream) as buffer:
        address = buffer.ptr
    tb_allocator.dump_rmm_log(tmp_path / "log.csv")
    with (tmp_path / "log.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["Action"], int(row["Size"])) for row in rows] == [("allocate", 1024), ("free", 1024)]
    assert {int(row["Pointer"], 16) for row in rows} == {address}
    assert {int(row["Stream"], 16) for row in rows} == {stream.handle.value}
    assert all(row["Time"].count(":") == 2 and row["Thread"] == rows[0]["Thread"] for row in rows)


def test_the_history_replays(tmp_path: Path) -> None:
    tb_allocator.record_memory_history()
    with tb_allocator.empty(3 * MiB), tb_allocator.empty(1 * MiB):
        pass
    tb_allocator.dump_trace(tmp_path / "trace.txt")
    trace = replay.load(str(tmp_path / "trace.txt"))
    assert (trace.events, trace.streams, trace.peak_live) == (4, 1, 4 * MiB)


def test_the_environment_sets_the_length_of_the_history(python: Python) -> None:
    code = """
    import tb_allocator
    for _ in range(9):
        tb_allocator.empty(100).free()
    print(len(tb_allocator.memory_snapshot()["device_traces"][0]))
    """
    assert python.output(code, TB_ALLOC_CONF="history:2") == "3"
    assert python.output(code, TB_ALLOC_CONF="history:0") == "0"
