"""A row of the benchmark, the table of rows, and the aims that rows are held to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.operators.copies import PINNED
from benchmarks.operators.operators import AFTER_PAUSE


@dataclass(frozen=True)
class Row:
    """One operator or one training step at one thread count; times in microseconds, medians over blocks.

    Ratios are tb's time to stock cpu's, medians over rounds: `ratio` at the same thread count, `ratio_to_better`
    against whichever setting of stock cpu, that count or one thread, is faster.
    """

    name: str
    kind: str  # "operator", "copy" or "step"
    threads: int
    tb_us: float
    cpu_us: float
    cpu_one_thread_us: float
    ratio: float
    ratio_least: float
    ratio_greatest: float
    ratio_to_better: float


@dataclass(frozen=True)
class Aim:
    """Upper bounds of a row's ratios; None: no bound."""

    ratio: float | None = None
    ratio_to_better: float | None = None


ANY_STEP = Aim(ratio=1.0, ratio_to_better=1.02)
ANY_OPERATOR = Aim(ratio=0.8)
ANY_COPY = Aim(ratio=1.3)
ONE_THREAD_STEP = Aim(ratio=1.02)
STEPS = {
    "MLP 4x128 batch 32": Aim(0.4, 0.8),
    "transformer d64": Aim(0.4, 0.8),
    "LSTM 2x128": Aim(0.75, 1.02),
    "transformer d128": Aim(0.9, 1.02),
}
# Rows without an aim: a view runs the same code on every device, a copy to the host has to wait for the device, and a
# call after a pause has to wake a thread.
NO_AIM = ("view", "copy device to host", *AFTER_PAUSE)


@dataclass(frozen=True)
class Verdict:
    """A bound of a row, and the measured ratio."""

    name: str
    threads: int
    against: str
    found: float
    bound: float

    @property
    def met(self) -> bool:
        return self.found <= self.bound


def aim_of(row: Row) -> Aim:
    """The aim of a row. At one thread, where stock cpu has only one setting, a step must only be no slower."""
    if row.name in NO_AIM:
        return Aim()
    if row.kind == "operator":
        return ANY_OPERATOR
    if row.kind == "copy":  # pinned rows, which exist to compare versions, have no aim: stock cpu pins nothing
        return Aim() if row.name.startswith(PINNED) else ANY_COPY
    if row.threads == 1:
        return ONE_THREAD_STEP
    return STEPS.get(row.name, ANY_STEP)


def verdicts(rows: Sequence[Row]) -> list[Verdict]:
    """Each bound of each row, in their order."""
    found = []
    for row in rows:
        aim = aim_of(row)
        bounds = (("cpu", row.ratio, aim.ratio), ("the better cpu setting", row.ratio_to_better, aim.ratio_to_better))
        found += [
            Verdict(row.name, row.threads, against, ratio, bound)
            for against, ratio, bound in bounds
            if bound is not None
        ]
    return found


def table(rows: Sequence[Row], device: str) -> str:
    """The rows as text, one line each."""
    header = ("", "threads", f"{device}, us", "cpu, us", "1 thread", "ratio", "to better")
    lines = ["{:34}{:>8}{:>13}{:>12}{:>12}{:>8}{:>11}   least - greatest".format(*header)]
    for row in rows:
        lines.append(
            f"{row.name:34}{row.threads:8d}{row.tb_us:13.2f}{row.cpu_us:12.2f}{row.cpu_one_thread_us:12.2f}"
            f"{row.ratio:8.3f}{row.ratio_to_better:11.3f}   {row.ratio_least:.3f} - {row.ratio_greatest:.3f}"
        )
    return "\n".join(lines)


def aims_text(judged: Sequence[Verdict]) -> str:
    """The aims as text, one line each, and how many are met."""
    lines = [
        f"{'met    ' if v.met else 'NOT MET'}  {v.found:6.3f} <= {v.bound:.2f}"
        f"  {v.name}, {v.threads} thread{'s' * (v.threads != 1)}, against {v.against}"
        for v in judged
    ]
    return "\n".join([*lines, f"{sum(v.met for v in judged)} of {len(judged)} aims met"])
