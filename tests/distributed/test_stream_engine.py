"""Calls that an engine of streams serves, as NCCL does on CUDA, are those of gloo on the CPU.

Tested on the simulation only: of the CUDA library, of PyTorch's CUDA kernels, and of NCCL.
"""

from __future__ import annotations

import pytest
import torch
from sim_vendor import simulated

from distributed.conftest import CaseRuns, Chosen
from distributed.programs import collectives, memory, stream_engine

pytestmark = pytest.mark.skipif(
    torch.version.cuda is not None, reason="the simulated backend takes the place of kernels that this PyTorch has"
)
SECONDS = 400
FORKED = False  # a library must be loaded before torch

COUNTED = ("waited_for_on_another_stream", "all_memory_comes_back")
OTHER = ("the_engine_is_used", "barrier", "call_in_a_capture", *COUNTED)


def chosen(*names: str) -> list[Chosen]:
    return [Chosen("stream_engine", 2, name) for name in names]


def cases(kind: str) -> list[Chosen]:
    """The cases of a kind: "collectives", "memory" or "training"."""
    groups = {"collectives": (*collectives.KINDS, "subgroup"), "memory": tuple(memory.CASES)}
    names = [name for name in stream_engine.CASES if name not in OTHER]
    known = {name for group in groups.values() for name in group}
    return chosen(*(name for name in names if name in groups.get(kind, set(names) - known)))


@pytest.fixture(scope="module", autouse=True)
def libraries() -> None:
    """Built once, in front of the ranks."""
    simulated.variables_of_torch_cuda()
    simulated.build_for_torch("simulated_nccl")


@pytest.mark.parametrize("case", cases("collectives"), ids=lambda case: case.name)
def test_results_are_bit_identical(case_runs: CaseRuns, case: Chosen) -> None:
    for value in case_runs(case):
        differs, on_tb, on_cpu = value["float32"]
        assert not differs
        assert on_tb == on_cpu
        if "int16" in value:  # gloo and NCCL do not know it: it moves as bytes, and its reductions are refused
            differs, on_tb, int16_on_cpu = value["int16"]
            assert not differs
            assert bool(on_tb) == bool(on_cpu) or on_tb == int16_on_cpu


@pytest.mark.parametrize("case", cases("memory"), ids=lambda case: case.name)
def test_contents_of_memory_are_right(case_runs: CaseRuns, case: Chosen) -> None:
    assert case_runs(case) == [None, None]


@pytest.mark.parametrize("case", chosen(*COUNTED), ids=lambda case: case.name)
def test_memory_is_kept_until_the_engine_is_done_and_no_longer(case_runs: CaseRuns, case: Chosen) -> None:
    assert case_runs(case) == [0, 0]


@pytest.mark.parametrize("case", cases("training"), ids=lambda case: case.name)
def test_training_is_bit_identical(case_runs: CaseRuns, case: Chosen) -> None:
    for value in case_runs(case):
        assert value["tensors"]
        assert not value["differs"]
        assert not value["fallbacks"]


@pytest.mark.parametrize("case", chosen("the_engine_is_used"), ids=lambda case: case.name)
def test_the_engine_has_made_the_calls(case_runs: CaseRuns, case: Chosen) -> None:
    assert case_runs(case) == [{"calls": 3, "waits": 3}] * 2


@pytest.mark.parametrize("case", chosen("barrier"), ids=lambda case: case.name)
def test_a_barrier_waits_for_the_stream(case_runs: CaseRuns, case: Chosen) -> None:
    assert case_runs(case) == [None, None]


@pytest.mark.parametrize("case", chosen("call_in_a_capture"), ids=lambda case: case.name)
def test_a_call_in_a_capture_is_refused(case_runs: CaseRuns, case: Chosen) -> None:
    for text in case_runs(case):
        assert text.startswith("all_reduce is called while a graph is captured")
