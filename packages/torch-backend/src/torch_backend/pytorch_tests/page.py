"""The report of a run in Markdown."""

from __future__ import annotations

from collections import Counter
from typing import Any

from torch_backend.conformance.page import cell
from torch_backend.pytorch_tests.checkout import kind_of
from torch_backend.pytorch_tests.expectations import KINDS
from torch_backend.pytorch_tests.report import Report
from torch_backend.pytorch_tests.results_page import EXPLANATION

NATIVE = " *Native* ran without an operator on the CPU."


def page(report: Report, run: dict[str, Any]) -> str:
    """The verdict, a table of the files, who skips, failures by cause, expected failures, operators on the CPU."""
    verdict = report.verdict()
    lines = [f"# PyTorch's own tests on {run['device']}: {'failed' if verdict else 'passed'}", ""]
    lines += [f"- {name}: {value}" for name, value in run.items()]
    lines += ["", *(f"- {reason}" for reason in verdict), "", EXPLANATION + NATIVE, ""]
    lines += ["| file | kind | executed | decided | passed | failed | expected | CPU too | native | skipped |"]
    lines += ["|---|---|---:|---:|---:|---:|---:|---:|---:|---:|"]
    for file, tally in sorted(report.tallies.items()):
        native = f"{100 * tally.native / tally.with_fallback_counts:.1f} %" if tally.with_fallback_counts else ""
        figures = [tally.executed, tally.decided, tally.passed, len(tally.failures), len(tally.expected)]
        figures += [len(tally.on_cpu_too)]
        cells = [file, kind_of(file), *map(str, figures)]
        lines.append(f"| {' | '.join(cells)} | {native} | {sum(tally.skipped.values())} |")
    names = ("executed", "decided", "passed", "failures", "expected", "on_cpu_too")
    skips = report.skips()
    lines += [f"| all | | {' | '.join(str(report.total(name)) for name in names)} | | {sum(skips.values())} |"]
    if skips:
        lines += ["", "## Who skips", "", "| tests | skipped by |", "|---:|---|"]
        lines += [f"| {count} | {who} |" for who, count in skips.most_common()]
        reasons: Counter[str] = Counter()
        for tally in report.tallies.values():
            reasons.update(tally.skipped)
        lines += ["", "| tests | reason |", "|---:|---|"]
        lines += [f"| {count} | {cell(reason)} |" for reason, count in reasons.most_common(40)]
    if report.failures:
        lines += ["", "## Failures by cause", "", "| tests | cause | for example |", "|---:|---|---|"]
        lines += [
            f"| {len(group)} | {cell(text)} | {group[0].name} |" for text, group in report.causes(report.failures)
        ]
    if entries := report.entries():
        lines += ["", "## Expected failures", "", "| tests | entry | kind | reason |", "|---:|---|---|---|"]
        lines += [
            f"| {count} | {entry} | {KINDS[entry.kind]} | {cell(entry.reason)} |"
            for entry, count in entries.most_common()
        ]
    if report.fallbacks:
        lines += ["", "## Operators that ran on the CPU", "", "| tests | operator |", "|---:|---|"]
        lines += [f"| {count} | {operator} |" for operator, count in report.fallbacks.most_common(50)]
    return "\n".join(lines) + "\n"
