"""The sweep of single operators: its catalogue, rows, aims, and a small run of both processes."""

from __future__ import annotations

import json
import math
import os
import pathlib
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
import torch
from benchmarks.operators import __main__ as program
from benchmarks.sweep import __main__ as sweep
from benchmarks.sweep import report, turns, worker
from benchmarks.sweep.catalogue import CATALOGUE, OPERATORS, REPRESENTATIVE, SIZES
from benchmarks.sweep.operator import Inputs, Operator, unary
from benchmarks.sweep.plot import plot
from benchmarks.sweep.rows import MEAN_AIMS, MOST_REASONS, REASONS, Row, aims, measured, read_reasons, summary
from benchmarks.threads import SETTINGS

TOOLS = pathlib.Path(__file__).parents[2] / "tools"
CPU, TB = torch.device("cpu"), torch.device("tb")
ROW = Row("sorting", "sort", 1024, "default", 10.0, 5.0, (0.5, 0.6, 0.4))
BEST = dict.fromkeys(SIZES, 0.5)


def whole(ratios: dict[int, float]) -> list[Row]:
    """Two lines for each size and setting, with the ratio of the size; the two of the loops are a tenth faster."""
    names = {"sort": ("sorting", 1.0), "x.item()": ("loops", 0.9)}
    return [
        replace(ROW, family=family, name=name, elements=size, threads=threads, ratios=(ratio * scale,) * 3)
        for name, (family, scale) in names.items()
        for size, ratio in ratios.items()
        for threads in SETTINGS
    ]


def test_the_catalogue_has_many_operators_with_unique_names() -> None:
    assert len({operator.name for operator in OPERATORS}) == len(OPERATORS) == len(CATALOGUE) >= 160
    assert SIZES == (1_024, 65_536, 1_048_576)


def test_every_kind_of_operator_is_in_the_catalogue() -> None:
    families = {operator.family for operator in OPERATORS}
    assert families >= {"elementwise", "reductions", "scans", "sorting", "factories", "copies", "indexing", "shapes"}
    assert families >= {"linear algebra", "layers", "layers backward", "losses", "losses backward", "optimizers"}
    assert sum(operator.family == "loops" for operator in OPERATORS) == 3


def test_twenty_operators_are_representative() -> None:
    assert len(set(REPRESENTATIVE)) == 20
    assert set(REPRESENTATIVE) <= set(CATALOGUE)


@pytest.mark.parametrize("size", SIZES)
def test_inputs_are_made_for_every_size(size: int) -> None:
    for operator in OPERATORS:
        assert callable(operator.make(Inputs(size, CPU))), operator.name


@pytest.mark.parametrize("name", CATALOGUE)
def test_an_operator_s_result_on_tb_is_that_on_stock_cpu(name: str) -> None:
    found, expected = (worker.plain(CATALOGUE[name].make(Inputs(SIZES[0], device))()) for device in (TB, CPU))
    assert expected
    assert worker.difference(found, expected, CATALOGUE[name].random) == ""


def test_inputs_are_the_same_on_every_device_and_have_about_the_asked_elements() -> None:
    for size in SIZES:
        here, there = Inputs(size, CPU), Inputs(size, TB)
        for make in (Inputs.normal, Inputs.positive, Inputs.distinct, Inputs.matrix, Inputs.images):
            one, other = make(here), make(there)
            assert other.device.type == "tb"
            assert one.numel() == size
            assert torch.equal(one, other.cpu())


def test_differences_of_results_are_found() -> None:
    x = torch.tensor([1.0, math.nan, 300.0])
    assert worker.difference([x], [x.clone()], False) == ""
    assert worker.difference([x + 0.02], [x], False) == ""
    assert "differ by up to 0.05" in worker.difference([x + 0.05], [x], False)
    assert "differ by up to" in worker.difference([x], [x.nan_to_num(math.inf)], False)
    assert "differ by up to" in worker.difference([x + 0.05], [torch.cat([x[:-1], torch.tensor([-math.inf])])], False)
    assert "1 of 2 elements" in worker.difference([torch.tensor([1, 2])], [torch.tensor([1, 3])], False)
    assert "instead of" in worker.difference([x], [x.double()], False)
    assert "instead of" in worker.difference([x], [x, x], False)
    assert "instead of" in worker.difference([x[:1]], [x], True)
    assert worker.difference([-x], [x], True) == ""


