"""The report about a GPU on the simulated libcuda: its text, and that a failing part loses no other part's result."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from benchmarks.gpu import report as gpu_report
from conftest import ROOT

Report = Callable[..., tuple["subprocess.CompletedProcess[str]", dict[str, Any]]]
SIMULATION = "(SIMULATION, not a GPU)"


@pytest.fixture
def report(tmp_path: Path) -> Report:
    """Runs the command with some parts; returns the finished process and the JSON, {} if there is none."""

    def run(*arguments: str, only: list[str], **variables: str) -> tuple[subprocess.CompletedProcess[str], Any]:
        out = tmp_path / "report.json"
        program = ROOT / "tools" / "benchmarks" / "gpu" / "report.py"
        command = [sys.executable, str(program), "--quick", "--json", str(out), *arguments]
        command += [word for part in only for word in ("--only", part)]
        clean = {key: value for key, value in os.environ.items() if not key.startswith("TB_")}
        done = subprocess.run(
            command, env={**clean, **variables}, capture_output=True, text=True, timeout=300, check=False
        )
        return done, json.loads(out.read_text()) if out.exists() else {}

    return run


def test_without_torch_cuda_the_parts_that_need_it_say_so_and_are_not_passes(report: Report) -> None:
    needy = ["operators", "steps", "process_groups", "allocator"]
    done, found = report("--simulated", only=["contract", "calls", *needy])
    parts = found["parts"]
    assert done.returncode == gpu_report.NOT_RUN, done.stderr
    assert {name: parts[name]["outcome"] for name in needy} == dict.fromkeys(needy, "not run")
    assert all(parts[name]["text"].startswith("this needs torch.cuda, and torch ") for name in needy)
    assert (parts["contract"]["outcome"], parts["calls"]["outcome"]) == ("passed", "passed")
    assert "6 parts: 2 passed, 0 failed, 4 not run; aims met: 0 of 0" in done.stdout


def test_a_simulation_is_named_in_every_heading_and_in_the_json(report: Report) -> None:
    done, found = report("--simulated", only=["calls"])
    headings = [line for line in done.stdout.splitlines() if line.startswith("#")]
    assert len(headings) == 2
    assert all(SIMULATION in heading for heading in headings)
    assert found["simulated"] is True
    assert SIMULATION in found["label"]
    assert found["versions"]["tb-device"] in done.stdout
    assert found["date"] in done.stdout
    costs = dict(found["parts"]["calls"]["rows"])
    for what in ("event_record", "event_query, complete", "vmm_map, 2 MiB", "vmm_unmap, 8 MiB"):
        assert costs[what] >= 0


def test_tb_on_the_simulated_cuda_is_compared_with_another_device(report: Report) -> None:
    done, found = report("--simulated", "--reference", "cpu", only=["operators", "steps"])
    assert done.returncode in (0, gpu_report.AIM_MISSED), done.stdout
    operators, steps = found["parts"]["operators"], found["parts"]["steps"]
    assert "add" in [row[0] for row in operators["rows"]]
    assert all(row[3] > 0 for row in operators["rows"])
    assert [row[0] for row in steps["rows"]] == ["demo GPT", "ResNet-18 shape", "Llama shape"]
    assert [aim["bound"] for aim in steps["aims"]] == [1.03] * 3
    assert not any("WRONG" in note for note in steps["notes"])


def test_the_process_groups_run_on_the_simulated_cuda(report: Report) -> None:
    done, found = report("--simulated", "--reference", "cpu", only=["process_groups"])
    assert done.returncode == 0, done.stdout + done.stderr
    part = found["parts"]["process_groups"]
    assert part["text"].endswith(" ranks, by gloo; the sums are right")
    assert [row[0] for row in part["rows"]] == ["4 bytes"]


def test_the_allocators_workload_and_the_conformance_run_on_the_simulated_cuda(report: Report) -> None:
    done, found = report("--simulated", "--reference", "tb", only=["allocator", "conformance"])
    assert done.returncode == 0, done.stdout
    [peak, taken, *_] = found["parts"]["allocator"]["rows"]
    assert peak[0].startswith("peak reserved")
    assert peak[1] == peak[2] > 0  # both run the same workload with tb-allocator here
    assert taken[1] > 0
    assert found["parts"]["conformance"]["text"].startswith("2 of 2 cases ran, 0 failed")


def test_without_a_device_one_sentence_says_why(report: Report) -> None:
    done, found = report(only=["calls"], TB_CUDA_LIBRARY="/absent/libcuda.so.1")
    assert done.returncode == gpu_report.NO_DEVICE
    assert "/absent/libcuda.so.1" in done.stderr
    assert (found, done.stdout) == ({}, "")


PARTS = {
    "dies": "import os\nprint('these were my last words', flush=True)\nos.abort()",
    "hangs": """
        import os, signal, subprocess, sys
        code = "import signal; signal.pause()"
        child = subprocess.Popen([sys.executable, "-c", code])
        print(f"child {child.pid}", flush=True)
        signal.pause()
    """,
    "works": """
        import json, sys
        result = {"outcome": "passed", "text": "well", "columns": [], "rows": [], "notes": [], "aims": []}
        open(sys.argv[sys.argv.index("--out") + 1], "w").write(json.dumps(result))
    """,
}


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment in which benchmarks.gpu.parts has the parts of this file."""
    package = tmp_path / "benchmarks" / "gpu" / "parts"
    package.mkdir(parents=True)
    for name, code in PARTS.items():
        lines = code.strip("\n").splitlines()
        (package / f"{name}.py").write_text("\n".join(line.strip() for line in lines) + "\n")
    return {**os.environ, "PYTHONPATH": str(tmp_path)}


