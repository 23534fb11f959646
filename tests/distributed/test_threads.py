"""Threads of one process may call collectives at once, also on one stream."""

from __future__ import annotations

import pytest

from distributed.conftest import CaseRuns, Chosen, cases_of

WAITS = "the_waiting_thread_lets_others_run"
SECONDS = 180


@pytest.mark.parametrize("case", cases_of("threads", but=(WAITS,)))
def test_threads_neither_hang_nor_mix_data(case_runs: CaseRuns, case: Chosen) -> None:
    assert case_runs(case) == [None, None]


@pytest.mark.parametrize("case", [Chosen("threads", 2, WAITS)], ids=str)
def test_python_s_lock_is_free_while_the_host_waits(case_runs: CaseRuns, case: Chosen) -> None:
    assert min(case_runs(case)) > 50