def test_a_row_counts_as_slower_or_faster_only_in_every_round() -> None:
    ratios = {(1.4, 1.5, 1.31): (1.4, True, False), (1.4, 1.5, 1.3): (1.4, False, False)}
    ratios |= {(0.7, 0.79, 0.1): (0.7, False, True), (0.7, 0.8, 0.1): (0.7, False, False)}
    for values, expected in ratios.items():
        row = replace(ROW, ratios=values)
        assert (row.ratio, row.slower, row.faster) == expected


def test_rows_are_sorted_and_failures_left_out() -> None:
    slow, failed = replace(ROW, name="slow", ratios=(2.0,)), replace(ROW, name="failed", ratios=(), error="no")
    assert [row.name for row in measured([ROW, failed, slow])] == ["slow", "sort"]


def test_the_summary_has_geometric_means_and_counts() -> None:
    four, half = replace(ROW, ratios=(4.0,) * 3), replace(ROW, ratios=(0.5,) * 3)
    one = replace(ROW, elements=65536, threads="1", ratios=(1.0,))
    found = summary([four, half, half, one])
    assert [(s.elements, s.threads, s.lines, s.slower, s.faster) for s in found] == [
        (1024, "default", 3, 1, 2),
        (65536, "1", 1, 0, 0),
    ]
    assert [s.mean for s in found] == pytest.approx([1.0, 1.0])


def test_a_good_sweep_meets_its_aims() -> None:
    found = aims(whole(BEST), (), whole=True)
    assert len(found) == len(SIZES) + len(SIZES) * len(SETTINGS) + 1  # means, loops, and the slowest line
    assert all(aim.met for aim in found)


@pytest.mark.parametrize(("elements", "bound"), MEAN_AIMS.items())
def test_the_mean_of_a_size_has_an_aim_at_the_default_threads(elements: int, bound: float) -> None:
    for ratio, met in ((bound, True), (bound * 1.1, False)):
        rows = [replace(row, ratios=(ratio,)) if row.elements == elements else row for row in whole(BEST)]
        missed = [aim.name for aim in aims(rows, (), whole=True) if not aim.met and aim.found > bound * 1.0001]
        assert missed == ([] if met else [f"geometric mean, {elements:,} elements, threads default"])
        assert all(aim.met for aim in aims(rows, (), whole=False))


def test_a_line_must_not_be_slow_without_a_reason() -> None:
    rows = [*whole(BEST), replace(ROW, name="topk", ratios=(1.6, 1.6, 1.0))]
    assert [aim.name for aim in aims(rows, (), True) if not aim.met] == ["topk, 1,024 elements, threads default"]
    assert all(aim.met for aim in aims(rows, {"topk"}, True))
    assert all(aim.met for aim in aims([*rows[:-1], replace(rows[-1], ratios=(1.5,))], (), True))


def test_a_loop_must_not_be_slow_and_no_reason_helps() -> None:
    rows = [*whole(BEST), replace(ROW, family="loops", name="loop", ratios=(1.31,))]
    assert [aim.name for aim in aims(rows, {"loop"}, True) if not aim.met] == [
        "loop loop, 1,024 elements, threads default"
    ]


def test_the_reasons_are_those_of_operators() -> None:
    assert len(read_reasons(REASONS, CATALOGUE)) <= MOST_REASONS


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ('"sirt" = "slow"', "no operator of the sweep is called 'sirt'"),
        ('"sort" = " "', "'sort' has no reason"),
        ("\n".join(f'"{name}" = "slow"' for name in list(CATALOGUE)[: MOST_REASONS + 1]), "11 reasons"),
    ],
)
def test_a_wrong_file_of_reasons_is_refused(text: str, error: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "reasons.toml").write_text(text)
    with pytest.raises(ValueError, match=error):
        read_reasons(tmp_path / "reasons.toml", CATALOGUE)


