"""A run of the conformance suite: worker processes, crashes, hangs, expectations, verdict, reports, command line."""

import json
import pathlib
import sys
import textwrap
import threading

import pytest
import torch
from torch_backend._worker_process import WorkerFailed
from torch_backend.conformance.case import FAILED, NOT_APPLICABLE, PASSED, Case, Result
from torch_backend.conformance.cli import main
from torch_backend.conformance.expectations import SHIPPED, Expectation, load
from torch_backend.conformance.page import page
from torch_backend.conformance.pool import Pool, Setup
from torch_backend.conformance.report import Report, cause

ADD = Case("forward", "add", "float32")
MUL = Case("forward", "mul", "float32")
ADD_FAILS = Expectation("forward", "add", "a reason", error="values")


def report(*results: Result, expectations: tuple[Expectation, ...] = (), complete: bool = False) -> Report:
    made = Report([result.case for result in results], list(expectations), complete=complete)
    for result in results:
        made.add(result)
    return made


def test_a_run_without_failures_passes() -> None:
    made = report(Result(ADD, PASSED, samples=2), Result(MUL, PASSED, samples=2))
    assert made.verdict() == []
    figures = made.to_json({})["checks"]["forward"]
    assert {name: figures[name] for name in ("total", "executed", "passed", "xfailed", "failed")} == {
        "total": 2,
        "executed": 2,
        "passed": 2,
        "xfailed": 0,
        "failed": 0,
    }
    assert "native_rate" not in figures


def test_a_failure_is_named() -> None:
    made = report(Result(ADD, FAILED, "values differ", failed_samples=1), Result(MUL, PASSED))
    assert len(made.verdict()) == 1
    [failure] = made.to_json({})["checks"]["forward"]["failures"]
    assert (failure["op"], failure["dtype"], failure["message"]) == ("add", "float32", "values differ")


def test_nothing_executed_is_a_failure() -> None:
    assert "nothing" in report().verdict()[0]
    assert "executed nothing" in report(Result(ADD, NOT_APPLICABLE, "no sample")).verdict()[0]


def test_an_expected_failure_needs_its_error() -> None:
    assert report(Result(ADD, FAILED, "values differ"), expectations=(ADD_FAILS,)).tallies["forward"].failures == []
    made = report(Result(ADD, FAILED, "crash"), expectations=(ADD_FAILS,))
    assert made.verdict()


def test_an_unexpected_pass_is_a_failure() -> None:
    made = report(Result(ADD, PASSED), expectations=(ADD_FAILS,))
    assert "unexpected pass" in made.tallies["forward"].failures[0].message
    assert made.verdict()


def test_an_expectation_without_a_case_fails_a_whole_run() -> None:
    assert any(
        "belongs to no case" in reason
        for reason in report(Result(MUL, PASSED), expectations=(ADD_FAILS,), complete=True).verdict()
    )
    assert report(Result(MUL, PASSED), expectations=(ADD_FAILS,)).verdict() == []


def test_a_case_that_did_not_run_fails_a_whole_run() -> None:
    made = Report([ADD, MUL], [], complete=True)
    made.add(Result(ADD, PASSED))
    assert any("did not run" in reason for reason in made.verdict())


def test_the_native_rate_counts_cases_without_fallback() -> None:
    made = report(Result(ADD, PASSED, fallbacks=[]), Result(MUL, PASSED, fallbacks=["aten::mul"]))
    assert made.to_json({})["checks"]["forward"]["native_rate"] == 0.5


def test_causes_forget_numbers_and_shapes() -> None:
    assert cause("shape is torch.Size([2, 3]) at 0.5") == cause("shape is torch.Size([4]) at 1e-3")


