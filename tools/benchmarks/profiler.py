"""What torch.profiler costs the training step of an MLP: python -m benchmarks.profiler.

Each way to run the step has a process of its own, and the processes take turns. "never" has not profiled and "off" has:
they differ only if a profile leaves something behind in the driver's table. Two processes of one way differ too, by the
places of their memory. So several sets of processes are measured, and "again" is a second one that has not profiled. By
what it differs from "never", others differ by chance.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import pathlib
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace

import torch
from examples.models.case import Training, adamw_foreach
from examples.models.mlp import MlpSettings, mlp
from torch.profiler import ProfilerActivity, profile

from benchmarks import pages
from benchmarks.page import write

ACTIVITIES = {
    "never": (),
    "again": (),
    "off": (),
    "host": (ProfilerActivity.CPU,),
    "device": (ProfilerActivity.PrivateUse1,),
    "both": (ProfilerActivity.CPU, ProfilerActivity.PrivateUse1),
}
WIDTHS = (64, 512)
AIM = 1.01  # of "off"


@dataclass(frozen=True)
class Row:
    """Microseconds of a step and its ratio to the mean of "never" and "again", medians over the sets of processes.

    In a set they are medians over the blocks; a ratio is of neighbouring blocks.
    """

    width: int
    way: str
    microseconds: float
    ratio: float


def _training(width: int) -> Training:
    torch.manual_seed(0)
    case = replace(mlp(MlpSettings(width=width, batch=32)), optimizer=adamw_foreach)
    return Training(case, torch.device("tb"))


def _block(training: Training, activities: tuple[ProfilerActivity, ...], steps: int) -> float:
    with profile(activities=list(activities)) if activities else contextlib.nullcontext():
        begin = time.perf_counter()
        for _ in range(steps):
            loss = training.step()
        loss.item()
        return (time.perf_counter() - begin) / steps * 1e6


def work(way: str, width: int) -> None:
    """Answers each number of steps on stdin with the microseconds of a step."""
    training = _training(width)
    _block(training, ACTIVITIES["both"] if way == "off" else (), 3)
    for line in sys.stdin:
        print(_block(training, ACTIVITIES[way], int(line)), flush=True)


@contextlib.contextmanager
def worker(way: str, width: int) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "benchmarks.profiler", "--work", way, str(width)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        yield process
        assert process.stdin
        process.stdin.close()


def ask(process: subprocess.Popen[str], steps: int) -> float:
    assert process.stdin
    assert process.stdout
    process.stdin.write(f"{steps}\n")
    process.stdin.flush()
    return float(process.stdout.readline())


def measure_set(width: int, rounds: int, steps: int) -> list[Row]:
    """One process of each way."""
    times: dict[str, list[float]] = {way: [] for way in ACTIVITIES}
    with contextlib.ExitStack() as stack:
        workers = {way: stack.enter_context(worker(way, width)) for way in ACTIVITIES}
        for process in workers.values():
            ask(process, 3)
        for turn in range(rounds):
            for way in random.Random(turn).sample(list(workers), len(workers)):  # a block warms the next one's caches
                times[way].append(ask(workers[way], steps))
    unprofiled = [statistics.mean(pair) for pair in zip(times["never"], times["again"], strict=True)]
    rows = []
    for way, found in times.items():
        ratios = [one / base for one, base in zip(found, unprofiled, strict=True)]
        rows.append(Row(width, way, statistics.median(found), statistics.median(ratios)))
    return rows


def measure(width: int, sets: int, rounds: int, steps: int) -> list[Row]:
    rows = []
    for found in zip(*(measure_set(width, rounds, steps) for _ in range(sets)), strict=True):
        microseconds = statistics.median(row.microseconds for row in found)
        rows.append(Row(width, found[0].way, microseconds, statistics.median(row.ratio for row in found)))
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(prog="nox -s bench-profiler --", description=__doc__.partition("\n")[0])
    parser.add_argument("--sets", type=int, default=7, help="processes of each way (%(default)s)")
    parser.add_argument("--rounds", type=int, default=15, help="blocks of each process (%(default)s)")
    parser.add_argument("--steps", type=int, default=50, help="steps of a block (%(default)s)")
    parser.add_argument("--json", type=pathlib.Path, default=pathlib.Path("build/bench-profiler.json"), metavar="FILE")
    parser.add_argument("--page", type=pathlib.Path, metavar="FILE", help="write docs/results/profiler.md there")
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.work:
        work(asked.work[0], int(asked.work[1]))
        return 0
    rows = [row for width in WIDTHS for row in measure(width, asked.sets, asked.rounds, asked.steps)]
    asked.json.parent.mkdir(parents=True, exist_ok=True)
    asked.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    print(f"{'MLP of width':14}{'profiler':10}{'us a step':>10}{'ratio':>7}")
    for row in rows:
        print(f"{row.width:<14}{row.way:10}{row.microseconds:10.0f}{row.ratio:7.2f}")
    missed = [row.width for row in rows if row.way == "off" and row.ratio > AIM]
    aim = f"aim: off at most {AIM} of what has not profiled: " + (f"missed at width {missed}" if missed else "met")
    print(aim)
    if asked.page:
        write(asked.page, pages.profiler([asdict(row) for row in rows], asked.sets, aim))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
