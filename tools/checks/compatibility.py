"""The tables of what ran on which PyTorch and Python, made from docs/results/compatibility.json.

    python tools/checks/compatibility.py            writes them between the markers of README.md and of the page
    python tools/checks/compatibility.py --check    exit code 1 if a page has other tables

`nox -s torch-matrix -- --record` and `nox -s python-matrix -- --record` write that file.
"""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from checks.marked import replaced  # noqa: E402

RECORDED = pathlib.Path("docs/results/compatibility.json")
BEGIN, END = "<!-- compatibility: tools/checks/compatibility.py -->", "<!-- end of compatibility -->"
NOT_TESTS = ("conformance", "demo", "doctor")

Row = Mapping[str, Any]


def _count(counts: Mapping[str, Mapping[str, int]], names: Sequence[str]) -> str:
    """How many cases of these tasks passed, and how many did not if any; "" if none of them ran."""
    chosen = [counts[name] for name in names if name in counts]
    passed, failed = (sum(count[key] for count in chosen) for key in ("passed", "failed"))
    return "" if not chosen else f"{passed:,} passed, {failed:,} failed" if failed else f"{passed:,} passed"


def _first(row: Row) -> str:
    return f"| {row['torch'] or 'none'} | {row['python']} "


def short_table(rows: Sequence[Row]) -> str:
    """A row for each pair of versions."""
    lines = [
        "| PyTorch | CPython | tests | conformance, quick | 40 training steps |",
        "| --- | --- | --- | --- | --- |",
    ]
    for row in rows:
        counts = row["counts"]
        tests = _count(counts, [name for name in counts if name not in NOT_TESTS])
        demo = "" if "demo" not in counts else "differ" if counts["demo"]["failed"] else "equal to cpu's"
        lines.append(f"{_first(row)}| {tests} | {_count(counts, ['conformance'])} | {demo} |")
    return "\n".join(lines)


def long_table(rows: Sequence[Row]) -> str:
    """A row for each pair of versions, and a column for each task."""
    names = list(dict.fromkeys(name for row in rows for name in row["counts"]))
    lines = [f"| PyTorch | CPython | {' | '.join(names)} | date |", "| --- " * (len(names) + 3) + "|"]
    for row in rows:
        cells = [_count(row["counts"], [name]) for name in names]
        lines.append(f"{_first(row)}| {' | '.join(cells)} | {row['date']} |")
    return "\n".join(lines)


PAGES = {"README.md": short_table, "docs/results/compatibility.md": long_table}


def main(arguments: Sequence[str], root: pathlib.Path = ROOT) -> int:
    rows = json.loads((root / RECORDED).read_text(encoding="utf-8"))
    stale = []
    for name, table in PAGES.items():
        page = (root / name).read_text(encoding="utf-8")
        wanted = replaced(page, BEGIN, END, table(rows) if rows else "Nothing is recorded yet.")
        if page != wanted:
            stale.append(name)
            if "--check" not in arguments:
                (root / name).write_text(wanted, encoding="utf-8")
    if stale and "--check" in arguments:
        print(f"{', '.join(stale)}: not what {RECORDED} says; run python tools/checks/compatibility.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
