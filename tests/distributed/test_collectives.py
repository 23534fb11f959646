"""Each collective with each dtype gives what stock gloo gives on the CPU, and refuses what it refuses."""

from __future__ import annotations

import pytest

from distributed.conftest import CaseRuns, Chosen, cases_of

# Data that gloo does not know moves as bytes on tb.
MOVED_AS_BYTES = {"int16", "uint16", "uint32", "float8_e4m3fn", "complex64", "complex128"}
SECONDS = 180


@pytest.mark.parametrize("case", cases_of("collectives", ranks=(2, 4)))
def test_results_are_bit_identical_to_gloo_s_and_so_are_refusals(case_runs: CaseRuns, case: Chosen) -> None:
    for rank, verdicts in enumerate(case_runs(case)):
        for dtype, (differs, refused, refused_by_gloo) in verdicts.items():
            where = f"{case.name} of {dtype}, rank {rank}"
            assert not differs, f"{where}: {differs}"
            assert not refused or refused_by_gloo, f"{where}: only tb refuses: {refused}"
            if refused_by_gloo and not refused:
                assert dtype in MOVED_AS_BYTES, f"{where}: only gloo refuses: {refused_by_gloo}"
            if refused:  # ours may say more; elements that move as bytes have one dimension more
                words = refused_by_gloo.partition(" (expected")[0]
                says_more = "cannot compute with" in refused and "Convert the tensor" in refused
                assert says_more or refused.startswith(words), f"{where}: {refused}; gloo: {refused_by_gloo}"


@pytest.mark.parametrize("case", [Chosen("collectives", 2, "all_reduce_sum"), Chosen("collectives", 2, "all_gather")])
def test_something_is_compared(case_runs: CaseRuns, case: Chosen) -> None:
    for verdicts in case_runs(case):
        worked = [dtype for dtype, (_, refused, refused_by_gloo) in verdicts.items() if not refused_by_gloo]
        assert {"float32", "bfloat16", "int64", "uint8"} <= set(worked)
