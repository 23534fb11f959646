"""Memory around collectives is neither used too early nor kept for ever."""

from __future__ import annotations

import pytest

from distributed.conftest import CaseRuns, Chosen, cases_of

COUNTED = ("waited_for_on_another_stream", "all_memory_comes_back")


@pytest.mark.parametrize("case", cases_of("memory", ranks=(2, 4), but=COUNTED))
def test_contents_are_right(case_runs: CaseRuns, case: Chosen) -> None:
    assert case_runs(case) == [None] * case.ranks


@pytest.mark.parametrize("case", [Chosen("memory", 2, "waited_for_on_another_stream")], ids=str)
def test_a_wait_on_another_stream_keeps_the_memory_from_the_next_tensor(case_runs: CaseRuns, case: Chosen) -> None:
    assert case_runs(case) == [0, 0]


@pytest.mark.parametrize("case", [Chosen("memory", 2, "all_memory_comes_back")], ids=str)
def test_no_memory_stays_allocated(case_runs: CaseRuns, case: Chosen) -> None:
    assert case_runs(case) == [0, 0]
