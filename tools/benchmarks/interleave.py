"""Interleaved timing of several subjects: they run blocks in turn, and medians of times and of ratios are reported."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

Call = Callable[[], object]


def nothing() -> None:
    """Does nothing: the default for a subject that needs no preparation or no wait."""


@dataclass(frozen=True)
class Subject:
    """What is timed: `call` once per iteration, `finish` at the end of a block, `prepare` before it, untimed."""

    call: Call
    finish: Call = nothing
    prepare: Call = nothing


@dataclass(frozen=True)
class Plan:
    """`calls` per block, `rounds` of one block per subject; `wait_inside`: the wait for the device is timed too.

    Before a block, untimed: `pause` seconds of idleness and `warm` calls.
    """

    calls: int
    rounds: int
    wait_inside: bool
    warm: int = 0
    pause: float = 0.0


@dataclass(frozen=True)
class Ratio:
    """The ratio of the first subject's time to another's: median, least and greatest over rounds."""

    median: float
    least: float
    greatest: float


@dataclass(frozen=True)
class Comparison:
    """Microseconds per call of each subject, medians over blocks; the first one's ratio to each of the others."""

    microseconds: tuple[float, ...]
    ratios: tuple[Ratio, ...]


def _block(subject: Subject, plan: Plan) -> float:
    """Runs one block and returns the microseconds per call."""
    subject.prepare()
    call = subject.call
    if plan.pause:
        time.sleep(plan.pause)
    for _ in range(plan.warm):
        call()
    started = time.perf_counter_ns()
    for _ in range(plan.calls):
        call()
    if plan.wait_inside:
        subject.finish()
    elapsed = time.perf_counter_ns() - started
    if not plan.wait_inside:
        subject.finish()  # the queue is empty again before the next block
    return elapsed / 1000 / plan.calls


def compare(subjects: Sequence[Subject], plan: Plan) -> Comparison:
    """Times the subjects in rounds, after one untimed block of each; every other round runs in the opposite order."""
    for subject in subjects:
        _block(subject, plan)
    times: list[list[float]] = [[] for _ in subjects]
    collecting = gc.isenabled()
    gc.disable()
    try:
        for turn in range(plan.rounds):
            order = list(zip(subjects, times, strict=True))
            for subject, found in order if turn % 2 == 0 else order[::-1]:
                found.append(_block(subject, plan))
    finally:
        if collecting:
            gc.enable()
    first, *others = times
    ratios = [[a / b for a, b in zip(first, other, strict=True)] for other in others]
    return Comparison(
        tuple(statistics.median(found) for found in times),
        tuple(Ratio(statistics.median(r), min(r), max(r)) for r in ratios),
    )
