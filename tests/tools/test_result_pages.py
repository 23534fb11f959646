"""The pages that benchmarks write of their results (`--page`)."""

from __future__ import annotations

import datetime
import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest
from benchmarks import pages
from benchmarks.page import Table, machine, page, write

TOOLS = pathlib.Path(__file__).parents[2] / "tools"


def test_a_page_says_what_was_measured_where_and_when() -> None:
    text = page("Speed", "nox -s speed", [Table(["", "ns"], [["a|b", 1.5]], "Nanoseconds.")], ["1 of 1 aims met"])
    today = datetime.date.today().isoformat()
    assert text == (
        f"# Speed\n\n`nox -s speed`, {today}; {machine()}.\n\nNanoseconds.\n\n"
        "|  | ns |\n| --- | --- |\n| a\\|b | 1.5 |\n\n- 1 of 1 aims met\n"
    )


def test_the_machine_is_named() -> None:
    assert "Python 3." in machine()
    assert f"{len(os.sched_getaffinity(0))} x " in machine()


def test_writing_makes_the_folder(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "new" / "page.md", "text\n")
    assert (tmp_path / "new" / "page.md").read_text() == "text\n"


ROW: dict[str, Any] = {"name": "add", "kind": "operator", "threads": 1, "tb_us": 0.66, "cpu_us": 0.8}
ROW |= {"cpu_one_thread_us": 0.8, "ratio": 0.83, "ratio_to_better": 0.83, "ratio_least": 0.6, "ratio_greatest": 1.9}
AIM: dict[str, Any] = {"name": "add", "threads": 1, "against": "cpu", "found": 0.83, "bound": 0.8, "met": False}
COMPILED: dict[str, Any] = {
    "name": "MLP",
    "threads": 2,
    "microseconds": {"captured": 202.0, "plain": 256.0},
    "host": 4.1,
}
COMPILED |= {"to_cpu_compiled": 0.25, "to_cpu_plain": 0.34, "aim": 0.25}
TRACE: dict[str, Any] = {
    "utilisation": 0.9922,
    "nanoseconds_per_event": 79.0,
    "memory_calls_per_event": 0.5,
    "synchronisations": 0,
}
TRACE |= {"ladder": {"1.005": False, "1.01": True}}
TRACE |= {"plan": {"utilisation": 1.0, "nanoseconds_per_event": 20.0, "calls": {"stream_wait": 3}, "memory_calls": 0}}
PINNED: dict[str, Any] = {"waste": 1.05, "nanoseconds_per_event": 9.0, "calls_per_event": [0.3, 0.1]}
TIMES: dict[str, Any] = {
    "replays": {"frames": {"tb": {"nanoseconds_per_event": 79.0}}},
    "pairs": {"tb": {"pair_512": 21.8}},
}
TIMES["instructions"] = {"generate:frames": 706.2}
ALLOCATOR: dict[str, Any] = {
    "traces": {"generate:frames": TRACE},
    "pinned": {"generate:loader:0": PINNED},
    "times": TIMES,
    "acceptance": [
        {"promise": "utilisation", "met": True},
        {"promise": "RMM's time", "met": None},
    ],
}
GENERATED: dict[str, Any] = {"nanoseconds": {"tb": 0.62, "torch": 4.57}, "times": {"torch": 7.4, "NumPy": 4.2}}
GENERATED |= {"aims": {"torch": 5.0}, "met": {"torch": True}}
DEMO: dict[str, Any] = {
    "tb_losses": [5.5, 4.1],
    "cpu_losses": [5.5, 4.1],
    "tb_step_ms": None,
    "cpu_step_ms": None,
    "ratio": None,
}
DEMO |= {"driver": "cpu", "steps": 20, "seconds": 9.0, "loss_last": 4.0, "unigram_entropy": 3.2, "fallbacks": []}
DEMO |= {"peak_bytes": 1 << 20}

SINGLE: dict[str, Any] = {"family": "sorting", "name": "sort", "elements": 65536, "threads": "1", "fallbacks": []}
SINGLE |= {"stock_us": 900.0, "tb_us": 1350.0, "ratio": 1.5, "slower": True}
QUICK = {**SINGLE, "name": "topk", "ratio": 0.5, "slower": False}
FALLEN = {**QUICK, "name": "histc", "fallbacks": ["aten::histc"]}
SWEEP: dict[str, Any] = {
    "rows": [SINGLE, FALLEN, QUICK],
    "summary": [{"elements": 65536, "threads": "1", "lines": 3, "mean": 0.721, "slower": 1, "faster": 2}],
    "aims": [{"name": "sort", "found": 1.6, "bound": 1.5, "met": False}],
    "reasons": {"svd": "LAPACK's"},
    "failed": [{"name": "mode", "error": "tb: RuntimeError: no"}],
    "seconds": 300.2,
}

