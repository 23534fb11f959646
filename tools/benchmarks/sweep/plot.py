"""A picture of a sweep: the ratio over the number of elements, a panel for each family of operators."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from benchmarks.sweep.rows import Row, measured
from benchmarks.threads import SETTINGS

COLUMNS = 4
COLOURS = dict(zip(SETTINGS, ("tab:blue", "tab:orange"), strict=True))
TICKS = (0.1, 0.2, 0.5, 1, 2, 5, 10)


def _curve(rows: Sequence[Row]) -> tuple[list[int], list[float]]:
    """The geometric mean of the ratios for each number of elements."""
    sizes = sorted({row.elements for row in rows})
    return sizes, [statistics.geometric_mean(row.ratio for row in rows if row.elements == size) for size in sizes]


def plot(rows: Sequence[Row], file: Path) -> None:
    """Writes the picture; the ending of `file` is its format. A thin line is an operator, a thick one the mean."""
    good = measured(rows)
    families = list(dict.fromkeys(row.family for row in rows if not row.error))
    height = max(1, math.ceil(len(families) / COLUMNS))
    figure = Figure(figsize=(3.2 * COLUMNS, 2.6 * height + 0.6), layout="constrained")
    panels = figure.subplots(height, COLUMNS, sharex=True, sharey=True, squeeze=False).flatten()
    for panel, family in zip(panels, families, strict=False):
        members = [row for row in good if row.family == family]
        for threads, colour in COLOURS.items():
            group = [row for row in members if row.threads == threads]
            for name in {row.name for row in group}:
                panel.plot(*_curve([row for row in group if row.name == name]), color=colour, alpha=0.25, linewidth=0.6)
            if group:
                panel.plot(*_curve(group), color=colour, linewidth=2, marker="o", label=f"threads {threads}")
        panel.axhline(1, color="black", linewidth=0.8)
        panel.set_title(f"{family} ({len({row.name for row in members})})", fontsize=9)
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        panel.set_yticks(TICKS, [f"{tick:g}" for tick in TICKS])
        panel.minorticks_off()
        panel.set_ylim(0.08, 12)
        sizes = sorted({row.elements for row in good})
        panel.set_xticks(sizes, [f"{size:,}" for size in sizes], fontsize=7)
        panel.tick_params(labelbottom=True)
    for panel in panels[len(families) :]:
        panel.set_visible(False)
    figure.supxlabel("elements", fontsize=9)
    figure.supylabel("time on tb / time on stock cpu", fontsize=9)
    if families:
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=2, fontsize=8)
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file, dpi=120)
