"""A line of the sweep, the summary of all lines, and the aims that they are held to."""

from __future__ import annotations

import statistics
import tomllib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.threads import SETTINGS

SLOWER, FASTER = 1.3, 0.8
MEAN_AIMS = {1 << 10: 0.75, 1 << 16: 0.95, 1 << 20: 0.95}  # of geometric means, by elements, at the default threads
LINE_AIM = 1.5
LOOP_AIM = 1.3
REASONS = Path(__file__).with_name("reasons.toml")
MOST_REASONS = 10


@dataclass(frozen=True)
class Row:
    """An operator on a number of elements at a setting of threads: microseconds of a call, medians over rounds.

    `ratios`: tb's time to stock cpu's in each round. `fallbacks`: operators that ran on the CPU instead of tb.
    `error`: why there are no times.
    """

    family: str
    name: str
    elements: int
    threads: str  # a key of SETTINGS
    stock_us: float = 0.0
    tb_us: float = 0.0
    ratios: tuple[float, ...] = ()
    fallbacks: tuple[str, ...] = ()
    error: str = ""

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios)

    @property
    def slower(self) -> bool:
        """Slower than SLOWER in every round."""
        return min(self.ratios) > SLOWER

    @property
    def faster(self) -> bool:
        """Faster than FASTER in every round."""
        return max(self.ratios) < FASTER

    @property
    def label(self) -> str:
        return f"{self.name}, {self.elements:,} elements, threads {self.threads}"


@dataclass(frozen=True)
class Summary:
    """The lines of one number of elements and one setting of threads. `mean`: the geometric mean of their ratios."""

    elements: int
    threads: str
    lines: int
    mean: float
    slower: int
    faster: int


def measured(rows: Sequence[Row]) -> list[Row]:
    """The rows without an error, the greatest ratio first."""
    return sorted((row for row in rows if not row.error), key=lambda row: -row.ratio)


def summary(rows: Sequence[Row]) -> list[Summary]:
    found = []
    good = measured(rows)
    for elements in sorted({row.elements for row in good}):
        for threads in SETTINGS:
            group = [row for row in good if (row.elements, row.threads) == (elements, threads)]
            if group:
                mean = statistics.geometric_mean(row.ratio for row in group)
                slower, faster = sum(row.slower for row in group), sum(row.faster for row in group)
                found.append(Summary(elements, threads, len(group), mean, slower, faster))
    return found


@dataclass(frozen=True)
class Aim:
    """A bound, and the ratio that was found."""

    name: str
    found: float
    bound: float

    @property
    def met(self) -> bool:
        return self.found <= self.bound


def aims(rows: Sequence[Row], reasons: Collection[str], whole: bool) -> list[Aim]:
    """The aims of a sweep. reasons: names of operators that may be slow. whole: all operators are there.

    The means of a few chosen operators have no aim. Of the lines without a reason only the slowest one is listed if it
    meets its aim, and every one that does not.
    """
    found = []
    if whole:
        found += [
            Aim(f"geometric mean, {one.elements:,} elements, threads {one.threads}", one.mean, MEAN_AIMS[one.elements])
            for one in summary(rows)
            if one.threads == "default" and one.elements in MEAN_AIMS
        ]
    good = measured(rows)
    found += [Aim(f"loop {row.label}", row.ratio, LOOP_AIM) for row in good if row.family == "loops"]
    lines = [Aim(row.label, row.ratio, LINE_AIM) for row in good if row.family != "loops" and row.name not in reasons]
    return found + ([aim for aim in lines if not aim.met] or lines[:1])


def read_reasons(file: Path, names: Collection[str]) -> Mapping[str, str]:
    """The operators that may be slower than LINE_AIM, and why. ValueError: the file breaks one of its rules."""
    reasons = tomllib.loads(file.read_text(encoding="utf-8"))
    if len(reasons) > MOST_REASONS:
        raise ValueError(f"{file}: {len(reasons)} reasons; at most {MOST_REASONS} operators may be slow")
    for name, reason in reasons.items():
        if name not in names:
            raise ValueError(f"{file}: no operator of the sweep is called {name!r}; remove it or correct the name")
        if not isinstance(reason, str) or not reason.strip():
            raise ValueError(f"{file}: {name!r} has no reason; write why it is slow")
    return reasons
