"""A collective is no part of a graph: it is refused by name, and everything around captures works."""

from __future__ import annotations

import pytest

from distributed.conftest import CaseRuns, Chosen

EXPECTED = {
    "wait_inside": [3.0, 2.0],
    "call_on_another_stream": [2.0, 2.0],
    "replay_between_calls": [4.0, 16.0, 64.0],
    "no_wait_of_the_host": 2.0,
}


@pytest.mark.parametrize(
    "case",
    [Chosen("captures", 2, name) for name in ("call_inside", "call_inside_after_a_dropped_one")],
    ids=lambda case: case.name,
)
def test_a_call_in_a_capture_is_refused_by_name_and_the_group_stays_usable(case_runs: CaseRuns, case: Chosen) -> None:
    for text, reduced in case_runs(case):
        assert "all_reduce" in text
        assert "captur" in text
        assert reduced == 2.0


@pytest.mark.parametrize("case", [Chosen("captures", 2, name) for name in EXPECTED], ids=lambda case: case.name)
def test_around_captures_calls_and_waits_work(case_runs: CaseRuns, case: Chosen) -> None:
    assert case_runs(case) == [EXPECTED[case.name]] * 2
