"""A profile of a data-parallel training has its collectives, their calls and their waits, on every rank."""

from __future__ import annotations

from typing import Any

import pytest

from distributed.conftest import CaseRuns, Chosen, cases_of
from distributed.programs.profiles import BUCKETS, STEPS

CALLS = STEPS * BUCKETS + 1
"""The collectives of a profile: the training's and the one behind it."""
ROUNDING = 0.002  # microseconds: the trace has three digits
Row = dict[str, Any]

of_the_training = pytest.mark.parametrize("case", cases_of("profiles"))


def of_category(trace: Any, category: str, phase: str = "X") -> list[Row]:
    return [row for row in trace["traceEvents"] if row.get("cat") == category and row["ph"] == phase]


def tracks(trace: Any) -> dict[tuple[int, int], str]:
    """The names of the rows' places."""
    named = [row for row in trace["traceEvents"] if row["name"] == "thread_name"]
    return {(row["pid"], row["tid"]): row["args"]["name"].strip() for row in named}


def end(row: Row) -> float:
    time: float = row["ts"] + row["dur"]
    return time


def collectives(trace: Any) -> list[Row]:
    """In the order of the calls."""
    rows = [row for row in of_category(trace, "kernel") if "Collective name" in row["args"]]
    return sorted(rows, key=lambda row: row["args"]["correlation"])


@of_the_training
def test_each_collective_has_a_row_of_its_own_track_linked_to_the_operator_that_called_it(
    case_runs: CaseRuns, case: Chosen
) -> None:
    for rank, value in enumerate(case_runs(case)):
        trace = value["trace"]
        rows, places = collectives(trace), tracks(trace)
        assert [row["name"] for row in rows] == ["c10d::allreduce_ (tb)"] * CALLS
        assert {places[row["pid"], row["tid"]] for row in rows} == {"process groups"}
        assert {row["pid"] for row in rows} == {rank}, "the rows are on another device than the rank's"
        others = [row for row in of_category(trace, "kernel") if row not in rows]
        assert "process groups" not in {places[row["pid"], row["tid"]] for row in others}
        operators = [row for row in of_category(trace, "cpu_op") if row["name"] == "c10d::allreduce_"]
        assert [row["args"]["External id"] for row in rows] == [row["args"]["External id"] for row in operators]


@of_the_training
def test_an_arrow_leads_from_the_call_to_its_collective(case_runs: CaseRuns, case: Chosen) -> None:
    for value in case_runs(case):
        trace = value["trace"]
        starts = {row["id"]: row for row in of_category(trace, "ac2g", "s")}
        ends = {row["id"]: row for row in of_category(trace, "ac2g", "f")}
        operators = {row["args"]["External id"]: row for row in of_category(trace, "cpu_op")}
        rows = collectives(trace)
        assert rows
        for row in rows:
            start, head = starts[row["args"]["correlation"]], ends[row["args"]["correlation"]]
            operator = operators[row["args"]["External id"]]
            assert (start["pid"], start["tid"]) == (operator["pid"], operator["tid"])
            assert operator["ts"] - ROUNDING <= start["ts"] <= end(operator) + ROUNDING
            assert (head["pid"], head["tid"]) == (row["pid"], row["tid"])
            assert head["ts"] == pytest.approx(row["ts"], abs=ROUNDING)
            assert row["ts"] + ROUNDING >= start["ts"], "it begins before its call"


@of_the_training
def test_all_work_is_linked_and_its_time_is_that_of_the_operators(case_runs: CaseRuns, case: Chosen) -> None:
    for value in case_runs(case):
        trace = value["trace"]
        work = of_category(trace, "kernel")
        assert len(work) > 100
        operators = {row["args"]["External id"] for row in of_category(trace, "cpu_op")}
        heads = {row["id"] for row in of_category(trace, "ac2g", "f")}
        tails = {row["id"] for row in of_category(trace, "ac2g", "s")}
        assert {row["name"] for row in work if row["args"].get("External id") not in operators} == set()
        assert {row["name"] for row in work if row["args"]["correlation"] not in heads & tails} == set()
        times = value["self times"]
        assert {name: time for name, time in times.items() if time < 0} == {}
        assert sum(times.values()) == pytest.approx(value["rows"])
        mine = sum(row["dur"] for row in collectives(trace))
        assert times["c10d::allreduce_"] > mine - ROUNDING * CALLS


@of_the_training
def test_ranges_have_rows_around_their_work_and_their_collectives(case_runs: CaseRuns, case: Chosen) -> None:
    for value in case_runs(case):
        trace = value["trace"]
        places, rows = tracks(trace), collectives(trace)
        ranges = [(row, places[row["pid"], row["tid"]]) for row in of_category(trace, "gpu_user_annotation")]
        forward = [place for row, place in ranges if row["name"] == "forward"]
        assert forward == ["stream 0 (default)"] * STEPS
        backward = [row for row, place in ranges if (row["name"], place) == ("backward", "process groups")]
        assert len(backward) == STEPS
        for step, row in enumerate(backward):
            mine = rows[step * BUCKETS : (step + 1) * BUCKETS]
            assert row["ts"] == pytest.approx(min(each["ts"] for each in mine), abs=ROUNDING)
            assert end(row) == pytest.approx(max(map(end, mine)), abs=ROUNDING)
        on_stream = [row for row, place in ranges if (row["name"], place) == ("backward", "stream 0 (default)")]
        assert len(on_stream) == STEPS


@of_the_training
def test_a_stream_that_waits_for_the_other_rank_has_an_annotation(case_runs: CaseRuns, case: Chosen) -> None:
    trace = case_runs(case)[0]["trace"]
    last, places = collectives(trace)[-1], tracks(trace)
    (called,) = [row for row in of_category(trace, "user_annotation") if row["name"] == "called"]
    assert end(last) > called["ts"], "the row ends before the other rank has made its call"
    waits = [row for row in of_category(trace, "gpu_user_annotation") if row["name"] == "wait for c10d::allreduce_"]
    # The reducer's waits are on a stream of the group.
    (wait,) = [row for row in waits if places[row["pid"], row["tid"]] == "stream 0 (default)"]
    assert end(wait) >= end(last) - ROUNDING


@of_the_training
def test_the_trace_names_the_group_and_the_rank(case_runs: CaseRuns, case: Chosen) -> None:
    for rank, value in enumerate(case_runs(case)):
        info = value["trace"]["distributedInfo"]
        assert (info["backend"], info["rank"], info["world_size"]) == ("tbccl", rank, 2)
        configs = {group["pg_name"]: (group["backend_config"], group["ranks"]) for group in info["pg_config"]}
        assert configs["0"] == ("cpu:gloo,tb:tbccl", [0, 1])
