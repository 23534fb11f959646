"""PyTorch's flight recorder has the collectives of a group on tb, as gloo records them."""

from __future__ import annotations

import pytest

from distributed.cases import LIMIT
from distributed.conftest import CaseRuns, Chosen

ENV = {"TORCH_FR_BUFFER_SIZE": "100"}
MILLISECONDS = LIMIT.total_seconds() * 1000


@pytest.mark.parametrize("case", [Chosen("flight_recorder", 2, "calls")], ids=lambda case: case.name)
def test_each_collective_has_an_entry_with_its_sizes(case_runs: CaseRuns, case: Chosen) -> None:
    for entries in case_runs(case):
        # Gloo notes the end of a call, and not its beginning: the state stays as it is.
        assert entries == [
            [0, "gloo:all_reduce", [[12]], [[12]], ["Float"], "scheduled", MILLISECONDS],
            [1, "gloo:broadcast", [[3]], [[3]], ["Double"], "scheduled", MILLISECONDS],
            [2, "gloo:all_gather", [[12]], [[2, 12]], ["Float"], "scheduled", MILLISECONDS],
        ]


@pytest.mark.parametrize("case", [Chosen("flight_recorder", 2, "on_its_way")], ids=lambda case: case.name)
def test_a_call_that_waits_for_another_rank_is_one_that_has_not_ended(case_runs: CaseRuns, case: Chosen) -> None:
    waiting, done = case_runs(case)[0]
    assert (waiting[0], done[0]) == (False, True)
    assert "on_its_way" in waiting[1], "the lines of the call are missing"
    assert waiting[1] == done[1]