def test_a_part_that_crashes_is_a_failure_with_its_last_output(environment: dict[str, str]) -> None:
    died = gpu_report.run_part("dies", 60, [], environment)
    assert died["outcome"] == "failed"
    assert died["text"] == "the part ended with status -6: these were my last words\n"
    assert gpu_report.run_part("works", 60, [], environment)["outcome"] == "passed"


def test_a_part_that_takes_too_long_is_killed_with_its_children(environment: dict[str, str]) -> None:
    hung = gpu_report.run_part("hangs", 3, [], environment)
    assert hung["outcome"] == "failed"
    before, _, after = hung["text"].partition(": child ")
    assert before == "the part was not done after 3 s and was ended"
    with contextlib.suppress(ProcessLookupError):  # the process has ended already
        [(_, event)] = select_when_ended(int(after))
        assert event == select.POLLIN


def select_when_ended(process: int) -> list[tuple[int, int]]:
    """Waits for the end of a process that is not a child of this one; returns an empty list after a minute."""
    poll = select.poll()
    poll.register(os.pidfd_open(process), select.POLLIN)
    return poll.poll(60_000)


def part(outcome: str, *met: bool) -> dict[str, Any]:
    return {"outcome": outcome, "aims": [{"met": each} for each in met]}


def test_the_status_tells_a_failure_from_what_could_not_run_and_from_a_missed_aim() -> None:
    passed, missed = part("passed", True), part("passed", True, False)
    assert gpu_report.status_of({"a": passed}) == 0
    assert gpu_report.status_of({"a": passed, "b": missed}) == gpu_report.AIM_MISSED
    assert gpu_report.status_of({"a": missed, "b": part("not run")}) == gpu_report.NOT_RUN
    assert gpu_report.status_of({"a": part("not run"), "b": part("failed")}) == gpu_report.FAILED
    argparse_status = 2
    codes = {0, gpu_report.FAILED, argparse_status, gpu_report.NO_DEVICE, gpu_report.NOT_RUN, gpu_report.AIM_MISSED}
    assert len(codes) == 6


def test_a_missed_aim_is_reported() -> None:
    aim = {"what": "add, tb / cuda", "found": 1.2, "bound": 1.1, "met": False}
    result = {**gpu_report.failure(""), "outcome": "passed", "text": "1 compared", "aims": [aim]}
    assert "- aim MISSED: add, tb / cuda: 1.2 <= 1.1" in gpu_report.readable_part("operators", result, "")
