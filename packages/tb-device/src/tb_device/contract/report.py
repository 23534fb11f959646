"""Counts results and judges them: what one line, the JSON file and the exit code say."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from typing import Any

from .. import _contract, levels
from .expectations import Expectations
from .session import EXPECTED, FAILED, NOT_OFFERED, PASSED, WARNED, Result, Session
from .target import Case, Target, all_cases, kit_version

EXECUTED = (PASSED, FAILED, EXPECTED, WARNED)
WHOLE, IN_PART, NOT_AT_ALL = "whole", "in part", "not at all"


def _groups_of(case: Case) -> set[str]:
    """What a case needs: its groups, and the extension that it is about."""
    return {*case.groups, *([levels.GRAPH_EXTENSION] if case.area == "GRA" else [])}


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

    def offered(self) -> set[str]:
        """The groups that the driver declares, and the extension if a case about it was executed."""
        graphs = any(result.case.area == "GRA" and result.outcome in EXECUTED for result in self.results)
        return {*self.about.get("groups", []), *([levels.GRAPH_EXTENSION] if graphs else [])}

    def reached(self) -> int:
        """The level of what the driver offers (tb-device explain), up to the level that was asked for."""
        return min(self.level, levels.level_of(self.offered()))

    def proved(self) -> dict[str, tuple[int, int]]:
        """By group: how many cases hold, of those within the level that ask for nothing else that is not offered.

        (0, 0) for a group that is not offered. Cases that were not chosen, are not offered or fail do not hold; a
        performance floor that was missed does.
        """
        held = {result.case.id for result in self.results if result.outcome in (PASSED, WARNED)}
        ran = {result.case.id for result in self.results}
        offered = self.offered()
        counts = {name: (0, 0) for name, level in self._levels().items() if level <= self.level}
        for case in all_cases():
            needs = _groups_of(case)
            if case.level <= self.level and needs <= offered and (not case.slow or case.id in ran):
                for name in needs & counts.keys():
                    good, total = counts[name]
                    counts[name] = good + (case.id in held), total + 1
        return counts

    def _levels(self) -> dict[str, int]:
        return {**_contract.groups(), levels.GRAPH_EXTENSION: levels.LEVELS[-1].number}

    def proved_line(self) -> str:
        """What the cases prove by group: whole, in part with the numbers, not at all."""
        names: dict[str, list[str]] = {WHOLE: [], IN_PART: [], NOT_AT_ALL: []}
        for name, (good, total) in self.proved().items():
            state = NOT_AT_ALL if good == 0 else WHOLE if good == total else IN_PART
            names[state].append(f"{name} ({good} of {total})" if state == IN_PART else name)
        return "proved " + "; ".join(f"{state}: {', '.join(names[state])}" for state in names if names[state])

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
        # What a few chosen cases say of the driver is no level.
        less = self.whole and self.reached() < self.level
        level = f"level {self.reached()} of {self.level}" if less else f"level {self.level}"
        parts = [name, f"ABI {self.about['abi']}" if "abi" in self.about else "", level, counts]
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
            "reached": self.reached(),
            "proved": {name: {"held": held, "of": total} for name, (held, total) in self.proved().items()},
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
