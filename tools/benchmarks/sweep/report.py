"""The results of a sweep as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.sweep.rows import FASTER, SLOWER, Aim, Row, measured, summary


def table(rows: Sequence[Row]) -> str:
    """A line of text for each row, the greatest ratio first."""
    columns = ("family", "operator", "elements", "threads", "stock, us", "tb, us", "ratio")
    lines = ["{:16} {:30}{:>10}{:>9}{:>12}{:>12}{:>8}".format(*columns)]
    for row in measured(rows):
        marks = [f"slower than {SLOWER} in every round"] if row.slower else []
        marks += [f"falls back: {', '.join(row.fallbacks)}"] if row.fallbacks else []
        lines.append(
            f"{row.family:16} {row.name:30}{row.elements:10,}{row.threads:>9}{row.stock_us:12.2f}{row.tb_us:12.2f}"
            f"{row.ratio:8.2f}  {'; '.join(marks)}".rstrip()
        )
    return "\n".join(lines)


def by_size(rows: Sequence[Row]) -> str:
    """A line of text for each operator at one setting of threads: tb's microseconds and the ratio for each size."""
    sizes = sorted({row.elements for row in rows})
    lines = [f"{'us on tb, tb/cpu; elements':30}" + "".join(f"{size:>20,}" for size in sizes)]
    for name in dict.fromkeys(row.name for row in rows):
        found = {row.elements: row for row in rows if row.name == name}
        cells = [f"{found[size].tb_us:.2f}{found[size].ratio:7.2f}" if not found[size].error else "" for size in sizes]
        lines.append(f"{name:30}" + "".join(f"{cell:>20}" for cell in cells))
    return "\n".join([*lines, *_failed(rows)])


def _failed(rows: Sequence[Row]) -> list[str]:
    return [f"FAILED  {row.label}: {row.error}" for row in rows if row.error]


def text(rows: Sequence[Row], judged: Sequence[Aim]) -> str:
    """The table, the summary, the lines that failed, and the aims."""
    lines = [table(rows), "", f"{'elements':>10}{'threads':>9}{'lines':>7}{'mean':>7}  slower, faster"]
    for one in summary(rows):
        counts = f"{one.slower} slower than {SLOWER}, {one.faster} faster than {FASTER} in every round"
        lines.append(f"{one.elements:10,}{one.threads:>9}{one.lines:7}{one.mean:7.3f}  {counts}")
    lines += ["", *_failed(rows)]
    lines += [
        f"{'met    ' if aim.met else 'NOT MET'}  {aim.found:6.3f} <= {aim.bound:.2f}  {aim.name}" for aim in judged
    ]
    return "\n".join([*lines, f"{sum(aim.met for aim in judged)} of {len(judged)} aims met"])


def row_as_json(row: Row) -> dict[str, Any]:
    return {**asdict(row), "ratio": row.ratio, "slower": row.slower, "faster": row.faster}


def as_json(rows: Sequence[Row], judged: Sequence[Aim], reasons: Mapping[str, str], seconds: float) -> dict[str, Any]:
    """What `--json` writes, and a page is made from. seconds: how long the sweep took."""
    return {
        "rows": [row_as_json(row) for row in measured(rows)],
        "failed": [{"name": row.label, "error": row.error} for row in rows if row.error],
        "summary": [asdict(one) for one in summary(rows)],
        "aims": [{**asdict(aim), "met": aim.met} for aim in judged],
        "reasons": dict(reasons),
        "seconds": seconds,
    }
