"""The verdict of a run: results compared with expectations, tallies per check, failures by cause, JSON."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from torch_backend.conformance.case import FAILED, NOT_APPLICABLE, Case, Result
from torch_backend.conformance.checks import CHECKS
from torch_backend.conformance.expectations import Expectation, match


@dataclass
class Tally:
    """One check. `total` counts the cases that apply; the time limit cut off those that are not in `executed`."""

    selected: int = 0
    passed: int = 0
    failures: list[Result] = field(default_factory=list)
    xfailed: list[tuple[Result, str]] = field(default_factory=list)
    not_applicable: list[Result] = field(default_factory=list)
    samples: int = 0
    tensors: int = 0
    equal_bits: int = 0
    with_fallback_counts: int = 0
    native: int = 0

    @property
    def total(self) -> int:
        return self.selected - len(self.not_applicable)

    @property
    def executed(self) -> int:
        return self.passed + len(self.failures) + len(self.xfailed)

    @property
    def native_rate(self) -> float | None:
        """The share of cases in which no operator ran on the CPU; None if the device does not report that."""
        return self.native / self.with_fallback_counts if self.with_fallback_counts else None

    def to_json(self) -> dict[str, Any]:
        return {
            "total": self.total,
            "executed": self.executed,
            "passed": self.passed,
            "xfailed": len(self.xfailed),
            "failed": len(self.failures),
            "not_applicable": len(self.not_applicable),
            "samples": self.samples,
            "bit_equal_rate": round(self.equal_bits / self.tensors, 5) if self.tensors else None,
            **({} if self.native_rate is None else {"native_rate": round(self.native_rate, 5)}),
            "failures": [
                {
                    **_named(result.case),
                    "message": result.message,
                    "failed_samples": result.failed_samples,
                    "samples": result.samples,
                    **result.extra,
                }
                for result in self.failures
            ],
            "xfails": [{**_named(result.case), "reason": reason} for result, reason in self.xfailed],
            "not_applicable_cases": [{**_named(r.case), "reason": r.message} for r in self.not_applicable],
        }


def _named(case: Case) -> dict[str, str]:
    return {"op": case.entry, "dtype": case.dtype}


class Report:
    """Collects the results of a run."""

    def __init__(self, cases: list[Case], expectations: list[Expectation], *, complete: bool) -> None:
        self.expectations = expectations
        # Whether the run fails if cases did not run.
        self.complete = complete
        counts = Counter(case.check for case in cases)
        self.tallies = {check: Tally(selected=counts[check]) for check in CHECKS if check in counts}
        # Only a complete run shows that an expectation matches no case.
        self.unused = {e for e in expectations if not any(e.covers(case) for case in cases)} if complete else set()
        self.fallbacks: Counter[str] = Counter()

    def add(self, result: Result) -> str | None:
        """Counts a result. Returns the text of a failure in one line, else None."""
        tally = self.tallies[result.case.check]
        tally.samples += result.samples
        tally.tensors += result.tensors
        tally.equal_bits += result.equal_bits
        if result.status == NOT_APPLICABLE:
            tally.not_applicable.append(result)
            return None
        if result.fallbacks is not None:
            tally.with_fallback_counts += 1
            tally.native += not result.fallbacks
            self.fallbacks.update(result.fallbacks)
        expected = match(self.expectations, result.case)
        if result.status != FAILED:
            if expected is None:
                tally.passed += 1
                return None
            result.message = f"unexpected pass: it was expected to fail ({expected.reason}); remove the expectation"
        elif expected is not None and expected.error in result.message:
            tally.xfailed.append((result, expected.reason))
            return None
        elif expected is not None:
            result.message += f" (expected was a failure with {expected.error!r})"
        tally.failures.append(result)
        return f"{result.case}: {' '.join(result.message.split())}"

    @property
    def failures(self) -> list[Result]:
        return [failure for tally in self.tallies.values() for failure in tally.failures]

    def verdict(self) -> list[str]:
        """The reasons why the run failed; empty if it passed."""
        reasons = []
        if not self.tallies:
            reasons.append("no case matches the selection: nothing was executed")
        for check, tally in self.tallies.items():
            if not tally.executed:
                reasons.append(f"{check} executed nothing: a check that runs no case proves nothing")
            if tally.failures:
                reasons.append(f"{check}: {len(tally.failures)} of {tally.executed} cases fail")
            if self.complete and tally.executed < tally.total:
                reasons.append(f"{check}: {tally.total - tally.executed} of {tally.total} cases did not run")
        reasons += [f"the expectation {unused} belongs to no case: remove it" for unused in map(str, self.unused)]
        return reasons

    def causes(self, results: list[Result] | None = None) -> list[tuple[str, list[Result]]]:
        """Failures whose texts are equal except for numbers and shapes, most frequent first."""
        groups: dict[str, list[Result]] = defaultdict(list)
        for result in self.failures if results is None else results:
            groups[cause(result.message)].append(result)
        return sorted(groups.items(), key=lambda group: -len(group[1]))

    def to_json(self, run: dict[str, Any]) -> dict[str, Any]:
        verdict = self.verdict()
        return {
            **run,
            "ok": not verdict,
            "verdict": verdict,
            "checks": {check: tally.to_json() for check, tally in self.tallies.items()},
            "fallbacks": dict(self.fallbacks.most_common()),
        }


def cause(message: str) -> str:
    """The text of a failure without numbers and shapes."""
    text = re.sub(r"( where the CPU raises \w+): .*", r"\1", message.split("\n", 1)[0])
    text = re.sub(r"Mismatched elements:.*|Tensor-likes are not close.*", "not close", text)
    text = re.sub(r"[\(\[][\d\s,.\-]*[\)\]]", "(...)", text)
    text = re.sub(r"-?\b\d[\d.e+\-]*\b", "N", text)
    return " ".join(text.split())[:200]
