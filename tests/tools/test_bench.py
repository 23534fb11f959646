"""The parts of the benchmark: interleaving, rows, aims, and that every case runs on both devices."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from benchmarks.compile import compiled, lazy
from benchmarks.interleave import Plan, Subject, compare, nothing
from benchmarks.operators import __main__ as program
from benchmarks.operators import attention, beside
from benchmarks.operators.copies import COPIES, PINNED, SIZES
from benchmarks.operators.measure import rows
from benchmarks.operators.operators import AFTER_PAUSE, OPERATORS
from benchmarks.operators.products import LAYOUTS, measured, measured_batch
from benchmarks.operators.rows import Row, aims_text, table, verdicts
from benchmarks.operators.steps import STEPS, training_step
from examples.models.case import Training

ROW = Row("transformer d64", "step", 2, 300.0, 1000.0, 400.0, 0.3, 0.2, 0.4, 0.75)


def test_blocks_take_turns_and_every_other_round_is_swapped() -> None:
    order: list[str] = []
    subjects = [Subject(lambda name=name: order.append(name)) for name in "abc"]  # type: ignore[misc]
    compare(subjects, Plan(calls=1, rounds=3, wait_inside=True))
    assert "".join(order) == "abc" + "abc" + "cba" + "abc"


def test_a_subject_is_prepared_before_each_block_outside_of_the_time() -> None:
    order: list[str] = []

    def prepare() -> None:
        order.append("prepare")
        time.sleep(0.01)

    slow = Subject(lambda: order.append("call"), prepare=prepare)
    found = compare([slow, Subject(nothing)], Plan(calls=2, rounds=2, wait_inside=True))
    assert order == ["prepare", "call", "call"] * 3
    assert found.microseconds[0] < 2_000


def test_the_pause_and_warm_up_calls_before_a_block_are_not_timed() -> None:
    order: list[str] = []
    subject = Subject(lambda: order.append("call"), prepare=lambda: order.append("prepare"))
    found = compare([subject], Plan(calls=2, rounds=1, wait_inside=True, warm=3, pause=0.02))
    assert order == (["prepare"] + ["call"] * 5) * 2
    assert found.microseconds[0] < 5_000


@pytest.mark.parametrize("inside", [True, False])
def test_the_wait_counts_only_where_the_plan_says_so(inside: bool) -> None:
    waits, plain = Subject(nothing, finish=lambda: time.sleep(0.01)), Subject(nothing)
    found = compare([waits, plain], Plan(calls=1, rounds=3, wait_inside=inside))
    assert (found.microseconds[0] > 9_000) == inside


def test_the_ratios_are_first_to_each_other() -> None:
    slow, fast = Subject(lambda: time.sleep(0.004)), Subject(lambda: time.sleep(0.001))
    found = compare([slow, fast, slow], Plan(calls=2, rounds=5, wait_inside=True))
    assert 1.5 < found.ratios[0].median < 6
    assert found.ratios[1].median < 1.5
    assert all(ratio.least <= ratio.median <= ratio.greatest for ratio in found.ratios)


@pytest.mark.parametrize("name", ["MLP 4x128 batch 32", "transformer d64", "CNN 32x32 batch 32"])
def test_a_step_case_lowers_the_loss(name: str) -> None:
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


def test_rows_have_the_promised_names_and_leave_the_thread_count_alone() -> None:
    threads = torch.get_num_threads()
    found = list(rows(torch.device("tb"), quick=True))
    assert [row.name for row in found] == [*OPERATORS, *AFTER_PAUSE, *COPIES, *STEPS]
    assert all(row.ratio_least <= row.ratio <= row.ratio_greatest for row in found)
    assert all(row.ratio_to_better >= row.ratio and row.threads == threads for row in found)
    assert torch.get_num_threads() == threads
    assert len(table(found, "tb").splitlines()) == 1 + len(found)


def test_rows_can_be_chosen_by_a_part_of_their_name() -> None:
    assert [row.name for row in rows(torch.device("tb"), ["4X128", "empty"], quick=True)] == [
        "empty",
        "MLP 4x128 batch 32",
    ]


def test_a_bound_is_met_up_to_its_value_and_not_above() -> None:
    fine, slow = ROW, replace(ROW, ratio=0.41)
    assert [(v.bound, v.met) for v in verdicts([fine])] == [(0.4, True), (0.8, True)]
    assert [(v.bound, v.met) for v in verdicts([slow])] == [(0.4, False), (0.8, True)]
    assert aims_text(verdicts([fine, slow])).splitlines()[-1] == "3 of 4 aims met"


def test_every_row_has_an_aim_except_views_and_copies_to_the_host() -> None:
    held = {v.name for name in OPERATORS for v in verdicts([replace(ROW, name=name, kind="operator")])}
    assert set(OPERATORS) - held == {"view", "copy device to host"}
    assert {v.name for name in STEPS for v in verdicts([replace(ROW, name=name)])} == set(STEPS)


def test_copies_have_an_aim_except_those_from_pinned_memory() -> None:
    held = {v.name: v.bound for name in COPIES for v in verdicts([replace(ROW, name=name, kind="copy")])}
    assert set(COPIES) - set(held) == {f"{PINNED} {size}" for size in SIZES}
    assert set(held.values()) == {1.3}


def test_at_one_thread_a_step_must_not_be_slower() -> None:
    assert [v.bound for v in verdicts([replace(ROW, threads=1)])] == [1.02]


def test_the_report_holds_rows_and_aims(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "measure", lambda arguments, environment: [ROW])
    monkeypatch.setattr(
        "sys.argv", ["bench", "d64", "--threads", "default", "--json", str(tmp_path / "new" / "bench.json")]
    )
    assert program.main() == 0
    report = json.loads((tmp_path / "new" / "bench.json").read_text())
    assert report["rows"] == [asdict(ROW)]
    assert [list(aim) for aim in report["aims"]] == [["name", "threads", "against", "found", "bound", "met"]] * 2


def test_a_name_that_no_row_has_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "measure", lambda arguments, environment: [])
    monkeypatch.setattr("sys.argv", ["bench", "nothing like it"])
    with pytest.raises(SystemExit, match="nothing like it"):
        program.main()


@pytest.mark.parametrize("layout", LAYOUTS)
def test_products_are_timed_and_compared(layout: str) -> None:
    try:
        found = measured((20, 30, 40), layout, rounds=1)
    except RuntimeError as refused:
        pytest.skip(str(refused))
    assert found.own > 0
    assert found.stock > 0
    assert found.gigaflops == pytest.approx(2e-3 * 20 * 30 * 40 / found.own)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_batches_are_timed_and_compared(layout: str) -> None:
    found = measured_batch((3, 20, 30, 40), layout, rounds=1)
    assert found.own > 0
    assert found.stock > 0
    assert found.equal
    assert found.gigaflops == pytest.approx(2e-3 * 3 * 20 * 30 * 40 / found.own)


@pytest.mark.parametrize("backward", [False, True])
def test_attention_is_timed_and_compared(backward: bool) -> None:
    found = attention.measured((2, 2, 40, 16, True), backward, rounds=1)
    assert found.tb > 0
    assert found.stock > 0
    assert found.equal
    assert f"| 2 x 2 x 40 x 16 | causal | {'backward' if backward else 'forward'} |" in attention.table([found])


@pytest.mark.parametrize(("after", "status", "verdict"), [(10.9, 0, ": met"), (11.1, 1, "missed by transformer d64")])
def test_stock_cpu_beside_tb_may_be_a_tenth_slower_and_no_more(
    after: float, status: int, verdict: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        return subprocess.CompletedProcess(command, 0, stdout=f"10.0 {after}\n")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(sys, "argv", ["beside"])
    assert beside.main() == status
    text = capsys.readouterr().out
    assert verdict in text
    assert f"{after / 10:.2f}" in text


def test_beside_measures_a_step_before_and_after(monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []

    def milliseconds(name: str) -> float:
        order.append(name)
        return float(len(order))

    monkeypatch.setattr(beside, "_milliseconds", milliseconds)
    monkeypatch.setattr(beside, "_use_all_processors", lambda: order.append("tb"))
    assert beside.measure("LSTM 2x128") == (1.0, 3.0)
    assert order == ["LSTM 2x128", "tb", "LSTM 2x128"]


def compiled_row(name: str, ratio: float, host: float) -> compiled.Row:
    times = dict.fromkeys(compiled.WAYS, 100.0)
    return compiled.Row(name, 2, times, host, ratio, 0.3, compiled.AIMS.get(name, 1.0))


def long_row(default: float) -> compiled.Row:
    """A row with 2 ms for stock's compiled step and `default` microseconds for torch.compile(model) on tb."""
    row = compiled_row("transformer d512", 1.0, 5.0)
    return replace(row, microseconds={**row.microseconds, "cpu compiled": 2000.0, "compiled": default})


