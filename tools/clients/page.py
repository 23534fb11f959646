"""The part of docs/clients.md that the report of the checks gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from checks.marked import replaced

BEGIN = "<!-- checks: begin -->"
END = "<!-- checks: end -->"


def page(text: str, report: Mapping[str, Any]) -> str:
    """The page with its marked part from the report. ValueError: it lacks the markers."""
    return replaced(text, BEGIN, END, table(report))


def table(report: Mapping[str, Any]) -> str:
    """A sentence and a table: client, version, check, result."""
    results = report["results"]
    passed = sum(result["outcome"] == "passed" for result in results)
    lines = [f"{passed} of {len(results)} checks passed, beside torch {report['torch']}.", ""]
    lines += ["| client | version | check | result |", "| --- | --- | --- | --- |"]
    for result in results:
        outcome = result["outcome"] + (f": {result['reason']}" if result["reason"] else "")
        version = report["versions"][result["client"]]
        lines.append(f"| {result['client']} | {version} | {result['check']} | {outcome.replace('|', ' ')} |")
    return "\n".join(lines)
