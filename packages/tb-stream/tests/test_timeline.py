"""tb_stream.trace: the timeline's file."""

from __future__ import annotations

import ctypes
import json
import threading
from pathlib import Path
from typing import Any

import pytest
import tb_device
import tb_stream
from conftest import Work
from tb_device import _core

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


def captured_before(work: Work) -> tb_stream.Graph:
    with tb_stream.capture() as graph:
        for name in (b"first", b"second"):
            work.closure(tb_stream.current_stream(), name, lambda _context: 0)
    return graph


def test_a_replay_contains_what_the_graph_runs(tmp_path: Path, work: Work) -> None:
    path = tmp_path / "out.json"
    graph = captured_before(work)
    with tb_stream.trace(path):
        graph.replay()
        graph.replay()
    events = events_of(path)
    replays = of_kind(events, "run", "graph_launch")
    assert len(replays) == len(of_kind(events, "launch", "graph_launch")) == 2
    for replay, first, second in zip(
        replays, of_kind(events, "run", "first"), of_kind(events, "run", "second"), strict=True
    ):
        assert {replay["tid"]} == {first["tid"], second["tid"]}
        assert replay["ts"] <= first["ts"] <= first["ts"] + first["dur"] <= second["ts"] + 0.001
        assert second["ts"] + second["dur"] <= replay["ts"] + replay["dur"] + 0.001
    assert not of_kind(events, "launch", "first")  # it was captured, not launched


def test_a_capture_within_a_timeline_has_no_rows_and_is_as_without(tmp_path: Path, work: Work) -> None:
    path = tmp_path / "out.json"
    with tb_stream.trace(path):
        graph = captured_before(work)
    assert graph.node_count == 2  # the timeline adds nothing to a capture
    assert not of_kind(events_of(path), "run", "first")
    graph.replay()  # after the end of the timeline, whose records are gone
    tb_stream.synchronize()
    with tb_stream.trace(path):
        graph.replay()
    assert len(of_kind(events_of(path), "run", "first")) == 1


def test_a_replay_that_was_queued_before_a_timeline_is_not_in_it(tmp_path: Path, work: Work) -> None:
    path = tmp_path / "out.json"
    graph = captured_before(work)
    stream = tb_stream.Stream()
    gate = work.hold(stream)
    graph.replay(stream)
    with tb_stream.trace(path):
        gate.set()
    assert not [event for event in events_of(path) if event.get("cat") == "run" and event["name"] != "callback"]


def test_a_graph_can_be_updated_by_one_that_a_timeline_saw(tmp_path: Path, work: Work) -> None:
    with tb_stream.trace(tmp_path / "out.json"):
        recorded = captured_before(work)
    log: list[int] = []
    callbacks = []
    for number in range(2):
        with tb_stream.capture() as graph:
            tb_stream.current_stream().add_callback(log.append, number)
        callbacks.append(graph)
    callbacks[0].update(callbacks[1])
    callbacks[0].replay()
    tb_stream.synchronize()
    assert log == [1]
    assert recorded.node_count == 2


def names_of_runs(path: Path) -> list[str]:
    return [event["name"] for event in events_of(path) if event.get("cat") == "run"]


@pytest.mark.parametrize("crossed", [False, True])
def test_timelines_overlap(tmp_path: Path, work: Work, crossed: bool) -> None:
    """Each has what was queued in its time, however they begin and end."""
    stream = tb_stream.default_stream()

    def queue(name: bytes) -> None:
        work.closure(stream, name, lambda _context: 0)

    first, second = tb_stream.trace(tmp_path / "first.json"), tb_stream.trace(tmp_path / "second.json")
    first.__enter__()
    queue(b"a")
    second.__enter__()
    queue(b"b")
    (first if crossed else second).__exit__(None, None, None)
    queue(b"c")
    (second if crossed else first).__exit__(None, None, None)
    queue(b"d")
    in_first, in_second = (names_of_runs(tmp_path / f"{name}.json") for name in ("first", "second"))
    assert in_first == (["a", "b"] if crossed else ["a", "b", "c"])
    assert in_second == (["b", "c"] if crossed else ["b"])


def test_the_table_is_the_drivers_when_nothing_is_recorded(tmp_path: Path) -> None:
    def table() -> list[int | None]:
        address = tb_device.default_driver().table_address
        return [ctypes.c_void_p.from_address(address + offset).value for _, _, _, offset in _core.slots()]

    tb_stream.synchronize()
    before = table()
    with tb_stream.trace(tmp_path / "out.json"):
        tb_stream.current_stream().add_callback(int)
        within = table()
    assert table() == before
    assert sum(a != b for a, b in zip(before, within, strict=True)) == 13
    with tb_stream.capture():
        tb_stream.current_stream().add_callback(int)
        within = table()
    assert table() == before
    assert sum(a != b for a, b in zip(before, within, strict=True)) == 3  # those of closures


def test_a_file_that_cannot_be_written_is_refused_before_the_work(tmp_path: Path) -> None:
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
