"""The benchmark's parts: interleaving, rows, and that every case runs on both devices."""

from __future__ import annotations

import time

import pytest
import torch
from bench.__main__ import table
from bench.interleave import Plan, Subject, compare
from bench.measure import rows
from bench.operators import OPERATORS
from bench.steps import STEPS, training_step

KEYS = ["name", "threads", "tb_us", "cpu_us", "ratio", "ratio_min", "ratio_max"]


def test_blocks_alternate_and_every_other_pair_is_swapped() -> None:
    order: list[str] = []
    first, second = Subject(lambda: order.append("a"), lambda: None), Subject(lambda: order.append("b"), lambda: None)
    compare(first, second, Plan(calls=1, pairs=3, wait_inside=True))
    assert "".join(order) == "ab" + "ab" + "ba" + "ab"


@pytest.mark.parametrize("inside", [True, False])
def test_the_wait_counts_only_where_the_plan_says_so(inside: bool) -> None:
    waits = Subject(lambda: None, lambda: time.sleep(0.01))
    plain = Subject(lambda: None, lambda: None)
    found = compare(waits, plain, Plan(calls=1, pairs=3, wait_inside=inside))
    assert (found.first_us > 9_000) == inside


def test_the_ratio_is_first_to_second() -> None:
    slow, fast = Subject(lambda: time.sleep(0.004), lambda: None), Subject(lambda: time.sleep(0.001), lambda: None)
    found = compare(slow, fast, Plan(calls=2, pairs=3, wait_inside=True))
    assert 1.5 < found.ratio < 6
    assert found.ratio_min <= found.ratio <= found.ratio_max


@pytest.mark.parametrize("name", ["MLP 4x128 batch 32", "transformer d64", "CNN 32x32 batch 32"])
def test_a_step_case_learns(name: str) -> None:
    torch.manual_seed(0)
    case = STEPS[name][0]()
    before = case.loss(case.model(case.inputs), case.targets).item()
    step = training_step(case, torch.device("cpu"))
    for _ in range(5):
        step()
    assert case.loss(case.model(case.inputs), case.targets).item() < before


def test_every_operator_runs_natively_on_tb(no_fallbacks: None) -> None:
    for make in OPERATORS.values():
        make(torch.device("tb"))()
    torch.accelerator.synchronize("tb")


def test_rows_have_the_promised_keys_and_names() -> None:
    found = [vars(row) for row in rows(torch.device("tb"), quick=True)]
    assert [row["name"] for row in found] == [*OPERATORS, *STEPS]
    assert all(list(row) == KEYS for row in found)
    assert all(row["ratio_min"] <= row["ratio"] <= row["ratio_max"] for row in found)
    text = table(found, "tb")
    assert len(text.splitlines()) == 1 + len(found)
