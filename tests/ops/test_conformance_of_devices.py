"""The conformance suite finds operators that run on another device than their arguments', on two devices of tb."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PREPARE = """
import copy
import torch
from torch_backend.conformance.checks import CHECKS
from torch_backend.conformance.databases import operators
from torch_backend.conformance.device import Device
from torch_backend.conformance.profiles import Limits

def problems(check, name, function=None):
    op = copy.copy(operators()[name])
    op.op = function or op.op
    limits = Limits(samples=2, window=32, elements=5_000, repeats=4)
    return [seen.problem for seen in CHECKS[check].run(Device("tb"), op, torch.float32, limits) if seen.problem]
"""

FAULTS = {
    "a result on the current device": (
        *("second_device", "sigmoid", "lambda x: torch.sigmoid(x.to('tb:0'))"),
        "allocations",
    ),
    "work on the current device": (
        *("second_device", "sigmoid", "lambda x: torch.sigmoid(x.to('tb:0')).to(x.device)"),
        "allocations",
    ),
    "random numbers of the current device": (
        *("second_device", "sigmoid", "lambda x: (torch.tb.default_generators[0].seed(), x.sigmoid())[1]"),
        "random state",
    ),
    "a device that stays the current one": (
        *("second_device", "sigmoid"),
        "lambda x: x.sigmoid() if x.is_cpu else (torch.tb.set_device(1), x.sigmoid())[1]",
        "current device",
    ),
    "a tensor that is moved": (
        *("mixed_devices", "gather", "lambda x, dim, index: torch.gather(x, dim, index.to(x.device))"),
        "takes a tensor on",
    ),
    "out= that is moved": (
        *("out", "sigmoid", "lambda x, out=None: torch.sigmoid(x) if out is None else out.copy_(torch.sigmoid(x))"),
        "takes out= on another device",
    ),
}


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PREPARE + code],
        env=os.environ | {"TB_CPU_DEVICES": "2"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str) -> None:
    check, entry, function, text = FAULTS[name]
    assert text in run(f"print(problems({check!r}, {entry!r}, {function}))")


@pytest.mark.parametrize(("check", "entry"), sorted({fault[:2] for fault in FAULTS.values()}))
def test_the_operators_themselves_pass(check: str, entry: str) -> None:
    assert run(f"print(problems({check!r}, {entry!r}))").strip() == "[]"
