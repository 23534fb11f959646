"""`python -m clients.page REPORT PAGE`: writes the part of a page that the report of the checks gives."""

from __future__ import annotations

import collections
import json
import pathlib
import sys
from collections.abc import Mapping
from typing import Any

from checks.marked import replaced

BEGIN = "<!-- checks: begin -->"
END = "<!-- checks: end -->"


def page(text: str, report: Mapping[str, Any]) -> str:
    """The page with its marked part from the report. ValueError: it lacks the markers."""
    return replaced(text, BEGIN, END, tables(report))


def tables(report: Mapping[str, Any]) -> str:
    """A sentence, a table of the clients, and one of their checks."""
    results, versions = report["results"], report["versions"]
    passed = collections.Counter(result["client"] for result in results if result["outcome"] == "passed")
    everything = collections.Counter(result["client"] for result in results)
    lines = [f"{passed.total()} of {len(results)} checks passed beside torch {report['torch']}.", ""]
    lines += ["| client | version | checks | passed |", "| --- | --- | --- | --- |"]
    lines += [f"| {client} | {versions[client]} | {everything[client]} | {passed[client]} |" for client in versions]
    lines += ["", "| client | check | result |", "| --- | --- | --- |"]
    for result in results:
        reason = f": {result['reason']}" if result["reason"] else ""
        cells = [result["client"], result["check"], result["outcome"] + reason]
        lines.append(f"| {' | '.join(cell.replace('|', ' ') for cell in cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    report_file, page_file = map(pathlib.Path, sys.argv[1:])
    page_file.write_text(page(page_file.read_text(), json.loads(report_file.read_text())))
