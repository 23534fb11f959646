"""Measures all rows at this process's thread count; JSON on the last line: python -m benchmarks.operators.measure."""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace

import torch
from examples.models.case import Case

from benchmarks.interleave import Call, Plan, Subject, compare
from benchmarks.operators.copies import COPIES
from benchmarks.operators.operators import AFTER_PAUSE, OPERATORS, PLAN, PLAN_AFTER_PAUSE
from benchmarks.operators.rows import Row
from benchmarks.operators.steps import STEPS, training_step

Make = Callable[[torch.device], Call]


def release_openmp_threads() -> None:
    """Ends this thread's OpenMP threads if PyTorch uses OpenMP; the next parallel loop starts new ones."""
    soft = 1  # omp_pause_soft
    if pause := getattr(ctypes.CDLL(None), "omp_pause_resource_all", None):
        pause(soft)


def subjects(make: Make, device: torch.device, threads: int) -> list[Subject]:
    """The device, stock cpu at `threads` threads, and, if `threads` is not 1, stock cpu at one thread.

    Stock cpu's OpenMP threads end before each block of the device, and the device's own threads end when it is idle:
    with more threads than processors, libgomp lets all threads sleep between loops.
    """
    cpu = make(torch.device("cpu"))

    def at(count: int) -> Call:
        return lambda: torch.set_num_threads(count)

    def alone() -> None:
        torch.set_num_threads(threads)
        release_openmp_threads()

    found = [
        Subject(make(device), lambda: torch.accelerator.synchronize(device), alone),
        Subject(cpu, prepare=at(threads)),
    ]
    return found if threads == 1 else [*found, Subject(cpu, prepare=at(1))]


def cases(chosen: Sequence[str]) -> Iterator[tuple[str, str, Make, Plan]]:
    """Yields (kind, name, make, plan) of each row whose name contains one of `chosen`; of all rows if it is empty."""

    def wanted(name: str) -> bool:
        return not chosen or any(part.lower() in name.lower() for part in chosen)

    for operators, plan in ((OPERATORS, PLAN), (AFTER_PAUSE, PLAN_AFTER_PAUSE)):
        for name, make in operators.items():
            if wanted(name):
                yield "operator", name, make, plan
    for name, (make, plan) in COPIES.items():
        if wanted(name):
            yield "copy", name, make, plan
    for name, (make_case, plan) in STEPS.items():
        if wanted(name):

            def step(device: torch.device, make_case: Callable[[], Case] = make_case) -> Call:
                torch.manual_seed(0)
                return training_step(make_case(), device)

            yield "step", name, step, plan


def rows(device: torch.device, chosen: Sequence[str] = (), quick: bool = False) -> Iterator[Row]:
    """Measures and yields the rows. `quick`: one round of short blocks each, which only shows that everything runs."""
    threads = torch.get_num_threads()
    for kind, name, make, plan in cases(chosen):
        plan = replace(plan, calls=2, rounds=1) if quick else plan
        found = compare(subjects(make, device, threads), plan)
        torch.set_num_threads(threads)
        ratio = found.ratios[0]
        yield Row(
            name=name,
            kind=kind,
            threads=threads,
            tb_us=found.microseconds[0],
            cpu_us=found.microseconds[1],
            cpu_one_thread_us=found.microseconds[-1],
            ratio=ratio.median,
            ratio_least=ratio.least,
            ratio_greatest=ratio.greatest,
            ratio_to_better=max(r.median for r in found.ratios),
        )


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.operators.measure", description=__doc__)
    parser.add_argument("chosen", nargs="*", metavar="NAME", help="only rows whose name contains one of these")
    parser.add_argument("--device", default="tb")
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    found = []
    for row in rows(torch.device(asked.device), asked.chosen, asked.quick):
        found.append(asdict(row))
        print(f"  {row.name}: {row.tb_us:.2f} us against {row.cpu_us:.2f} us", file=sys.stderr)
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
