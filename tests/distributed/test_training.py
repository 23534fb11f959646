"""Wrappers that distribute training compute on tb what they compute on the CPU with gloo, and nothing falls back."""

from __future__ import annotations

from typing import Any

import pytest

from distributed.conftest import CaseRuns, Chosen, cases_of

SECONDS = 240

# Cases that give something else than a comparison; tests of their own look at it.
OTHER = ("sync_batch_norm", "times_of_the_reducer", "offloading", "offloading_of_whole_models")
TENSORS_OTHER = ("foreach_of_mixed_lists", "context_parallel", "context_parallel_of_others", "random_numbers")
# With more than two ranks gloo adds a bucket's elements in an order given by their places in it, and DDP chooses these
# by the order of gradients; half precision and second moments of few samples make more of the last bits.
BY = {"hook_in_half_precision": 1e-3, "buffers": 1e-2, "hook_power_sgd": 1e-3}
ABSOLUTE = 1e-6


def check(values: list[Any], by: float) -> None:
    for rank, value in enumerate(values):
        assert value["tensors"], "nothing was compared"
        assert not value["fallbacks"], f"rank {rank}: fell back: {value['fallbacks']}"
        assert not value["differs"] or value["by"] <= by, f"rank {rank}: {value['differs']}, by {value['by']:.2g}"


@pytest.mark.parametrize("case", cases_of("data_parallel", but=OTHER))
def test_data_parallel_training_is_bit_identical(case_runs: CaseRuns, case: Chosen) -> None:
    check(case_runs(case), by=0.0)


@pytest.mark.parametrize("case", cases_of("data_parallel", ranks=(4,), but=OTHER))
def test_data_parallel_training_of_four_ranks_differs_by_rounding(case_runs: CaseRuns, case: Chosen) -> None:
    check(case_runs(case), by=BY.get(case.name, ABSOLUTE))


@pytest.mark.parametrize("case", cases_of("sharded", ranks=(2, 4), but=OTHER))
def test_sharded_training_is_bit_identical(case_runs: CaseRuns, case: Chosen) -> None:
    check(case_runs(case), by=0.0)


@pytest.mark.parametrize("case", cases_of("tensors", ranks=(2, 4), but=TENSORS_OTHER))
def test_distributed_tensors_are_bit_identical(case_runs: CaseRuns, case: Chosen) -> None:
    check(case_runs(case), by=0.0)


@pytest.mark.parametrize(
    "case", [Chosen("data_parallel", ranks, "sync_batch_norm") for ranks in (2, 4)], ids=lambda case: str(case.ranks)
)
def test_synchronized_batch_norm_is_that_of_the_whole_batch(case_runs: CaseRuns, case: Chosen) -> None:
    for value in case_runs(case):
        assert value["worst"] < 1e-12
        assert not value["fallbacks"]


@pytest.mark.parametrize("case", [Chosen("data_parallel", 2, "times_of_the_reducer")], ids=lambda case: case.name)
def test_the_reducer_measures_times_on_the_device(case_runs: CaseRuns, case: Chosen) -> None:
    for times in case_runs(case):
        assert {"avg_forward_compute_time", "avg_backward_compute_time", "avg_backward_comm_time"} <= set(times)
        assert all(value > 0 for name, value in times.items() if "overlap" not in name), times


@pytest.mark.parametrize("case", [Chosen("sharded", 2, "offloading_of_whole_models")], ids=lambda case: case.name)
def test_parameters_that_go_back_to_the_host_are_not_overwritten_in_use(case_runs: CaseRuns, case: Chosen) -> None:
    assert case_runs(case) == ["", ""]


@pytest.mark.parametrize("case", [Chosen("sharded", 2, "offloading")], ids=lambda case: case.name)
def test_offloading_to_the_host_changes_no_loss(case_runs: CaseRuns, case: Chosen) -> None:
    assert case_runs(case) == ["", ""]


@pytest.mark.parametrize("case", [Chosen("tensors", ranks, "random_numbers") for ranks in (2, 4)], ids=str)
def test_random_numbers_of_a_mesh_are_the_same_on_all_ranks(case_runs: CaseRuns, case: Chosen) -> None:
    assert all(case_runs(case))


@pytest.mark.parametrize("case", [Chosen("tensors", 2, "foreach_of_mixed_lists")], ids=str)
def test_what_pytorch_refuses_is_refused_in_the_same_words(case_runs: CaseRuns, case: Chosen) -> None:
    for on_tb, on_cpu in case_runs(case):
        assert on_tb
        assert on_tb == on_cpu


@pytest.mark.parametrize("case", [Chosen("tensors", ranks, "context_parallel") for ranks in (2, 4)], ids=str)
def test_attention_over_a_divided_sequence_is_that_over_the_whole(case_runs: CaseRuns, case: Chosen) -> None:
    for differences in case_runs(case):
        assert len(differences) == 24
        assert max(differences) < 1e-5


@pytest.mark.parametrize("case", [Chosen("tensors", 2, "context_parallel_of_others")], ids=str)
def test_a_divided_sequence_refuses_what_its_kernel_cannot_do(case_runs: CaseRuns, case: Chosen) -> None:
    for with_dropout, with_mask, on_cpu in case_runs(case):
        for text in (with_dropout, with_mask):
            assert "NotImplementedError: context_parallel on tb splits the attention of the flash kernel" in text
        assert "does not have a sharding strategy registered" in on_cpu
