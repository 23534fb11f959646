"""The promises about the allocator, one Line each, and whether this run kept them."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from statistics import mean
from typing import Any

from building import native_tests

from . import comparison
from .programs import OURS, RMM

REMEMBERED = 1 << 16  # events: the default length of the history
TORCH = ("torch", "torch expandable")


@dataclass(frozen=True)
class Line:
    """A promise with its bound. `measured` is None if the run could not measure it; then `met` is None too."""

    promise: str
    measured: float | None
    bound: float
    at_least: bool = True

    @property
    def met(self) -> bool | None:
        if self.measured is None:
            return None
        return self.measured >= self.bound if self.at_least else self.measured <= self.bound

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "met": self.met}

    def __str__(self) -> str:
        verdict = {True: "met", False: "NOT MET", None: "not measured here"}[self.met]
        value = "-" if self.measured is None else f"{self.measured:.4g}"
        sign = ">=" if self.at_least else "<="
        return f"{self.promise:64}{value:>9} {sign} {self.bound:<7g}{verdict}"


def of_traces(results: Mapping[str, Mapping[str, Any]]) -> list[Line]:
    """The lines about memory. `results`: what __main__.measure() returned, by trace."""
    values = results.values()
    used = [100 * one["utilisation"] for one in results.values()]
    missed = sum(not completed for one in results.values() for completed in one["ladder"].values())
    waits = sum(one["synchronisations"] for one in results.values())
    return [
        Line("utilisation of the worst trace, %", min(used), 98),
        Line("utilisation, mean of the traces, %", mean(used), 99),
        Line("points of the capacity ladder that do not complete", missed, 1, at_least=False),
        Line("device synchronisations", waits, 0, at_least=False),
        Line("plan, utilisation of the worst trace, %", min(100 * one["plan"]["utilisation"] for one in values), 98.5),
        Line(
            "plan, driver calls about memory in a repetition",
            max(one["plan"]["memory_calls"] for one in values),
            0,
            at_least=False,
        ),
        Line(
            "plan, driver calls of any kind in a repetition, worst trace",
            max(sum(one["plan"]["calls"].values()) for one in values),
            0,
            at_least=False,
        ),
    ]


def of_pinned(results: Mapping[str, Mapping[str, Any]]) -> list[Line]:
    """The line about pinned memory. `results`: what __main__.measure_pinned() returned, by trace."""
    waste = max(one["waste"] for one in results.values())
    return [Line("pinned memory, reserved to live at most, worst trace", waste, 1.06, at_least=False)]


def _least(values: list[float]) -> float | None:
    return min(values) if values else None


def of_history() -> list[Line]:
    """The line about the cost of the history: an allocation and its free take longer with it, by two events."""
    program = native_tests.build("tb-allocator", "bench_history")

    def nanoseconds(events: int) -> float:
        return float(subprocess.run([program, "512", "1", str(events)], stdout=subprocess.PIPE, check=True).stdout)

    remembered = nanoseconds(REMEMBERED) - nanoseconds(0)
    return [Line("history, nanoseconds of an event", remembered / 2, 20, at_least=False)]


def of_instructions(by_trace: Mapping[str, float]) -> list[Line]:
    """The line about the instructions that callgrind counts."""
    most = max(by_trace.values()) if by_trace else None
    return [Line("instructions of an event under callgrind, worst trace", most, 450, at_least=False)]


def of_times(replays: Mapping[str, Any], pairs: Mapping[str, Mapping[str, float]]) -> list[Line]:
    """The lines about time, against the faster of PyTorch's two modes and against RMM's pool."""
    peers = set(pairs) - {OURS}
    torch = [name for name in TORCH if name in peers]

    def against_torch(name: str) -> float | None:
        return _least([pairs[peer][name] / pairs[OURS][name] for peer in torch])

    def slowest(names: list[str]) -> float | None:
        return _least([ratio for name in names for ratio in comparison.ratios(replays, name).values()])

    rmm = [RMM] if RMM in peers else []
    return [
        Line("replay, times faster than PyTorch's, worst trace", slowest(torch), 4),
        Line("replay, times faster than RMM's pool, worst trace", slowest(rmm), 1.3),
        Line("cached pair of 512 B, times faster than PyTorch's", against_torch("pair_512"), 8),
        Line("cached pair of 4 MiB, times faster than PyTorch's", against_torch("pair_4194304"), 5),
        Line(
            "4 threads, time per thread as a part of RMM's pool",
            pairs[OURS]["threads_4"] / pairs[RMM]["threads_4"] if rmm else None,
            0.2,
            at_least=False,
        ),
    ]
