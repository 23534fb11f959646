"""What kernels warn of on a worker, in programs of their own: the first call, TB_LAUNCH_BLOCKING, the exit, a child."""

from __future__ import annotations

import pytest
from conftest import RunPython


def test_types_seen_for_the_first_time_tell_inside_the_call(run_python: RunPython) -> None:
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


def test_with_launch_blocking_the_call_tells(run_python: RunPython) -> None:
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
def test_what_nobody_waited_for_is_reported_at_exit(action: str, run_python: RunPython) -> None:
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
