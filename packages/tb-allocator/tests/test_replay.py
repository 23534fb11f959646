"""Replaying traces: what the command tells, and what is wrong with a trace."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest
from tb_allocator import _core, replay, traces

MiB = 1 << 20


def test_a_replay_tells_live_and_reserved_bytes_and_driver_calls(tmp_path: Path) -> None:
    file = tmp_path / "trace.txt.xz"
    file.write_bytes(lzma.compress(f"# start\na 7 {4 * MiB} 0\na 9 {2 * MiB} 0\nf 7\nr 9 1\nf 9\n".encode()))
    trace = replay.load(str(file))
    assert (trace.events, trace.streams, trace.peak_live) == (5, 2, 6 * MiB)
    result = replay.replay(trace, settings="expandable_segments:True", samples=5)
    first, _, third = result["repetitions"]
    assert first["completed"]
    assert first["peak_reserved"] >= 6 * MiB
    assert first["calls"]["vmm_create"] > 0
    assert third["calls"]["vmm_create"] == 0
    assert [allocated for _, allocated, _ in result["samples"]] == [4 * MiB, 6 * MiB, 2 * MiB, 2 * MiB, 0]


def test_a_replay_without_room_tells_where_it_ended() -> None:
    trace = _core._Trace(f"a 0 {30 * MiB} 0\na 1 {30 * MiB} 0\n".encode())
    result = replay.replay(trace, capacity=40 * MiB)
    [only] = result["repetitions"]
    assert (only["completed"], only["failed_event"], only["failed_bytes"]) == (False, 1, 30 * MiB)
    assert not any(replay.ladder(_core._Trace(b"a 0 1 0\n")).values())  # less than a page


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a 1 10 0\na 1 10 0\n", "line 2 of the trace: block 1 is allocated already"),
        ("f 3\n", "line 1 of the trace: block 3 is not allocated here"),
        ("a 1 ten 0\n", "line 1 of the trace: a number is expected for BYTES"),
        ("# x\nq 1\n", "line 2 of the trace: starts with 'q'"),
    ],
)
def test_a_wrong_trace_is_refused_with_its_line(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _core._Trace(text.encode())


def test_capacities_read_as_people_write_them() -> None:
    trace = _core._Trace(b"a 0 1000 0\n")
    assert [replay.capacity_of(text, trace) for text in ("2G", "5m", "77", "1.5x")] == [2 << 30, 5 * MiB, 77, 1500]


def test_generated_traces_are_the_same_for_the_same_seed_and_replay() -> None:
    for name in traces.NAMES:
        text = traces.generate(name, 3)
        assert text == traces.generate(name, 3) != traces.generate(name, 4)
        trace = _core._Trace(text.encode())
        assert replay.replay(trace, repetitions=1)["repetitions"][0]["completed"]
    with pytest.raises(ValueError, match="use one of moe, "):
        traces.generate("nothing")


def test_the_command_prints_a_table_and_its_exit_status_tells_the_end(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "trace.txt"
    file.write_text(f"a 0 {30 * MiB} 0\nf 0\n")
    assert replay.main([str(file), "--repetitions", "2"]) == 0
    printed = capsys.readouterr().out
    assert "2 events, 1 streams, at most 30.00 MiB live" in printed
    assert "mem_alloc 1" in printed or "vmm_create" in printed
    assert replay.main([str(file), "--capacity", "10M"]) == 1
    assert "out of memory at event 0, which asked for 30.00 MiB" in capsys.readouterr().out
    assert replay.main([str(file), "--json", "--capacity", "1G"]) == 0
    assert json.loads(capsys.readouterr().out)["peak_live"] == 30 * MiB
    assert replay.main([str(tmp_path / "none")]) == 2
    assert replay.main([str(file), "--set", "speed:9"]) == 2
    assert "unknown key 'speed'" in capsys.readouterr().err
