"""Training steps on tb, plain, compiled and captured, against stock cpu, plain and compiled.

python -m benchmarks.compile.compiled [NAME...]

"captured" is tb_compile.step, "graphs" is torch.compile(backend="tb", mode="reduce-overhead"), and "compiled" is
torch.compile(model). They run interleaved in one process, each on its own model. A block of steps is queued and then
waited for. The first calls, which compile everything, are not timed.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import tb_compile
import torch
import torch_backend.device_module as tb
from examples.models.case import Case, Training, adamw_fused

from benchmarks import pages
from benchmarks.interleave import Call, Comparison, Plan, Subject, compare
from benchmarks.operators.measure import release_openmp_threads
from benchmarks.operators.steps import STEPS
from benchmarks.page import write

# The largest allowed ratio of a captured step to stock cpu's compiled step. For models that are not listed it is 1.0.
AIMS = {"MLP 4x128 batch 32": 0.25, "transformer d64": 0.5, "CNN 32x32 batch 32": 0.6}
MOST_HOST_MICROSECONDS = 10.0
# The largest allowed ratio of a compiled step to stock cpu's, for steps of at least so many microseconds. In shorter
# steps Dynamo's own 50 microseconds dominate.
COMPILED_AIM, COMPILED_FROM = 1.05, 2000.0
WAYS = ("captured", "graphs", "compiled", "plain", "cpu compiled", "cpu plain")
# Dynamo does not compile these models.
NOT_COMPILED = ("LSTM 2x128",)


@dataclass(frozen=True)
class Row:
    """One model: microseconds of a step in each of the WAYS, and ratios of the captured step to others.

    host: microseconds of the calling thread for a captured step.
    """

    name: str
    threads: int
    microseconds: dict[str, float]
    host: float
    to_cpu_compiled: float
    to_cpu_plain: float
    aim: float

    @property
    def compiled_ratio(self) -> float:
        """The time of torch.compile(model) on tb divided by that on stock cpu."""
        return self.microseconds["compiled"] / self.microseconds["cpu compiled"]

    @property
    def met(self) -> bool:
        long = self.microseconds["cpu compiled"] >= COMPILED_FROM
        return (
            self.to_cpu_compiled <= self.aim
            and self.host <= MOST_HOST_MICROSECONDS
            and (not long or self.compiled_ratio <= COMPILED_AIM)
        )


def _training(name: str, device: str, **options: str) -> Training:
    """A model to train. `options` are those of torch.compile; without them the model is not compiled."""
    torch.manual_seed(0)
    case: Case = replace(STEPS[name][0](), optimizer=adamw_fused)
    training = Training(case, torch.device(device))
    if options:
        compiled: Any = torch.compile(training.model, **options)  # type: ignore[call-overload]
        training.model = compiled
    return training


def _steps(name: str) -> dict[str, Callable[[], torch.Tensor]]:
    captured = tb_compile.step(_training(name, "tb").step)
    found: dict[str, Callable[[], torch.Tensor]] = {
        "captured": captured,
        "graphs": _training(name, "tb", backend="tb", mode="reduce-overhead").step,
        "compiled": _training(name, "tb", backend="inductor").step,
        "plain": _training(name, "tb").step,
        "cpu compiled": _training(name, "cpu", backend="inductor").step,
        "cpu plain": _training(name, "cpu").step,
    }
    values = {way: step().item() for way, step in found.items()}
    if max(values.values()) - min(values.values()) > 2e-2 * abs(values["cpu plain"]):  # each has its own dropout masks
        raise SystemExit(f"{name}: the ways do not give the same losses, first losses {values}")
    for _ in range(7):
        for step in found.values():
            step()
    if not captured.replays:
        raise SystemExit(f"{name}: no graph was captured: {captured.refusal}")
    return found


def _host(step: Call, block: int = 100, count: int = 9) -> float:
    """The calling thread's microseconds for one step, without the wait for the block; the median of several blocks."""
    found = []
    for _ in range(count):
        tb.synchronize()
        begin = time.thread_time_ns()
        for _ in range(block):
            step()
        found.append((time.thread_time_ns() - begin) / 1000 / block)
    tb.synchronize()
    return statistics.median(found)


def measure(name: str, rounds: int, threads: int, calls: int | None = None) -> Row:
    """Times one model. `calls`: steps in a block; None: the model's usual number."""
    torch.compiler.reset()  # Dynamo compiles a function for a limited number of models
    steps = _steps(name)

    def alone() -> None:
        torch.set_num_threads(threads)
        release_openmp_threads()

    usual = STEPS[name][1]
    plan = Plan(calls or usual.calls, rounds, wait_inside=True, pause=usual.pause)
    subjects = [
        Subject(
            step, nothing_or_wait(way), alone if not way.startswith("cpu") else (lambda: torch.set_num_threads(threads))
        )
        for way, step in steps.items()
    ]
    found: Comparison = compare(subjects, plan)
    ratios = dict(zip(WAYS[1:], found.ratios, strict=True))
    return Row(
        name,
        threads,
        dict(zip(WAYS, found.microseconds, strict=True)),
        _host(steps["captured"]),
        ratios["cpu compiled"].median,
        ratios["cpu plain"].median,
        AIMS.get(name, 1.0),
    )


def nothing_or_wait(way: str) -> Call:
    return (lambda: None) if way.startswith("cpu") else tb.synchronize


def table(rows: Sequence[Row]) -> str:
    """The rows as Markdown."""
    lines = [
        "| a training step | threads | "
        + " | ".join(f"{way}, us" for way in WAYS)
        + " | host, us | captured to cpu compiled | aim | to cpu plain | compiled to cpu compiled |",
        "| --- " * (len(WAYS) + 7) + "|",
    ]
    for row in rows:
        times = " | ".join(f"{row.microseconds[way]:.0f}" for way in WAYS)
        lines.append(
            f"| {row.name} | {row.threads} | {times} | {row.host:.1f} | {row.to_cpu_compiled:.3f} | {row.aim} | "
            f"{row.to_cpu_plain:.3f} | {row.compiled_ratio:.2f} |"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="nox -s bench-compile --", description=__doc__)
    parser.add_argument("chosen", nargs="*", metavar="NAME", help="only rows whose name contains one of these")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--json", type=pathlib.Path, help="also writes the rows there")
    parser.add_argument("--page", type=pathlib.Path, metavar="FILE", help="write docs/results/compiled.md there")
    asked = parser.parse_args()
    names = [
        name
        for name in STEPS
        if name not in NOT_COMPILED and (not asked.chosen or any(part.lower() in name.lower() for part in asked.chosen))
    ]
    if not names:
        parser.error(f"no row's name contains one of {asked.chosen}: there are {', '.join(STEPS)}")
    threads = torch.get_num_threads()
    rows = []
    for name in names:
        rows.append(measure(name, asked.rounds, threads))
        print(table(rows[-1:]).splitlines()[-1], file=sys.stderr, flush=True)
    print(table(rows))
    if asked.json:
        asked.json.write_text(json.dumps([asdict(row) for row in rows], indent=1))
    if asked.page:
        write(asked.page, pages.compiled([asdict(row) for row in rows], WAYS, [row.met for row in rows]))
    missed = [row.name for row in rows if not row.met]
    print(
        f"{len(rows) - len(missed)} of {len(rows)} rows meet their aims"
        + (f"; not: {', '.join(missed)}" if missed else "")
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
