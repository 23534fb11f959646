"""What ran beside which torch and Python, and what came of it; docs/results/compatibility.json keeps it."""

from __future__ import annotations

import datetime
import functools
import json
import pathlib
import time
import xml.etree.ElementTree
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import nox

from building.packages import ROOT
from building.testing import run_all

RECORDED = ROOT / "docs" / "results" / "compatibility.json"


class Results:
    """The counts of several tasks that run in one installation."""

    def __init__(self, name: str, python: str) -> None:
        """Arguments:
        name: of the folder of reports, below build/matrix.
        python: the version, such as "3.11.7".
        """
        self.reports = ROOT / "build" / "matrix" / name
        self.python = python
        self.torch = ""
        self.counts: dict[str, tuple[int, int]] = {}
        self.seconds = 0.0
        self.complete = False
        """Whether every task ran, with whatever result; an interrupted run says nothing of its torch."""

    def run(self, session: nox.Session, tasks: Mapping[str, Callable[[], None]]) -> None:
        """Runs every task and counts what its report says: NAME.xml of pytest, NAME.json of the conformance.

        A task without a report counts as one case.
        """
        self.reports.mkdir(parents=True, exist_ok=True)
        for old in self.reports.iterdir():
            old.unlink()
        started = time.monotonic()
        try:
            run_all(session, {name: functools.partial(self._count, name, task) for name, task in tasks.items()})
            self.complete = True
        except nox.command.CommandFailed:
            self.complete = True
            raise
        finally:
            self.seconds = time.monotonic() - started

    def _count(self, name: str, task: Callable[[], None]) -> None:
        passed = False
        try:
            task()
            passed = True
        finally:
            self.counts[name] = read_report(self.reports, name) or (int(passed), int(not passed))

    def line(self) -> str:
        counts = [f"{name} {passed} passed {failed} failed" for name, (passed, failed) in self.counts.items()]
        return f"{self.seconds:.0f} s: {', '.join(counts) or 'nothing ran'}"

    def facts(self) -> dict[str, Any]:
        return {
            "torch": self.torch,
            "python": self.python,
            "date": datetime.date.today().isoformat(),
            "counts": {name: {"passed": passed, "failed": failed} for name, (passed, failed) in self.counts.items()},
        }


def read_report(reports: pathlib.Path, name: str) -> tuple[int, int] | None:
    """(passed, failed) of a run, from the report that it wrote; None if there is none."""
    if (path := reports / f"{name}.xml").exists():
        suites = xml.etree.ElementTree.parse(path).getroot().iter("testsuite")
        numbers = [[int(suite.get(key, 0)) for key in ("tests", "skipped", "failures", "errors")] for suite in suites]
        tests, skipped, failures, errors = (sum(column) for column in zip(*numbers, strict=True))
        return tests - skipped - failures - errors, failures + errors
    if (path := reports / f"{name}.json").exists():
        checks = json.loads(path.read_text())["checks"].values()
        return sum(check["passed"] + check["xfailed"] for check in checks), sum(check["failed"] for check in checks)
    return None


def minor(version: str) -> str:
    """The minor version: "3.11.7+local" gives "3.11"; "" gives ""."""
    return ".".join(version.split("+")[0].split(".")[:2])


def record(results: Sequence[Results], path: pathlib.Path = RECORDED) -> None:
    """Puts those that are complete in place of what is recorded for the same minor versions of Python and torch."""

    def key(row: Mapping[str, Any]) -> tuple[list[int], list[int]]:
        python, torch = ([int(part) for part in minor(row[name]).split(".") if part] for name in ("python", "torch"))
        return python, torch

    new = [result.facts() for result in results if result.complete]
    old = json.loads(path.read_text()) if path.exists() else []
    kept = [row for row in old if key(row) not in map(key, new)]
    path.write_text(json.dumps(sorted([*kept, *new], key=key), indent=1) + "\n")
