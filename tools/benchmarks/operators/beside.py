"""Measures whether stock cpu's training steps take longer after tb has used all processors in the same process.

python -m benchmarks.operators.beside

Each model has its own process. Its step is timed on stock cpu before tb is used, and again after kernels of tb ran on
every processor.
"""

from __future__ import annotations

import subprocess
import sys
import time

import torch

from benchmarks.interleave import Subject, compare
from benchmarks.operators.steps import STEPS as CASES
from benchmarks.operators.steps import training_step

STEPS = ("transformer d64", "transformer d128", "LSTM 2x128")
AIM = 1.1


def _milliseconds(name: str) -> float:
    """Milliseconds of one step on stock cpu, the median over blocks."""
    make, plan = CASES[name]
    torch.manual_seed(0)
    step = training_step(make(), torch.device("cpu"))
    return compare([Subject(step)], plan).microseconds[0] / 1e3


def _use_all_processors() -> None:
    matrix = torch.randn(1500, 1500, device="tb")
    for _ in range(20):
        torch.mm(matrix, matrix).exp_()
        torch.accelerator.synchronize()
    time.sleep(0.05)


def measure(name: str) -> tuple[float, float]:
    """Milliseconds of a step before and after tb used all processors."""
    before = _milliseconds(name)
    _use_all_processors()
    return before, _milliseconds(name)


def main() -> int:
    if len(sys.argv) == 2:
        print(*measure(sys.argv[1]))
        return 0
    print(f"{'step of stock cpu':20}{'before, ms':>12}{'after tb, ms':>14}{'ratio':>7}")
    missed = []
    for name in STEPS:
        command = [sys.executable, "-m", "benchmarks.operators.beside", name]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        before, after = map(float, done.stdout.split())
        print(f"{name:20}{before:12.2f}{after:14.2f}{after / before:7.2f}", flush=True)
        if after > AIM * before:
            missed.append(name)
    print(f"aim: at most {AIM}: " + (f"missed by {', '.join(missed)}" if missed else "met"))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
