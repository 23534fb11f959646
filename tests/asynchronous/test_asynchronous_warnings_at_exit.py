"""Warnings of kernels on a worker, in separate processes: the first call, TB_LAUNCH_BLOCKING, the exit, a fork."""

from __future__ import annotations

import pytest
from conftest import RunPython


def test_the_first_call_with_new_types_reports_its_warning_itself(run_python: RunPython) -> None:
    program = """
    import warnings, torch
    warnings.simplefilter("error")
    x = torch.ones(1, device="tb")
    try:
        x.std()
    except UserWarning as error:
        assert "degrees of freedom" in str(error)
    else:
        raise SystemExit("the first call reported nothing")
    torch.ones(4, device="tb").std()
    x.std()
    try:
        torch.tb.synchronize()
    except UserWarning:
        print("reported")
    """
    done = run_python(program)
    assert (done.stdout, done.stderr) == ("reported\n", "")


def test_with_launch_blocking_the_call_reports_its_warning(run_python: RunPython) -> None:
    program = """
    import warnings, torch
    x = torch.ones(1, device="tb")
    with warnings.catch_warnings(record=True) as recorded:
        warnings.simplefilter("always")
        for _ in range(3):
            x.std()
            print(len(recorded))
    warnings.simplefilter("error")
    try:
        x.std()
    except UserWarning:
        print("raised")
    """
    done = run_python(program, {"TB_LAUNCH_BLOCKING": "1"})
    assert (done.stdout, done.stderr) == ("1\n2\n3\nraised\n", "")


@pytest.mark.parametrize("action", ["always", "error", "ignore"])
def test_warnings_without_a_wait_are_reported_at_exit(action: str, run_python: RunPython) -> None:
    program = f"""
    import warnings, torch
    x = torch.ones(1, device="tb")
    warnings.simplefilter("ignore")
    x.std(), x.var()
    torch.tb.synchronize()
    warnings.simplefilter("{action}")
    x.std(), x.var()
    """
    done = run_python(program)
    assert (done.stdout, done.stderr.count("degrees of freedom")) == ("", 0 if action == "ignore" else 2)


def test_a_child_leaves_its_parents_warnings_to_the_parent(run_python: RunPython) -> None:
    program = """
    import os, sys, warnings, torch
    x = torch.ones(1, device="tb")
    warnings.simplefilter("ignore")
    x.std()
    torch.tb.synchronize()
    warnings.simplefilter("always")
    x.std()
    if os.fork() == 0:
        sys.exit(0)
    assert os.wait()[1] == 0
    """
    assert run_python(program).stderr.count("degrees of freedom") == 1