def test_a_compiled_row_meets_its_aim_by_its_ratio_and_by_the_host_s_time() -> None:
    name = "MLP 4x128 batch 32"
    assert compiled_row(name, 0.25, 10.0).met
    assert not compiled_row(name, 0.26, 10.0).met
    assert not compiled_row(name, 0.2, 10.1).met
    assert compiled_row("transformer d512", 1.0, 5.0).met
    assert not long_row(2110.0).met
    assert long_row(2090.0).met
    header, line, row = compiled.table([compiled_row(name, 0.25, 5.0)]).splitlines()
    assert header.count("|") == line.count("|") == row.count("|")


def test_a_compiled_row_is_measured(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Other backends replace Inductor, which takes half a minute for a model."""
    right = compiled._training

    def training(name: str, device: str, **options: str) -> Training:
        if options:
            options["backend"] = "tb" if device == "tb" else "aot_eager"
        return right(name, device, **options)

    monkeypatch.setattr(compiled, "_training", training)
    row = compiled.measure("MLP 4x128 batch 32", rounds=1, threads=torch.get_num_threads(), calls=2)
    assert set(row.microseconds) == set(compiled.WAYS)
    assert row.to_cpu_compiled > 0
    assert row.host > 0


def test_lazy_steps_are_measured() -> None:
    ours, theirs, ratio = lazy.measure("MLP", rounds=1, steps=2, env={})
    assert min(ours, theirs) > 0
    assert ratio == ours / theirs
