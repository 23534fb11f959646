"""What the allocator promises of the figures that this benchmark measures."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass
from typing import Any

from tb_allocator import _core

MIB = 1 << 20
REMEMBERED = 1 << 16  # events, as by default


@dataclass(frozen=True)
class Goal:
    """One promise: its text, what was measured, the bound as text, and whether it holds."""

    text: str
    value: float
    bound: str
    met: bool

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def at_least(text: str, value: float, bound: float) -> Goal:
    return Goal(text, value, f">= {bound}", value >= bound)


def at_most(text: str, value: float, bound: float) -> Goal:
    return Goal(text, value, f"<= {bound}", value <= bound)


def pairs() -> dict[str, float]:
    """Nanoseconds of a cached allocation and its free, per thread."""
    return {
        "512 B": _core._pair_nanoseconds(512, 1, REMEMBERED),
        "512 B without history": _core._pair_nanoseconds(512, 1, 0),
        "4 MiB": _core._pair_nanoseconds(4 * MIB, 1, REMEMBERED),
        "512 B in 4 threads": _core._pair_nanoseconds(512, 4, REMEMBERED),
    }


def judge(results: dict[str, dict[str, Any]], times: dict[str, float]) -> list[Goal]:
    """The goals for the traces that were measured and the times of pairs()."""
    used = [result["utilisation"] for result in results.values()]
    missed = sum(not done for result in results.values() for done in result["ladder"].values())
    history = (times["512 B"] - times["512 B without history"]) / 2
    return [
        at_least("utilisation without limit, worst trace", min(used), 0.98),
        at_least("utilisation without limit, mean", statistics.mean(used), 0.99),
        at_most("points of the capacity ladder that do not complete", missed, 1),
        at_most("waits of the host for the device", sum(result["synchronisations"] for result in results.values()), 0),
        at_most("nanoseconds that history adds to an event", history, 20),
    ]
