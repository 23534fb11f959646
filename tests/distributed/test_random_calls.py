"""Random programs of kernels, collectives, streams and freed memory give what they give on the CPU with gloo."""

from __future__ import annotations

import pytest

from distributed.cases import number_from
from distributed.conftest import CaseRuns, Chosen, cases_of

SECONDS = 60 + number_from("TB_TEST_DISTRIBUTED_PROGRAMS", 200) // 2


@pytest.mark.parametrize("case", cases_of("random_calls", ranks=(2, 4)))
def test_random_programs_are_bit_identical_to_the_cpu_s(case_runs: CaseRuns, case: Chosen) -> None:
    for rank, wrong in enumerate(case_runs(case)):
        assert not wrong, f"rank {rank}: {wrong}"
