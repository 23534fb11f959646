"""Random operator programs give on tb what they give on stock cpu, and the fuzzer that says so notices bugs."""

from __future__ import annotations

import pathlib
import re
import subprocess
import textwrap

import pytest
from conftest import ROOT, RunPython

TOOLS = {"PYTHONPATH": str(ROOT / "tools"), "OMP_NUM_THREADS": "1"}

RUN = """
    import runpy, sys
    sys.argv = ["fuzz", *{arguments!r}.split()]
    {plant}
    runpy.run_module("fuzz", run_name="__main__")
"""


def fuzz(run_python: RunPython, arguments: str, plant: str = "") -> subprocess.CompletedProcess[str]:
    """Runs the fuzzer in a process of its own, after the lines of `plant`."""
    code = textwrap.dedent(RUN).format(arguments=arguments, plant=textwrap.dedent(plant))
    return run_python(code, TOOLS, check=False, timeout=200)


def test_random_programs_give_what_stock_cpu_gives(run_python: RunPython) -> None:
    done = fuzz(run_python, "--cases 40 --seed 0")
    assert done.returncode == 0, done.stdout + done.stderr
    figures = re.search(
        r"40 cases, (\d+) steps, (\d+) cases with side streams, (\d+) with threads, (\d+) with forced", done.stdout
    )
    assert figures is not None, done.stdout
    assert int(figures[1]) > 1000
    assert min(int(figures[i]) for i in (2, 3, 4)) >= 5


PLANTED = {
    "a kernel that is wrong in the last bit": """
        import torch
        library = torch.library.Library("aten", "IMPL")
        def tanh(x):
            return torch.nextafter(x.sin().cos(), x) if x.is_floating_point() else x.sin().cos()
        torch.ones(1, device="tb")
        library.impl("tanh", lambda x: torch.empty_like(x).copy_(torch.nextafter(
            torch.tanh(x.cpu()), torch.ones(()).to(x.dtype))) if x.dtype == torch.float32 else NotImplemented,
            "PrivateUse1", allow_override=True)
    """,
    "streams that do not wait for each other": """
        from fuzz.stage import DeviceStage
        DeviceStage.wait = DeviceStage.wait_event = lambda *_: None
    """,
    "memory reused while another stream uses it": """
        from fuzz.stage import DeviceStage
        DeviceStage.keep = lambda *_: None
    """,
    "a host that reads too early": """
        import torch
        from fuzz.stage import DeviceStage
    """,
}


@pytest.mark.parametrize("bug", PLANTED)
def test_a_planted_bug_is_found(bug: str, run_python: RunPython) -> None:
    done = fuzz(run_python, "--cases 150 --no-shrink", PLANTED[bug])
    assert done.returncode == 1, done.stdout + done.stderr
