"""The contract kit's workers, judgement, mutants and pytest plugin."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import BuildDriver, Python
from tb_device.contract import mutants
from tb_device.contract.expectations import Expectations
from tb_device.contract.report import Report
from tb_device.contract.session import FAILED, NOT_OFFERED, PASSED, Result, Session
from tb_device.contract.target import Case, all_cases, make_target

CASES = {case.id: case for case in all_cases()}


def test_a_hang_is_killed_at_its_limit_with_the_stacks(build_driver: BuildDriver) -> None:
    with Session(make_target(str(build_driver("HANGS")), options={}), limit=1.0) as session:
        start = time.monotonic()
        hung = session.run(CASES["MEM-08"])
        assert time.monotonic() - start < 10
        assert (hung.outcome, hung.text) == (FAILED, "no end within its limit of 1 s; killed")
        assert "worker.py" in hung.output  # of all threads, as faulthandler shows them
        assert session.run(CASES["MEM-12"]).outcome == PASSED


def test_a_leak_shows_when_the_session_closes(build_driver: BuildDriver) -> None:
    target = make_target(str(build_driver("LEAKS")), options={})
    report = Report(target, 0, Expectations(), whole=False)
    with Session(target) as session:
        assert report.judge(session.run(CASES["MEM-08"])).outcome == PASSED
        report.finish(session)
    assert not report.passed()
    assert report.problems() == ["close was refused with status 9: probe has live objects"]


def report_of(groups: list[str], *results: Result, level: int = 2, whole: bool = True) -> Report:
    report = Report(make_target("cpu", options={}), level, Expectations(), whole=whole)
    report.about = {"groups": groups}
    for result in results:
        report.judge(result)
    return report


def case(name: str, *groups: str) -> Case:
    return Case(name, name[:3], 0, groups, ("E1",), "", 1.0, False, False, False)


def test_every_declared_group_within_the_level_needs_an_executed_case() -> None:
    executed = Result(case("XXX-01", "CORE"), PASSED)
    absent = Result(case("XXX-02", "TIMING"), NOT_OFFERED)
    assert report_of(["CORE"], executed, absent).passed()
    assert report_of(["CORE", "TIMING"], executed, absent).problems() == [
        "the driver declares TIMING, but no case of it was executed"
    ]
    assert report_of(["CORE", "TIMING"], executed, absent, whole=False).passed()
    assert report_of(["CORE", "IPC"], executed).passed()  # IPC belongs to a later level


def test_a_case_that_is_not_offered_does_not_count_as_passed() -> None:
    report = report_of([], Result(case("XXX-01"), NOT_OFFERED))
    assert not report.passed()
    assert report.words()["passed"] == 0


def test_a_mutant_is_caught_by_its_case(capsys: pytest.CaptureFixture[str]) -> None:
    assert mutants.main(["--only", "mem_misaligned"]) == 0
    assert "1/1 mutants caught" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("mutant", "said"),
    [
        (mutants.Mutant("mem_misaligned", "cpu", "mem_alloc.1", "MEM-99", ""), "there is no case MEM-99"),
        (mutants.Mutant("mem_misaligned", "cpu", "E1", "MEM-01", ""), "MEM-01 does not cite E1"),
        (mutants.Mutant("", "cpu", "mem_alloc.1", "MEM-01", ""), "MEM-01 passed"),
        (mutants.Mutant("mem_misaligned", "no_such_driver", "mem_alloc.1", "MEM-01", ""), "no_such_driver"),
    ],
)
def test_a_mutant_that_its_case_does_not_catch_is_missed(mutant: mutants.Mutant, said: str) -> None:
    caught, how = mutants.judge(mutant, {})
    assert not caught
    assert said in how


def test_every_mutant_names_a_case_that_cites_its_rule() -> None:
    assert len(mutants.all_mutants()) >= mutants.LEAST
    for mutant in mutants.all_mutants():
        assert mutant.rule in CASES[mutant.caught_by].rules, mutant.name


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("TB_", "PYTEST_"))}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "--pyargs", "tb_device.contract", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_pytest_runs_one_test_a_case(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = run_pytest(tmp_path, "-v", "-rs", "--tb-driver=cpu", "--tb-only=ABI", f"--tb-report={report}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "test_case[ABI-04] PASSED" in done.stdout
    assert "not offered: part of tb_device, not a library of its own" in done.stdout
    assert report.exists()


def test_pytest_fails_with_the_rules_of_a_failed_case(tmp_path: Path, build_driver: BuildDriver) -> None:
    done = run_pytest(tmp_path, f"--tb-driver={build_driver('CRASHES')}", "--tb-only=MEM-08")
    assert done.returncode == 1
    assert "mem_free.2: NULL is a no-op." in done.stdout


def test_pytest_without_a_driver_is_wrong_usage(tmp_path: Path) -> None:
    done = run_pytest(tmp_path)
    assert done.returncode != 0
    assert "needs --tb-driver" in done.stdout + done.stderr


def test_the_plugin_does_not_import_tb_device(python: Python) -> None:
    assert python.output("import sys, tb_device_pytest\nprint('tb_device' in sys.modules)") == "False"
