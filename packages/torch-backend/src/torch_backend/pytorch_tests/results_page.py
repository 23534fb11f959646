"""One page from the reports of several runs, such as one for each driver.

python -m torch_backend.pytorch_tests.results_page cpu/report.json sim/report.json > page.md
"""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

from torch_backend.conformance.page import cell
from torch_backend.pytorch_tests.checkout import kind_of
from torch_backend.pytorch_tests.expectations import KINDS

EXPLANATION = """\
*Executed* ran on the device. Of these, *decided* are the ones that stock CPU passes or does not have, and that PyTorch
does not expect to fail. *Expected* failures have an entry with a reason; *CPU too* fail on stock CPU in the same
environment and say nothing about the device. Files of the kind *accelerator* have tests that take the accelerator of
the process, many on several ranks; what passes there without memory of the device is skipped."""
COUNTS = ("listed", "executed", "decided", "passed", "expected", "failed", "fail on stock cpu too", "skipped")
OF_A_FILE = ("executed", "passed", "expected", "fail on stock cpu too", "skipped")


def _sum(report: dict[str, Any], count: str) -> int:
    return sum(counts.get(count) or 0 for counts in report["files"].values())


def _row(*cells: object) -> str:
    return f"| {' | '.join(str(value) for value in cells)} |"


def _tables(head: list[str], rows: list[list[object]]) -> list[str]:
    return [_row(*head), _row("---", *["---:"] * (len(head) - 1)), *(_row(*row) for row in rows)]


def _one_for_all(reports: dict[str, dict[str, Any]], key: str) -> str:
    return ", ".join(dict.fromkeys(str(report[key]) for report in reports.values()))


def results_page(reports: dict[str, dict[str, Any]]) -> str:
    """The page in Markdown.

    Arguments:
        reports: what a run writes to report.json, by a name such as the driver's.
    """
    lines = [
        "# PyTorch's own tests",
        "",
        f"The tests of PyTorch {_one_for_all(reports, 'tests of')} with torch {_one_for_all(reports, 'torch')}.",
        EXPLANATION,
        "",
    ]
    totals: list[list[object]] = [[count, *(_sum(report, count) for report in reports.values())] for count in COUNTS]
    totals += [["crashes and hangs", *(report["crashes and hangs"] for report in reports.values())]]
    ran = [f"{100 * _sum(one, 'executed') / max(1, _sum(one, 'listed')):.1f} %" for one in reports.values()]
    totals += [["share that ran", *ran]]
    totals += [["seconds of tests", *(round(sum(f["seconds"] for f in r["files"].values())) for r in reports.values())]]
    lines += _tables(["", *reports], totals)
    for name, report in reports.items():
        lines += ["", f"## Files on {name}", ""]
        head = ["file", "kind", "executed", "passed", "expected", "CPU too", "skipped"]
        rows = [
            [file, kind_of(file), *(counts[count] for count in OF_A_FILE)]
            for file, counts in sorted(report["files"].items())
        ]
        lines += _tables(head, rows)
    skippers = dict.fromkeys(who for report in reports.values() for who in report["skipped by"])
    lines += ["", "## Who skips", ""]
    lines += _tables(
        ["by", *reports],
        [[who, *(report["skipped by"].get(who, 0) for report in reports.values())] for who in skippers],
    )
    entries: dict[tuple[str, str, str], dict[str, int]] = {}
    for name, report in reports.items():
        for entry in report["expected"]:
            entries.setdefault((entry["kind"], entry["entry"], entry["reason"]), {})[name] = entry["tests"]
    lines += ["", "## Expected failures", "", _row("kind", "tests that fail", "reason", *reports)]
    lines += [_row("---", "---", "---", *["---:"] * len(reports))]
    lines += [
        _row(KINDS[kind], cell(entry), cell(reason), *(counts.get(name, 0) for name in reports))
        for (kind, entry, reason), counts in sorted(entries.items())
    ]
    failures = [(name, failure) for name, report in reports.items() for failure in report["failures"]]
    if failures:
        lines += ["", "## Failures without an explanation", "", _row("on", "test", "text"), _row("---", "---", "---")]
        lines += [_row(name, failure["test"], cell(failure["text"][:200])) for name, failure in failures]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Prints the page of the reports that are named; each is called by its driver."""
    read = [json.loads(pathlib.Path(name).read_text()) for name in sys.argv[1:]]
    if not read:
        sys.exit(f"usage: {__doc__}")
    print(results_page({report["driver"]: report for report in read}), end="")


if __name__ == "__main__":
    main()
