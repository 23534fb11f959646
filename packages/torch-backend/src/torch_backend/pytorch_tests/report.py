"""The verdict of a run: results compared with expectations, tallies by file, failures by cause."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from torch_backend.conformance.report import cause
from torch_backend.pytorch_tests.checkout import kind_of
from torch_backend.pytorch_tests.expectations import Expectation
from torch_backend.pytorch_tests.result import FAILED, PASSED, SKIPPED, UNUSED, XFAILED, Result

# Who decides that a test is skipped, by PyTorch's reasons; the first pattern that is found.
SKIPPED_BY = {
    "the runner: the device is not used": UNUSED,
    "a list of devices": (
        r"[Oo]nly runs on|onlyNative|onlyCUDA|onlyAccelerator|[Uu]nknown device type|doesn't run on"
        r"|[Rr]equires? (a )?(CUDA|cuda|GPU|XPU|MPS|ROCm|cuDNN|MAGMA)|CUDA (not|is not|un)"
        r"|(cuda|CUDA|GPU|ROCm|MPS|XPU)[- ](only|specific)|[Nn]ot.{0,30}(CUDA|cuda|GPU|MPS)"
        r"|no (cuda|CUDA|cuDNN|cusparse|magma|MAGMA|MIOpen)|not supported on (tb|this device)"
    ),
    "the number of devices": r"fewer than \d+ devices|multiple devices|[Mm]ulti-?GPU|at least \d",
    "a package that is missing": (
        r"[Nn]o module|not (installed|found|available)|[Nn]eed|[Rr]equires|missing|without|unavailable"
    ),
    "PyTorch, as slow": r"\bslow\b",
    "memory": r"[Ii]nsufficient .*memory|enough memory",
}


def skipped_by(reason: str) -> str:
    return next((who for who, pattern in SKIPPED_BY.items() if re.search(pattern, reason)), "PyTorch, on every device")


@dataclass
class Tally:
    """One file."""

    passed: int = 0
    xfailed: int = 0
    failures: list[Result] = field(default_factory=list)
    expected: list[tuple[Result, Expectation]] = field(default_factory=list)
    on_cpu_too: list[Result] = field(default_factory=list)
    skipped: Counter[str] = field(default_factory=Counter)  # by reason
    native: int = 0
    with_fallback_counts: int = 0
    seconds: float = 0.0

    @property
    def executed(self) -> int:
        """Tests that ran on the device."""
        return self.passed + self.xfailed + len(self.failures) + len(self.expected) + len(self.on_cpu_too)

    @property
    def decided(self) -> int:
        """Of these the ones that neither stock CPU nor PyTorch's own list decides."""
        return self.passed + len(self.failures) + len(self.expected)


class Report:
    """Collects the results of a run."""

    def __init__(self, expectations: list[Expectation]) -> None:
        self.expectations = expectations
        self.tallies: dict[str, Tally] = defaultdict(Tally)
        self.fallbacks: Counter[str] = Counter()
        self.passes_of: dict[Expectation, list[Result]] = defaultdict(list)
        self.listed: dict[str, int] = {}  # how many tests each file has for the device

    def add(self, result: Result) -> str | None:
        """Counts a result. Returns the text of a failure in one line, else None."""
        tally = self.tallies[result.name.file]
        tally.seconds += result.seconds
        if result.outcome == SKIPPED:
            tally.skipped[result.text] += 1
            return None
        if result.fallbacks is not None:
            tally.with_fallback_counts += 1
            tally.native += not result.fallbacks
            self.fallbacks.update(result.fallbacks)
        if result.outcome == XFAILED:
            tally.xfailed += 1
            return None
        entries = [entry for entry in self.expectations if entry.covers(result.name)]
        if result.outcome == PASSED:
            tally.passed += 1
            for entry in entries:
                if entry.names_tests and entry.strict:
                    self.passes_of[entry].append(result)
            return None
        assert result.outcome == FAILED
        if result.cpu == FAILED:
            tally.on_cpu_too.append(result)
            return None
        if fitting := [entry for entry in entries if entry.error in result.text]:
            tally.expected.append((result, fitting[0]))
            return None
        tally.failures.append(result)
        return f"{result.name}: {result.text}"

    @property
    def failures(self) -> list[Result]:
        return [failure for tally in self.tallies.values() for failure in tally.failures]

    def total(self, count: str) -> int:
        """The sum over the files of an attribute of Tally."""
        values = [getattr(tally, count) for tally in self.tallies.values()]
        return sum(value if isinstance(value, int) else len(value) for value in values)

    def skips(self) -> Counter[str]:
        """How many tests are skipped, by who decides it."""
        found: Counter[str] = Counter()
        for tally in self.tallies.values():
            for reason, count in tally.skipped.items():
                found[skipped_by(reason)] += count
        return found

    def failed_here(self) -> list[Result]:
        """Failures on the device, expected or not."""
        return self.failures + [result for tally in self.tallies.values() for result, _ in tally.expected]

    def entries(self) -> Counter[Expectation]:
        """How many failures each entry explains."""
        return Counter(entry for tally in self.tallies.values() for _, entry in tally.expected)

    def causes(self, results: list[Result]) -> list[tuple[str, list[Result]]]:
        """Failures whose texts are equal except for numbers and shapes, most frequent first."""
        groups: dict[str, list[Result]] = defaultdict(list)
        for result in results:
            groups[cause(result.text)].append(result)
        return sorted(groups.items(), key=lambda group: -len(group[1]))

    def verdict(self) -> list[str]:
        """The reasons why the run failed; empty if it passed."""
        reasons = []
        if not self.total("executed"):
            reasons.append("no test ran on the device: a run without tests proves nothing")
        if count := len(self.failures):
            reasons.append(f"{count} failures have no entry in the list of expected ones")
        reasons += [
            f"the entry {entry} expects a failure, and {len(results)} of its tests pass, such as {results[0].name.test}"
            for entry, results in self.passes_of.items()
        ]
        return reasons

    def to_json(self, run: dict[str, Any]) -> dict[str, Any]:
        verdict = self.verdict()
        return {
            **run,
            "ok": not verdict,
            "verdict": verdict,
            "files": {
                file: {
                    "kind": kind_of(file),
                    "listed": self.listed.get(file),
                    "executed": tally.executed,
                    "decided": tally.decided,
                    "passed": tally.passed,
                    "failed": len(tally.failures),
                    "expected": len(tally.expected),
                    "fail on stock cpu too": len(tally.on_cpu_too),
                    "expected by PyTorch": tally.xfailed,
                    "skipped": sum(tally.skipped.values()),
                    "native": tally.native if tally.with_fallback_counts else None,
                    "seconds": round(tally.seconds, 1),
                }
                for file, tally in self.tallies.items()
            },
            "skipped by": dict(self.skips().most_common()),
            "failures": [{"test": str(result.name), "text": result.text} for result in self.failures],
            "expected": [
                {"entry": str(entry), "kind": entry.kind, "reason": entry.reason, "tests": count}
                for entry, count in self.entries().most_common()
            ],
            "crashes and hangs": sum(result.text.startswith(("crash:", "hang:")) for result in self.failed_here()),
            "fallbacks": dict(self.fallbacks.most_common()),
        }