PAGES = {
    "bench": (pages.operators_and_steps({"rows": [ROW], "aims": [AIM]}), "| add | 1 | 0.66 | 0.80 |"),
    "bench's aims": (
        pages.operators_and_steps({"rows": [ROW], "aims": [AIM]}),
        "not met: add, threads 1: 0.830 of cpu",
    ),
    "bench's single operators": (
        pages.operators_and_steps({"rows": [ROW], "aims": [AIM], "sweep": [SINGLE]}),
        "| sorting | `sort` | 65,536 | 1 | 900.00 | 1350.00 | 1.50 |",
    ),
    "bench --sweep": (pages.sweep(SWEEP), "| 65,536 | 1 | 3 | 0.721 | 1 | 2 |"),
    "bench --sweep, slow lines": (pages.sweep(SWEEP), "| `sort` | 65,536 | 1 | 900.00 | 1350.00 | 1.50 |  |"),
    "bench --sweep, fallbacks": (
        pages.sweep(SWEEP),
        "| `histc` | 65,536 | 1 | 900.00 | 1350.00 | 0.50 | aten::histc |",
    ),
    "bench --sweep, families": (pages.sweep(SWEEP), "| sorting | 3 | 0.721 |"),
    "bench --sweep, aims": (pages.sweep(SWEEP), "not met: sort: 1.60, aim 1.5"),
    "bench --sweep, reasons": (pages.sweep(SWEEP), "- `svd` may be slow: LAPACK's"),
    "bench --sweep, failures": (pages.sweep(SWEEP), "- failed: mode: tb: RuntimeError: no"),
    "bench-graphs": (
        pages.graphs([{"name": "MLP", "eager": 0.14, "replay": 0.06, "ratio": 0.43, "operations": 18}], 0.7),
        "| MLP | 0.140 | 0.060 | 0.43 | 18 |",
    ),
    "bench-compile": (
        pages.compiled([COMPILED], ["captured", "plain"], [True]),
        "| MLP | 2 | 202 | 256 | 4.1 | 0.25 |",
    ),
    "bench-profiler": (
        pages.profiler([{"width": 64, "way": "off", "microseconds": 401.2, "ratio": 1.004}], 9, "aim: met"),
        "| 64 | off | 401 | 1.00 |",
    ),
    "bench-allocator": (pages.allocator(ALLOCATOR), "| frames | 99.22 % | 79.0 | 0.5000 | 0 | 1.005 |"),
    "bench-allocator's plans": (pages.allocator(ALLOCATOR), "| frames | 100.00 % | 20.0 | 3 | 0 |"),
    "bench-allocator's pinned memory": (pages.allocator(ALLOCATOR), "| loader:0 | 1.050 | 9.0 | 0.3000 | 0.1000 |"),
    "bench-allocator's peers": (pages.allocator(ALLOCATOR), "| pair_512 | 21.8 |"),
    "bench-allocator's instructions": (pages.allocator(ALLOCATOR), "| frames | 706 |"),
    "bench-allocator's gaps": (pages.allocator(ALLOCATOR), "not measured here: RMM's time"),
    "bench-generator": (pages.generator({"uniform": GENERATED}), "| uniform | 0.62 | 4.57 | 7.4 | 4.2 |"),
    "demo": (pages.demo(DEMO, 4.08), "| step time, ms | not timed | not timed | not timed |"),
    "fuzz": (pages.fuzz("500 cases: 0 failed", 0, 44.0), "| seed 0 | 500 cases: 0 failed |"),
    "statistics": (pages.statistics({"normal": {"moments": -1.57}}, 100, ["x: distance"]), "| normal | -1.57 |  |  |"),
}


@pytest.mark.parametrize("name", PAGES)
def test_a_benchmarks_page_has_its_figures(name: str) -> None:
    text, expected = PAGES[name]
    assert expected in text


def test_the_page_of_a_sweep_leaves_out_lines_without_anything_to_say() -> None:
    assert "topk" not in pages.sweep(SWEEP)


def test_statistics_name_what_failed() -> None:
    assert "- failed: x: distance" in PAGES["statistics"][0]


def run(module: str, *arguments: str) -> None:
    environment = {**os.environ, "PYTHONPATH": str(TOOLS)}
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_command_writes_its_page(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "statistics.md"
    run(
        "benchmarks.generator.statistics",
        "--samples",
        "100000",
        "--no-dieharder",
        "--only",
        "uniform",
        "--page",
        str(file),
    )
    assert "| uniform | " in file.read_text()


def test_a_page_and_the_json_have_the_same_rows(tmp_path: pathlib.Path) -> None:
    file, results = tmp_path / "generator.md", tmp_path / "generator.json"
    run(
        "benchmarks.generator",
        "uniform",
        "--elements",
        "10000",
        "--rounds",
        "1",
        "--page",
        str(file),
        "--json",
        str(results),
    )
    for name in json.loads(results.read_text()):
        assert f"| {name} | " in file.read_text()
