"""Random operator programs give the same results on tb as on stock cpu, and the fuzzer finds planted bugs."""

from __future__ import annotations

import os
import re
import subprocess
import textwrap

import pytest
from conftest import ROOT, RunPython

PYTHONPATH = os.pathsep.join([str(ROOT / "tools"), str(ROOT / "tests")])
TESTS = {"PYTHONPATH": PYTHONPATH, "OMP_NUM_THREADS": "1"}


def fuzz(run_python: RunPython, arguments: str, plant: str = "") -> subprocess.CompletedProcess[str]:
    """Runs the fuzzer in its own process, after the code `plant`."""
    lines = [
        "import runpy, sys",
        textwrap.dedent(plant),
        f"sys.argv = ['fuzz', *{arguments.split()}]",
        "runpy.run_module('fuzz', run_name='__main__')",
    ]
    return run_python("\n".join(lines), TESTS, check=False, timeout=280)


def test_random_programs_give_what_stock_cpu_gives(run_python: RunPython) -> None:
    done = fuzz(run_python, "--cases 40 --seed 0")
    assert done.returncode == 0, done.stdout + done.stderr
    figures = re.search(
        r"40 cases, (\d+) steps, (\d+) cases with side streams, (\d+) with threads, (\d+) with forced", done.stdout
    )
    assert figures is not None, done.stdout
    assert int(figures[1]) > 1000
    assert min(int(figures[i]) for i in (2, 3, 4)) >= 5


def test_processes_may_begin_with_a_use_from_cpp(run_python: RunPython) -> None:
    done = fuzz(run_python, "--fresh --cases 12 --seed 0")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "12 cases, each in a process whose first use of tb comes from C++: 0 failed" in done.stdout


def test_a_first_use_that_fails_or_ends_the_process_is_found(run_python: RunPython) -> None:
    done = fuzz(
        run_python, "--fresh --cases 3 --keep-going", "import torch_backend as t; t._core._unregister_first_use()"
    )
    assert done.returncode == 1
    assert "3 failed" in done.stdout
    done = fuzz(
        run_python,
        "--fresh --cases 3",
        "import os; from process.first_uses import FIRST_USES; FIRST_USES[:] = [os.abort]",
    )
    assert done.returncode == 1
    assert "case 0 of seed 0 ended its process with status -6\n1 cases" in done.stdout


PLANTED = {
    "a kernel wrong in the last bit": """
        import torch
        def sigmoid(x):
            right = torch.sigmoid(x.cpu())
            wrong = right.dtype in (torch.float32, torch.float64)
            return (torch.nextafter(right, torch.full_like(right, 2)) if wrong else right).to(x.device)
        torch.ones(1, device="tb")
        library = torch.library.Library("aten", "IMPL")
        library.impl("sigmoid", sigmoid, "PrivateUse1")
    """,
    "a view that is a copy": """
        import torch
        torch.ones(1, device="tb")
        library = torch.library.Library("aten", "IMPL")
        library.impl("unfold", lambda x, dim, size, step: x.cpu().unfold(dim, size, step).to(x.device), "PrivateUse1")
    """,
    "a copy from the host that is queued": """
        import torch
        def copy_(self, src, non_blocking=False):
            if src.is_cpu:
                src, non_blocking = src.resolve_conj().resolve_neg().pin_memory(), True
            torch.ops.aten._copy_from(src.expand_as(self), self, non_blocking)
            return self
        torch.ones(1, device="tb")
        library = torch.library.Library("aten", "IMPL")
        library.impl("copy_", copy_, "PrivateUse1")
    """,
    "streams that do not wait for each other": """
        from fuzz.stage import DeviceStage
        DeviceStage.wait = DeviceStage.wait_event = lambda *_: None
    """,
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str, run_python: RunPython) -> None:
    done = fuzz(run_python, "--cases 200 --no-shrink", PLANTED[bug])
    assert done.returncode == 1, done.stdout + done.stderr
    assert "differs:" in done.stdout


def test_a_case_that_differs_is_shrunk_to_a_script_that_shows_it(run_python: RunPython) -> None:
    plant = PLANTED["a kernel wrong in the last bit"]
    done = fuzz(run_python, "--cases 150", plant)
    steps = re.search(r"(\d+) of its (\d+) steps suffice:\n(.*replay\([^\n]*\n)", done.stdout, re.DOTALL)
    assert steps is not None, done.stdout + done.stderr
    assert int(steps[1]) <= 6
    assert int(steps[2]) >= 10
    assert "sigmoid" in steps[3]
    wrong = run_python("\n".join([textwrap.dedent(plant), steps[3]]), TESTS, check=False)
    assert "elements differ" in wrong.stderr
    right = run_python(steps[3], TESTS, check=False)
    assert (right.returncode, right.stderr) == (0, "")


def test_a_seed_gives_the_same_programs_in_every_process(run_python: RunPython) -> None:
    texts = {
        run_python(
            "import runpy, sys; sys.argv = 'fuzz --show --cases 5 --seed 3'.split();"
            "runpy.run_module('fuzz', run_name='__main__')",
            {**TESTS, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }
    assert len(texts) == 1
    assert texts.pop().count("def program0") == 5
