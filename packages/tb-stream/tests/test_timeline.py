"""tb_stream.trace: the timeline's file."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
import tb_stream
from conftest import Work
from tb_device import FailedPreconditionError

Events = list[dict[str, Any]]


def events_of(path: Path) -> Events:
    events: Events = json.loads(path.read_text())["traceEvents"]
    return events


def of_kind(events: Events, category: str, name: str = "callback") -> Events:
    return [event for event in events if event.get("cat") == category and event["name"] == name]


def test_launches_runs_and_waits_have_their_rows_and_times(tmp_path: Path, work: Work) -> None:
    path = tmp_path / "out.json"
    first, second = tb_stream.Stream(), tb_stream.Stream()
    first.add_callback(int)  # queued before the timeline begins
    with tb_stream.trace(path):
        gate = work.hold(first)
        for _ in range(3):
            first.add_callback(int)
        second.wait_stream(first)
        second.add_callback(int)
        threading.Timer(0.02, gate.set).start()
        second.synchronize()
    first.add_callback(int)  # queued after the timeline has ended
    first.synchronize()
    events = events_of(path)
    launches, runs = of_kind(events, "launch"), of_kind(events, "run")
    assert (len(launches), len(runs)) == (4, 4)
    assert len({run["tid"] for run in runs}) == 2  # each stream has its row
    assert {launch["pid"] for launch in launches} == {1}
    assert {run["pid"] for run in runs} == {2}
    starts = {event["id"]: event["ts"] for event in events if event["ph"] == "s"}
    ends = {event["id"]: event["ts"] for event in events if event["ph"] == "f"}
    assert starts.keys() == ends.keys()
    assert all(ends[number] >= start for number, start in starts.items())
    (held,) = of_kind(events, "run", "stream_host_call")
    (waited,) = of_kind(events, "run", "stream_wait_event")
    assert waited["tid"] != held["tid"]
    assert waited["ts"] + waited["dur"] >= held["ts"] + held["dur"]
    (synchronised,) = of_kind(events, "wait", "stream_synchronize")
    assert synchronised["ts"] + synchronised["dur"] >= waited["ts"] + waited["dur"]
    names = {(event["name"], event["args"]["name"]) for event in events if event["ph"] == "M"}
    assert {("process_name", "host"), ("process_name", "device 0")} <= names


def test_a_replay_is_one_entry_of_the_timeline(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    with tb_stream.capture() as graph:
        tb_stream.current_stream().add_callback(int)
    with tb_stream.trace(path):
        graph.replay()
        with tb_stream.capture() as other:
            tb_stream.current_stream().add_callback(int)
    assert other.node_count == 1  # the timeline adds nothing to a capture
    assert len(of_kind(events_of(path), "run", "graph_launch")) == 1
    other.replay()
    tb_stream.synchronize()


def test_one_timeline_at_a_time_and_a_file_that_can_be_written(tmp_path: Path) -> None:
    with (
        tb_stream.trace(tmp_path / "out.json"),
        pytest.raises(FailedPreconditionError, match="one at a time"),
        tb_stream.trace(tmp_path / "other.json"),
    ):
        pass
    with pytest.raises(FileNotFoundError), tb_stream.trace(tmp_path / "none" / "out.json"):
        pass
    with tb_stream.trace(tmp_path / "again.json"):
        pass


def test_a_block_that_raises_still_writes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "out.json"

    def failing() -> None:
        with tb_stream.trace(path):
            tb_stream.current_stream().add_callback(int)
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert len(of_kind(events_of(path), "launch")) == 1


def test_threads_go_on_while_timelines_begin_and_end(tmp_path: Path) -> None:
    ended = threading.Event()
    counts = [0, 0]

    def queue(number: int) -> None:
        stream = tb_stream.Stream()
        while not ended.is_set():
            stream.add_callback(counts.__setitem__, number, counts[number] + 1)
            stream.synchronize()

    threads = [threading.Thread(target=queue, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for _ in range(50):
        with tb_stream.trace(tmp_path / "out.json"):
            pass
    ended.set()
    for thread in threads:
        thread.join()
    assert min(counts) > 0