def test_the_text_names_slow_lines_fallbacks_and_failures() -> None:
    slow = replace(ROW, name="histc", ratios=(1.4,) * 3, fallbacks=("aten::histc",))
    failed = replace(ROW, name="mode", ratios=(), error="tb: RuntimeError: no")
    text = report.text([ROW, slow, failed], aims([ROW, slow], (), False))
    first, second = text.splitlines()[1:3]
    assert first.split()[1] == "histc"
    assert first.endswith("slower than 1.3 in every round; falls back: aten::histc")
    assert second.split()[1:] == ["sort", "1,024", "default", "10.00", "5.00", "0.50"]
    assert "FAILED  mode, 1,024 elements, threads default: tb: RuntimeError: no" in text
    assert text.endswith("1 of 1 aims met")


def test_the_table_by_size_has_a_line_for_each_operator() -> None:
    failed = replace(ROW, elements=65536, ratios=(), error="no")
    header, line, last = report.by_size([ROW, failed]).splitlines()
    assert header.split()[-2:] == ["1,024", "65,536"]
    assert line.split() == ["sort", "5.00", "0.50"]
    assert last == "FAILED  sort, 65,536 elements, threads default: no"


def test_a_plot_is_written(tmp_path: pathlib.Path) -> None:
    plot(whole(BEST), tmp_path / "new" / "sweep.png")
    assert (tmp_path / "new" / "sweep.png").read_bytes().startswith(b"\x89PNG")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(TOOLS)}
    command = [sys.executable, "-m", "benchmarks.operators", "--sweep", *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, check=False)


def test_a_small_sweep_ends_and_writes_its_results(tmp_path: pathlib.Path) -> None:
    results, written = tmp_path / "sweep.json", tmp_path / "sweep.md"
    options = ["--only", "^relu$|^flip$", "--seconds", "1e-4", "--sizes", "1024", "65536"]
    done = run(*options, "--json", str(results), "--page", str(written))
    found = json.loads(results.read_text())
    assert done.returncode == (0 if all(aim["met"] for aim in found["aims"]) else 1), done.stderr
    lines = {(row["name"], row["elements"], row["threads"]) for row in found["rows"]}
    assert lines == {(name, size, key) for name in ("relu", "flip") for size in (1024, 65536) for key in SETTINGS}
    assert all(len(row["ratios"]) == 3 and min(row["ratios"]) > 0 for row in found["rows"])
    assert found["failed"] == []
    assert f"{len(lines)} lines in" in done.stdout
    assert "| 65,536 | default | 2 |" in written.read_text()


def test_a_pattern_that_finds_nothing_is_an_error() -> None:
    with pytest.raises(SystemExit, match="nothing like it"):
        sweep.main(["--only", "nothing like it"])


