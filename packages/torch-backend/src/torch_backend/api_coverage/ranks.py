"""Programs of torch.distributed: this process is rank 0, and starts rank 1. Both compare with the CPU.

`python -m torch_backend.api_coverage.ranks DEVICE PORT` is rank 1. It reads a program from stdin, one JSON line each,
and answers with the problem, or null.
"""

from __future__ import annotations

import datetime
import functools
import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, TextIO

import torch
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from torch_backend._worker_process import answer, run_worker
from torch_backend.api_coverage.programs import Program, run
from torch_backend.conformance.case import Observation
from torch_backend.conformance.device import Device
from torch_backend.conformance.outcome import agree, attempt
from torch_backend.conformance.profiles import Limits
from torch_backend.conformance.randomness import CPU

SIZE = 2
LOCAL = "127.0.0.1"
TIMEOUT = datetime.timedelta(seconds=20)  # of a collective call that the other rank does not make


def _join(store: TCPStore, rank: int) -> None:
    torch.distributed.init_process_group(store=store, rank=rank, world_size=SIZE, timeout=TIMEOUT)


def _observed(text: str, device: Device, rank: int) -> Observation:
    """The program's outcome on this rank, compared with the CPU's on this rank."""
    made = {"rank": rank, "size": SIZE}
    expected = attempt(CPU, lambda: run(text, CPU, **made))
    return agree(expected, attempt(device, lambda: run(text, device, **made)), device)


@functools.cache
def _other_rank(device: str) -> subprocess.Popen[str]:
    """Rank 1, which has joined the process group with this process."""
    store = TCPStore(LOCAL, 0, SIZE, is_master=True, wait_for_workers=False)
    command = [sys.executable, "-m", "torch_backend.api_coverage.ranks", device, str(store.port)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    _join(store, 0)
    return process


def ranks(device: Device, shown: Program, dtype: torch.dtype, limits: Limits) -> Iterator[Observation]:
    """Runs the program on both ranks; the observation is rank 0's, unless rank 1 alone has a problem."""
    other = _other_rank(str(device.device))
    assert other.stdin is not None
    assert other.stdout is not None
    other.stdin.write(json.dumps(shown.text) + "\n")
    other.stdin.flush()
    own = _observed(shown.text, device, 0)
    line = other.stdout.readline()
    theirs = json.loads(line) if line else "the process of rank 1 ended"
    if own.problem is None and theirs is not None:
        own.problem, own.vacuous = f"{theirs} (on rank 1)", None
    yield own


def _serve(device: str, port: int, answers: TextIO) -> int:
    chosen = Device(device)
    _join(TCPStore(LOCAL, port, SIZE), 1)
    for line in sys.stdin:
        problem: Any = _observed(json.loads(line), chosen, 1).problem
        answer(answers, problem)
    return 0


if __name__ == "__main__":
    named, opened = sys.argv[1:]
    run_worker(functools.partial(_serve, named, int(opened)))
