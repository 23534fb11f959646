"""The report of a run: the state of each name, and of its gradients where they are a case of their own."""

from __future__ import annotations

from typing import Any

from torch_backend.api_coverage.checks import GRADIENTS, evidence
from torch_backend.api_coverage.names import concerns_no_device, of_another_library, public_names
from torch_backend.api_coverage.state import NO_DEVICE, NOT_ON_THE_CPU, NOT_TRIED, TRIED, State, classify, count
from torch_backend.conformance.case import Result
from torch_backend.conformance.expectations import matches


def _without_call(path: str, value: Any) -> str:
    if of_another_library(path):
        return NOT_ON_THE_CPU
    return NO_DEVICE if concerns_no_device(path, value) else NOT_TRIED


class Report:
    """Collects the results of the names that match the patterns."""

    def __init__(self, patterns: str = "*") -> None:
        called = {path for entries in evidence().values() for path in entries}
        self.states = {
            path: State(NOT_TRIED if path in called else _without_call(path, value))
            for path, value in public_names().items()
            if matches(path, patterns)
        }
        self.gradients: dict[str, State] = {}

    def add(self, result: Result) -> None:
        """Notes what a case came to. Gradients that no sample has are not noted."""
        state = classify(result)
        if result.case.check != GRADIENTS:
            self.states[result.case.entry] = state
        elif state.name != NOT_TRIED:
            self.gradients[result.case.entry] = state

    def counts(self) -> dict[str, int]:
        return count(self.states.values())

    def tried(self) -> int:
        """How many names ran, with whatever result."""
        return sum(state.name in TRIED for state in self.states.values())

    def to_json(self, facts: dict[str, Any]) -> dict[str, Any]:
        names = {}
        for path, state in self.states.items():
            names[path] = state.to_json()
            if path in self.gradients:
                names[path]["gradients"] = self.gradients[path].to_json()
        return {**facts, "counts": self.counts(), "names": names}