@pytest.mark.parametrize(
    "text",
    ['check = "forward"\nop = "add"', 'check = "forward"\nop = "add"\nreason = "r"\nwhen = "never"'],
    ids=["no reason", "unknown key"],
)
def test_a_wrong_expectation_is_refused(text: str, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "expected.toml"
    file.write_text("[[expected]]\n" + text)
    with pytest.raises(ValueError, match="number 1"):
        load([file], "cpu")


def test_expectations_are_for_a_device(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "expected.toml"
    file.write_text('[[expected]]\ncheck = "*"\nop = "*"\nreason = "r"\ndevice = "t?"\n')
    assert len(load([file], "tb")) == 1
    assert load([file], "cpu") == []


def test_an_expectation_can_be_for_some_versions_of_pytorch(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "expected.toml"
    entry = '[[expected]]\ncheck = "forward"\nop = "add"\nreason = "why"\ntorch = "{}"\n'
    file.write_text(entry.format("1.9," + ".".join(torch.__version__.split(".")[:2])))
    assert len(load([file], "tb")) == 1
    file.write_text(entry.format("1.9,1.10"))
    assert load([file], "tb") == []


def test_an_expectation_can_be_for_some_sets_of_operators(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "expected.toml"
    file.write_text('[[expected]]\ncheck = "forward"\nop = "add"\nreason = "why"\noperators = "j*"\n')
    assert len(load([file], "tb", ["jit", "host_copy"])) == 1
    assert load([file], "tb", ["host"]) == load([file], "tb") == []


def test_the_shipped_expectations_are_well_formed() -> None:
    load([SHIPPED], "tb")


# A worker in which the operator `sub` crashes, `mul` hangs and `div` exits.
PLANTED = textwrap.dedent("""
    import os, signal, time
    from torch_backend.conformance import databases, worker

    def crash(*_, **__):
        os.kill(os.getpid(), signal.SIGSEGV)

    def hang(*_, **__):
        time.sleep(600)

    def leave(*_, **__):
        os._exit(3)

    operators = databases.operators()
    operators["sub"].op, operators["mul"].op, operators["true_divide"].op = crash, hang, leave
    worker.main()
""")


def test_a_crash_or_a_hang_fails_its_case_and_the_run_goes_on(tmp_path: pathlib.Path) -> None:
    script = tmp_path / "planted.py"
    script.write_text(PLANTED)
    setup = Setup("cpu", "quick", seed=0, case_limit=5.0, command=(sys.executable, str(script)))
    names = ["add", "sub", "sigmoid", "mul", "true_divide", "exp"]
    results = {
        result.case.entry: result
        for result in Pool(setup, 1).run([Case("forward", name, "float32") for name in names], threading.Event())
    }
    assert {name for name in names if results[name].status == PASSED} == {"add", "sigmoid", "exp"}
    assert "SIGSEGV" in results["sub"].message
    assert "in crash" in results["sub"].message  # the stack that faulthandler printed
    assert results["sub"].extra["before it in the same process"] == ["forward add float32"]
    assert "hang" in results["mul"].message
    assert "in hang" in results["mul"].message
    assert "exit status 3" in results["true_divide"].message


def test_a_missing_device_is_reported() -> None:
    with pytest.raises(WorkerFailed, match="nosuchdevice"):
        Pool(Setup("nosuchdevice", "quick", 0, 5.0), 1)


def test_the_command_line_runs_and_reports(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    json_file, page_file = tmp_path / "r.json", tmp_path / "r.md"
    arguments = ["--device", "cpu", "--op", "sigmoid", "--check", "forward,backward", "--json", str(json_file)]
    assert main([*arguments, "--page", str(page_file), "--workers", "1"]) == 0
    written = json.loads(json_file.read_text())
    assert written["ok"]
    assert set(written["checks"]) == {"forward", "backward"}
    assert all(check["executed"] == check["passed"] > 0 for check in written["checks"].values())
    assert "| backward | 1 | 1 | 1 |" in page_file.read_text()
    assert capsys.readouterr().out.endswith("passed\n")


def test_the_command_line_fails_when_nothing_is_selected() -> None:
    assert main(["--device", "cpu", "--op", "nosuchoperator"]) == 1
    assert main(["--device", "cpu", "--check", "nosuchcheck"]) == 2


def test_a_check_of_two_devices_is_left_out_where_there_is_one(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    json_file = tmp_path / "r.json"
    arguments = ["--device", "cpu", "--op", "sigmoid", "--workers", "1", "--json", str(json_file)]
    assert main([*arguments, "--check", "second_device,forward"]) == 0
    assert json.loads(json_file.read_text())["left_out"] == ["second_device"]
    assert "left out: second_device needs 2 devices, and there is one" in capsys.readouterr().out
    assert main([*arguments, "--check", "second_device", "--profile", "full"]) == 1  # it proves nothing by itself


def test_the_page_names_failures_and_expected_failures() -> None:
    made = report(Result(ADD, FAILED, "values | differ"), Result(MUL, FAILED, "broken"), expectations=(ADD_FAILS,))
    text = page(made, {"device": "cpu", "profile": "quick", "seed": 0, "seconds": 1.0, "facts": {}})
    assert "| forward add float32 | a reason |" in text
    assert "| forward mul float32 | 0 of 1 | broken |" in text
