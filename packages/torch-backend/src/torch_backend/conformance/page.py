"""The report of a run in Markdown."""

from __future__ import annotations

from typing import Any

from torch_backend.conformance.report import Report


def _rate(rate: float | None) -> str:
    return "" if rate is None else f"{100 * rate:.2f} %"


def cell(text: str, length: int = 160) -> str:
    text = " ".join(text.split()).replace("|", "\\|")
    return text if len(text) <= length else text[: length - 3] + "..."


def page(report: Report, run: dict[str, Any]) -> str:
    """The verdict, a table of the checks, failures by cause, all failures, and expected failures."""
    verdict = report.verdict()
    lines = [f"# Conformance of {run['device']}: {'failed' if verdict else 'passed'}", ""]
    lines += [f"Profile {run['profile']}, seed {run['seed']}, {run['seconds']:.0f} s.", ""]
    lines += [f"- {name}: {value}" for name, value in run["facts"].items()]
    lines += ["", *(f"- {reason}" for reason in verdict), ""]
    lines += [
        "Values agree within the default tolerances of torch.testing; *bits* is the share of compared tensors that are",
        "those of the CPU to the last bit; *native* is the share of cases in which no operator ran on the CPU instead.",
        "",
        "| check | total | executed | passed | xfailed | failed | pass rate | bits | native | not applicable |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for check, tally in report.tallies.items():
        figures = (tally.total, tally.executed, tally.passed, len(tally.xfailed), len(tally.failures))
        rates = (
            _rate(tally.passed / tally.executed if tally.executed else None),
            _rate(tally.equal_bits / tally.tensors if tally.tensors else None),
            _rate(tally.native_rate),
        )
        lines.append(f"| {check} | {' | '.join(map(str, (*figures, *rates, len(tally.not_applicable))))} |")
    if report.failures:
        lines += ["", "## Failures by cause", "", "| cases | cause | for example |", "|---:|---|---|"]
        lines += [f"| {len(group)} | {cell(text)} | {group[0].case} |" for text, group in report.causes()]
        lines += ["", "## Failures", "", "| case | failed samples | what happened |", "|---|---:|---|"]
        lines += [
            f"| {failed.case} | {failed.failed_samples} of {max(failed.samples, 1)} | {cell(failed.message, 300)} |"
            for failed in report.failures
        ]
    xfailed = [pair for tally in report.tallies.values() for pair in tally.xfailed]
    if xfailed:
        lines += ["", "## Expected failures", "", "| case | reason |", "|---|---|"]
        lines += [f"| {result.case} | {cell(reason)} |" for result, reason in xfailed]
    if report.fallbacks:
        lines += ["", "## Operators that ran on the CPU", "", "| cases | operator |", "|---:|---|"]
        lines += [f"| {count} | {operator} |" for operator, count in report.fallbacks.most_common(50)]
    return "\n".join(lines) + "\n"