@pytest.mark.parametrize("row", [replace(ROW, ratios=(1.6,)), replace(ROW, ratios=(), error="no")])
def test_a_missed_aim_and_a_failed_line_are_in_the_status(
    row: Row, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["--only", "sort", "--json", str(tmp_path / "sweep.json")]
    for rows, status in (([ROW], 0), ([ROW, row], 1)):
        monkeypatch.setattr(sweep, "measure", lambda *_, rows=rows: iter(rows))
        assert sweep.main(options) == status


def test_a_line_that_raises_is_a_failed_row_and_the_next_one_is_measured(tmp_path: pathlib.Path) -> None:
    unknown = Operator("sorting", "no such operator", unary(torch.relu))
    with turns.process("cpu", "1") as stock, turns.process("tb", "1") as tb:
        options = (1024, "1", turns.Plan(1, 1e-4), tmp_path / "result")
        failed, fine = (turns.line(stock, tb, one, *options) for one in (unknown, CATALOGUE["relu"]))
    assert failed.error.startswith("tb: KeyError: 'no such operator'")
    assert not fine.error
    assert len(fine.ratios) == 1


def test_a_wrong_result_is_a_failed_row(tmp_path: pathlib.Path) -> None:
    with turns.process("cpu", "1") as stock, turns.process("tb", "1") as tb:
        request = {"elements": 1024, "seconds": 1e-4}
        tb.ask(name="relu", write=str(tmp_path / "result"), **request)
        with pytest.raises(turns.LineError, match="cpu: RuntimeError: results differ by up to"):
            stock.ask(name="gelu", compare=str(tmp_path / "result"), **request)


def test_a_process_is_stopped_while_it_is_not_asked() -> None:
    with turns.process("cpu", "1") as stock:
        with pytest.raises(turns.LineError, match="KeyError"):
            stock.ask(name="no such operator", elements=1)
        status = pathlib.Path(f"/proc/{stock.pid}/status")
        until = time.monotonic() + 10
        while "State:\tT" not in status.read_text() and time.monotonic() < until:
            time.sleep(0.01)
        assert "State:\tT" in status.read_text()


def test_a_stopped_process_ends_when_its_parent_is_killed() -> None:
    code = """
import time
from benchmarks.sweep import turns
with turns.process("cpu", "1") as stock:
    try:
        stock.ask(name="no such operator", elements=1)
    except turns.LineError:
        print(stock.pid, flush=True)
        time.sleep(100)
"""
    environment = {**os.environ, "PYTHONPATH": str(TOOLS)}
    with subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout
        status = pathlib.Path("/proc", parent.stdout.readline().strip(), "status")
        assert status.exists()
        parent.kill()
    until = time.monotonic() + 10
    while status.exists() and "State:\tZ" not in status.read_text() and time.monotonic() < until:
        time.sleep(0.01)
    assert not status.exists() or "State:\tZ" in status.read_text()


def test_a_process_that_dies_ends_the_sweep_with_its_status() -> None:
    with turns.process("cpu", "1") as stock:
        os.kill(stock.pid, signal.SIGKILL)
        with pytest.raises(SystemExit, match="the process for cpu ended with -9"):
            stock.ask()


@pytest.mark.parametrize(("device", "autoload"), [("cpu", "1"), ("tb", "0")])
def test_stock_cpu_is_measured_without_the_package_and_tb_with_it(device: str, autoload: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(TOOLS), "TORCH_DEVICE_BACKEND_AUTOLOAD": autoload}
    command = [sys.executable, "-m", "benchmarks.sweep.worker", device]
    done = subprocess.run(command, env=environment, input="", capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"the process for {device} has {'not ' * (device == 'tb')}loaded torch_backend" in done.stderr


def test_an_operator_that_falls_back_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """relu is forced to fall back."""
    one = worker.Worker(TB)
    request = {"name": "relu", "elements": 1024, "seconds": 1e-4, "write": os.devnull}
    torch.tb.set_fallback_mode("allow")  # type: ignore[attr-defined]
    assert one.prepare(request) == {"fallbacks": []}
    with torch.tb.force_fallback("aten::relu"):  # type: ignore[attr-defined]
        assert one.prepare(request) == {"fallbacks": ["aten::relu"]}


def test_a_block_has_as_many_calls_as_take_the_asked_time() -> None:
    one = worker.Worker(CPU)
    one._call = lambda: time.sleep(0.001)
    assert 4 <= one._calibrated(0.01) <= 10


def test_bench_has_a_small_table_of_the_sweep(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(program, "measure", lambda arguments, environment: [])
    file = tmp_path / "bench.json"
    monkeypatch.setattr("sys.argv", ["bench", "flip", "--quick", "--json", str(file)])
    assert program.main() == 0
    rows = json.loads(file.read_text())["sweep"]
    assert [(row["name"], row["threads"]) for row in rows] == [("flip", "default")] * len(SIZES)
    assert capsys.readouterr().out.splitlines()[-1].startswith("flip ")
