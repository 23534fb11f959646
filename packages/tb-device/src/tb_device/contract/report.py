"""Counts results and judges them: what one line, the JSON file and the exit code say."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from typing import Any

from .. import _contract
from .expectations import Expectations
from .session import EXPECTED, FAILED, NOT_OFFERED, PASSED, WARNED, Result, Session
from .target import Target, kit_version

EXECUTED = (PASSED, FAILED, EXPECTED, WARNED)


class Report:
    """The results of one run. whole: no case of the level was left out, so every declared group must have had one."""

    def __init__(self, target: Target, level: int, expectations: Expectations, *, whole: bool) -> None:
        self.target = target
        self.level = level
        self.expectations = expectations
        self.whole = whole
        self.results: list[Result] = []
        self.about: dict[str, Any] = {}
        self.session_problem = ""
        self._start = time.monotonic()
        self.seconds = 0.0

    def judge(self, result: Result) -> Result:
        """Adds a result, changed by the expectation for its case."""
        reason = self.expectations.expected_failure.get(result.case.id)
        if reason is not None and result.outcome == FAILED:
            result.outcome, result.text = EXPECTED, f"{reason} ({result.text})"
        elif reason is not None and result.outcome in (PASSED, WARNED):
            result.outcome = FAILED
            result.text = f"it passed, but is listed as an expected failure: {reason}. Remove the line"
        self.results.append(result)
        return result

    def finish(self, session: Session) -> None:
        """Closes the session and takes what it says."""
        session.close()
        self.about, self.session_problem = session.about, session.problem
        self.seconds = time.monotonic() - self._start

    def count(self, *outcomes: str) -> int:
        return sum(result.outcome in outcomes for result in self.results)

    def groups(self) -> dict[str, int]:
        """Executed cases of each group that the driver declares, within the level."""
        executed: Counter[str] = Counter()
        for result in self.results:
            if result.outcome in EXECUTED:
                executed.update(result.case.groups)
        levels = _contract.groups()
        return {group: executed[group] for group in self.about.get("groups", []) if levels[group] <= self.level}

    def problems(self) -> list[str]:
        """Why the run as a whole does not pass, beside its failed cases."""
        problems = [self.session_problem] if self.session_problem else []
        if self.count(*EXECUTED) == 0:
            problems.append("no case was executed: that proves nothing")
        if self.whole:
            empty = [group for group, executed in self.groups().items() if executed == 0]
            problems += [f"the driver declares {group}, but no case of it was executed" for group in empty]
        return problems

    def passed(self) -> bool:
        return self.count(FAILED) == 0 and not self.problems()

    def line(self) -> str:
        """The result in one line."""
        name = " ".join(filter(None, [self.about.get("name") or self.target.driver, self.about.get("version", "")]))
        counts = f"{self.count(PASSED)} passed, {self.count(FAILED)} failed"
        for label, outcome in (("expected failures", EXPECTED), ("warned", WARNED), ("not offered", NOT_OFFERED)):
            if self.count(outcome):
                counts += f", {self.count(outcome)} {label}"
        parts = [name, f"ABI {self.about['abi']}" if "abi" in self.about else "", f"level {self.level}", counts]
        parts += [f"{self.seconds:.1f} s", "passed" if self.passed() else "FAILED"]
        return " · ".join(filter(None, parts))

    def words(self) -> dict[str, Any]:
        """The result for programs."""
        return {
            "driver": self.target.driver,
            "about": self.about,
            "level": self.level,
            "passing": self.passed(),
            "problems": self.problems(),
            "cases": len(self.results),
            "passed": self.count(PASSED),
            "failed": self.count(FAILED),
            "expected_failures": self.count(EXPECTED),
            "warned": self.count(WARNED),
            "not_offered": self.count(NOT_OFFERED),
            "executed": self.count(*EXECUTED),
            "seconds": round(self.seconds, 3),
            "driver_sha256": hashlib.sha256(self.target.file().read_bytes()).hexdigest(),
            "kit": kit_version(),
            "groups": self.groups(),
            "whole": self.whole,
            "seed": self.target.seed,
            "layers": self.target.layers,
            "options": self.target.options,
            "unsupported": self.expectations.unsupported,
            "results": [
                {
                    "id": result.case.id,
                    "outcome": result.outcome,
                    "seconds": round(result.seconds, 6),
                    "text": result.text,
                    "where": result.where,
                    "states": result.statements,
                }
                for result in self.results
            ],
        }


def unsupported(report: Report, case_id: str) -> str | None:
    """The vendor's reason for not offering a case, or None."""
    return report.expectations.unsupported.get(case_id)
