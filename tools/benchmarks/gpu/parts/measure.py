"""Times operators or training steps on one device in a process of its own; JSON on the last line.

python -m benchmarks.gpu.parts.measure DEVICE operators|steps [--quick]

prints {name: {"us": [of each block], "fallbacks": [names]}}
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
from examples.models.case import Training

from benchmarks.gpu.parts.shapes import SHAPES
from benchmarks.operators.operators import OPERATORS

Call = Callable[[], object]
OPERATOR_CALLS = 200  # few enough that no queue fills, since a call would then wait
STEP_SECONDS = 0.2  # of a block


def finish(device: torch.device) -> None:
    """Waits for the device's work."""
    if device.type != "cpu":
        torch.get_device_module(device).synchronize()


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Disables Python's garbage collector, which would run in some of the blocks."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def operator_blocks(call: Call, device: torch.device, blocks: int) -> list[float]:
    """For each block, the calling thread's microseconds for one call, without the wait for the device."""
    found = []
    for _ in range(blocks + 1):
        started = time.perf_counter_ns()
        for _ in range(OPERATOR_CALLS):
            call()
        found.append((time.perf_counter_ns() - started) / OPERATOR_CALLS / 1000)
        finish(device)
    return found[1:]  # the first one warms up


def step_blocks(call: Call, device: torch.device, blocks: int, seconds: float) -> list[float]:
    """For each block, the microseconds of one step, with the wait for the device. A block takes about `seconds`."""
    for _ in range(3):  # the first steps compile or choose kernels and allocate memory
        call()
    finish(device)
    started = time.perf_counter()
    call()
    finish(device)
    count = max(1, int(seconds / (time.perf_counter() - started)))
    found = []
    for _ in range(blocks):
        started_ns = time.perf_counter_ns()
        for _ in range(count):
            call()
        finish(device)
        found.append((time.perf_counter_ns() - started_ns) / count / 1000)
    return found


def fallen() -> dict[str, int]:
    """The number of calls by operator that fell back to the CPU; {} if device tb is not loaded."""
    tb = getattr(torch, "tb", None)
    return {row.operator: row.calls for row in tb.fallbacks()} if tb else {}


def measured(blocks: Callable[[], list[float]]) -> dict[str, Any]:
    before = fallen()
    with uncollected():
        times = blocks()
    after = fallen()
    return {"us": times, "fallbacks": sorted(name for name in after if after[name] > before.get(name, 0))}


def operators(device: torch.device, blocks: int) -> dict[str, Any]:
    found = {}
    for name, make in OPERATORS.items():
        found[name] = measured(functools.partial(operator_blocks, make(device), device, blocks))
    return found


def steps(device: torch.device, blocks: int, quick: bool) -> dict[str, Any]:
    """Times training steps. `loss` is the first step's. TF32, PyTorch's default for CUDA convolutions, is off."""
    torch.backends.cudnn.allow_tf32 = False
    found = {}
    for name, make in SHAPES.items():
        torch.manual_seed(0)
        training = Training(make(quick), device)
        loss = training.step().item()
        seconds = 0 if quick else STEP_SECONDS
        row = measured(functools.partial(step_blocks, training.step, device, blocks, seconds))
        found[name] = {**row, "loss": loss}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("device", type=torch.device)
    parser.add_argument("kind", choices=("operators", "steps"))
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    blocks = 1 if asked.quick else 11
    found = operators(asked.device, blocks) if asked.kind == "operators" else steps(asked.device, blocks, asked.quick)
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
