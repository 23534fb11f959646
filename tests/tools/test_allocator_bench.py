"""The allocator benchmark's verdicts, and its behaviour if a peer is not available."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.allocator import acceptance, libraries, programs
from benchmarks.allocator.acceptance import Line


def test_a_promise_can_be_met_not_met_or_not_measured() -> None:
    assert [Line("speed", value, 4).met for value in (4.0, 3.99, None)] == [True, False, None]
    assert [Line("waits", value, 1, at_least=False).met for value in (1.0, 1.01)] == [True, False]
    assert "NOT MET" in str(Line("speed", 3, 4))
    assert "not measured here" in str(Line("speed", None, 4))


def test_times_are_compared_with_the_faster_mode_and_the_worst_trace() -> None:
    def pairs(scale: float) -> dict[str, float]:
        return {"pair_512": 10 * scale, "pair_4194304": 10 * scale, "threads_4": 20 * scale}

    def event(value: float) -> dict[str, float]:
        return {"nanoseconds_per_event": value}

    replays = {
        "easy": {"tb-allocator": event(10), "torch": event(90), "torch expandable": event(80), "RMM pool": event(30)},
        "hard": {"tb-allocator": event(20), "torch": event(70), "torch expandable": event(90), "RMM pool": event(30)},
    }
    times = {"tb-allocator": pairs(1), "torch": pairs(9), "torch expandable": pairs(7), "RMM pool": pairs(4)}
    assert [line.measured for line in acceptance.of_times(replays, times)] == [3.5, 1.5, 7, 7, 0.25]
    alone = {trace: {"tb-allocator": one["tb-allocator"]} for trace, one in replays.items()}
    lines = acceptance.of_times(alone, {"tb-allocator": pairs(1)})
    assert [line.met for line in lines] == [None] * 5


def test_the_trace_with_most_instructions_decides() -> None:
    assert [line.met for line in acceptance.of_instructions({"one": 449, "two": 451})] == [False]
    assert [line.met for line in acceptance.of_instructions({})] == [None]


def test_memory_lines_count_ladder_points_and_waits() -> None:
    ladder = {"1.005": False, "1.01": True}
    plans: tuple[dict[str, object], ...] = (
        {"utilisation": 0.995, "memory_calls": 0, "calls": {"event_record": 3, "stream_wait": 4}},
        {"utilisation": 0.98, "memory_calls": 2, "calls": {"vmm_map": 2}},
    )
    one = {"utilisation": 0.99, "ladder": ladder, "synchronisations": 0, "plan": plans[0]}
    two = {"utilisation": 0.97, "ladder": ladder, "synchronisations": 3, "plan": plans[1]}
    measured = [line.measured for line in acceptance.of_traces({"one": one, "two": two})]
    assert measured == pytest.approx([97, 98, 2, 3, 98, 2, 7])


def test_a_download_that_fails_names_the_command_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(libraries.Unavailable, match=r"-m pip download failed: .*tb-no-such-package"):
        libraries.wheels(tmp_path / "none", ("tb-no-such-package @ file:///tb-no-such-package",))
    assert list(tmp_path.iterdir()) == []


def test_a_program_that_does_not_compile_is_unavailable(tmp_path: Path) -> None:
    source = tmp_path / "wrong.cpp"
    source.write_text("int main() { return nothing; }\n")
    with pytest.raises(libraries.Unavailable, match=r"wrong does not compile: .*nothing"):
        programs.Builder(tmp_path / "built").compile("wrong", [source], [])
