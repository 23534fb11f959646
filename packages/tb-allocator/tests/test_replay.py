"""Replays of traces: the command's output, and errors in traces."""

from __future__ import annotations

import json
import lzma
import pickle
from pathlib import Path

import pytest
import tb_allocator
from tb_allocator import _core, imports, replay, traces

MiB = 1 << 20


def test_a_replay_reports_live_and_reserved_bytes_and_driver_calls(tmp_path: Path) -> None:
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


def test_a_replay_that_runs_out_of_memory_reports_the_event() -> None:
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


LOG = """Thread,Time,Action,Pointer,Size,Stream
1,10:00:00.000001,free,0x9000,64,0x0
1,10:00:00.000002,allocate,0x1000,1048576,0x0
2,10:00:00.000003,allocate,0x2000,512,0x7
2,10:00:00.000004,allocate failure,0x0,99999,0x7
1,10:00:00.000005,free,0x1000,1048576,0x0
1,10:00:00.000006,allocate,0x1000,4096,0x0
"""


def test_a_log_of_rmm_replays(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_text(LOG)
    trace = replay.load(str(file))
    assert (trace.events, trace.streams, trace.peak_live) == (4, 2, MiB + 512)
    with pytest.raises(ValueError, match="no column Action"):
        imports.from_rmm_log("a,b\n1,2\n")


def test_a_snapshot_with_history_replays(tmp_path: Path) -> None:
    tb_allocator.record_memory_history()
    with tb_allocator.empty(3 * MiB), tb_allocator.empty(MiB):
        pass
    file = tmp_path / "snapshot.pickle"
    tb_allocator.dump_snapshot(file)
    trace = replay.load(str(file))
    assert (trace.events, trace.streams, trace.peak_live) == (4, 1, 4 * MiB)


class _Evil:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return eval, ("1 + 1",)


def test_a_pickle_that_would_run_code_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no memory snapshot: the pickle names builtins\.eval"):
        imports.from_snapshot(pickle.dumps(_Evil()))
    with pytest.raises(ValueError, match="no memory snapshot"):
        imports.from_snapshot(b"")
    with pytest.raises(ValueError, match="holds no history"):
        imports.from_snapshot(pickle.dumps({"device_traces": [[]], "segments": []}))


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
