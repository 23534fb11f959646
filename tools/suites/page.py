"""`python -m suites.page REPORT PAGE`: writes the page of the suites from their report and their table."""

from __future__ import annotations

import json
import pathlib
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from torch_backend.conformance.page import cell

from suites.suite import load

INTRODUCTION = """\
# Test suites of other libraries

`nox -s suites -- --record` writes this page. Each suite is run unmodified, with the device renamed, on `tb`; a test
that fails there is run on stock CPU too, in the same environment without torch_backend.
[Clients](../clients.md#their-own-test-suites) says how.

*Executed* are the tests that used memory of the device, or failed. *CPU too* fail on stock CPU as well, and say nothing
about the device. *Expected* failures have an entry with a reason. *Elsewhere* are tests that pass and use no memory of
the device, *skipped* those that the suite skips. *Native* is the share of executed tests without an operator on the
CPU."""

COUNTS = {
    "executed": "executed",
    "passed": "passed",
    "failed": "failed",
    "expected": "expected",
    "CPU too": "failed on stock CPU too",
    "elsewhere": "not on the device",
    "skipped": "skipped",
}
"""The columns of counts, and their names in the report."""


def page(report: Mapping[str, Any], absent: Mapping[str, str]) -> str:
    """The page: the suites, their expected failures, operators on the CPU, and suites without tests to be had."""
    suites = report["suites"]
    total = sum(found["executed"] for found in suites.values())
    bad = [name for name, found in suites.items() if not found["ok"]]
    lines = [INTRODUCTION, "", f"{total} tests ran on driver `{report['driver']}` beside torch {report['torch']}."]
    if bad:
        lines += ["", f"Failed: {', '.join(bad)}."]
    lines += ["", "## Suites", ""]
    lines += _table(
        ["suite", "version", "from", *COUNTS, "native"],
        [
            [name, found["version"], found["from"], *(found[key] for key in COUNTS.values()), _native(found)]
            for name, found in suites.items()
        ],
    )
    if parts := [[name, found["part"]] for name, found in suites.items() if found["part"]]:
        lines += ["", "Not the whole suite:", "", *_table(["suite", "what is run"], parts)]
    lines += ["", "## Expected failures", ""]
    lines += _table(
        ["suite", "tests", "entry", "kind", "reason"],
        [
            [name, entry["tests"], f"`{cell(entry['entry'], 150)}`", entry["kind"], entry["reason"]]
            for name, found in suites.items()
            for entry in found["entries"]
        ],
    )
    lines += ["", "## Operators that ran on the CPU", ""]
    lines += _table(
        ["suite", "tests with the operator"],
        [
            [name, ", ".join(f"{operator} {count}" for operator, count in found["fallbacks"].items())]
            for name, found in suites.items()
            if found["fallbacks"]
        ],
    )
    lines += ["", "## No tests to be had", "", *_table(["suite", "what was found"], [*map(list, absent.items())])]
    return "\n".join(lines) + "\n"


def _table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    if not rows:
        return ["None."]
    lines = [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}"]
    return lines + [f"| {' | '.join(cell(str(value)) for value in row)} |" for row in rows]


def _native(found: Mapping[str, Any]) -> str:
    return f"{100 * found['native'] / found['executed']:.1f} %" if found["executed"] else ""


if __name__ == "__main__":
    report_file, page_file = map(pathlib.Path, sys.argv[1:])
    page_file.write_text(page(json.loads(report_file.read_text()), load()[1]))
