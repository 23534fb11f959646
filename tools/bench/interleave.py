"""Interleaved timing of the same thing on two devices: alternate blocks, ratios of neighbours, medians."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

Call = Callable[[], object]


@dataclass(frozen=True)
class Subject:
    """What is timed on one device: `call` once per iteration, `finish` at the end of a block."""

    call: Call
    finish: Call


@dataclass(frozen=True)
class Plan:
    """`calls` per block, `pairs` of blocks; `wait_inside`: the wait for the device belongs to the time."""

    calls: int
    pairs: int
    wait_inside: bool


@dataclass(frozen=True)
class Comparison:
    """Microseconds per call: medians over blocks; ratio first/second: median, least and greatest over pairs."""

    first_us: float
    second_us: float
    ratio: float
    ratio_min: float
    ratio_max: float


def _block_us(subject: Subject, plan: Plan) -> float:
    call = subject.call
    started = time.perf_counter_ns()
    for _ in range(plan.calls):
        call()
    if plan.wait_inside:
        subject.finish()
    elapsed = time.perf_counter_ns() - started
    if not plan.wait_inside:
        subject.finish()  # the queue is empty again before the next block
    return elapsed / 1000 / plan.calls


def compare(first: Subject, second: Subject, plan: Plan) -> Comparison:
    """Times `first` against `second`; every other pair runs in the opposite order."""
    for subject in (first, second):
        _block_us(subject, plan)
    firsts: list[float] = []
    seconds: list[float] = []
    collecting = gc.isenabled()
    gc.disable()
    try:
        for pair in range(plan.pairs):
            order = [(first, firsts), (second, seconds)]
            for subject, times in order if pair % 2 == 0 else order[::-1]:
                times.append(_block_us(subject, plan))
    finally:
        if collecting:
            gc.enable()
    ratios = [a / b for a, b in zip(firsts, seconds, strict=True)]
    return Comparison(
        statistics.median(firsts), statistics.median(seconds), statistics.median(ratios), min(ratios), max(ratios)
    )
