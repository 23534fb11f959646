"""The state of a name on a device, from the results of its checks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from torch_backend.api_coverage.operators import NOT_ON_CPU
from torch_backend.conformance.case import FAILED, NOT_APPLICABLE, Result
from torch_backend.conformance.outcome import RAISES

NATIVE = "native"
RUNS = "runs"
FALLBACK = "fallback"
REFUSED = "refused"
WRONG = "wrong"
CRASH = "crash"
NOT_TRIED = "not tried"
NOT_ON_THE_CPU = "not on the CPU"
NO_DEVICE = "no device"

MEANINGS = {
    NATIVE: "the results are the CPU's, and no operator ran on the CPU",
    RUNS: "the results are the CPU's; the device does not count what ran on the CPU",
    FALLBACK: "the results are the CPU's, and the operators in brackets ran on the CPU",
    REFUSED: "the device raises the error that is shown, and the CPU does not",
    WRONG: "the results differ from the CPU's",
    CRASH: "the process ended or hung",
    NOT_TRIED: "no call of it was made",
    NOT_ON_THE_CPU: "there is nothing to compare with: the CPU refuses it too, or it is for another device's library",
    NO_DEVICE: "a type, a constant, an exception or a setting, which concerns no device",
}
TRIED = (NATIVE, RUNS, FALLBACK, REFUSED, WRONG, CRASH)
WORKS = (NATIVE, RUNS, FALLBACK)


@dataclass(frozen=True)
class State:
    """A state; the operators that ran on the CPU; what went wrong."""

    name: str
    operators: tuple[str, ...] = ()
    text: str = ""

    def to_json(self) -> dict[str, Any]:
        fields: dict[str, Any] = {"state": self.name}
        if self.operators:
            fields["operators"] = list(self.operators)
        return fields | ({"text": self.text} if self.text else {})

    @staticmethod
    def from_json(fields: Mapping[str, Any]) -> State:
        return State(fields["state"], tuple(fields.get("operators", ())), fields.get("text", ""))


def classify(result: Result) -> State:
    """The state that one result shows."""
    message = result.message
    if result.status == NOT_APPLICABLE:
        refused = message == NOT_ON_CPU or (result.case.check in ("program", "ranks") and "the CPU raises" in message)
        return State(NOT_ON_THE_CPU if refused else NOT_TRIED, text=first_sentence(message))
    if result.status == FAILED:
        if message.startswith(("crash:", "hang:")):
            return State(CRASH, text=message.splitlines()[0].partition(": ")[2])
        if message.startswith("the check itself raises"):
            return State(NOT_TRIED, text=first_sentence(message))
        if message.startswith(RAISES):
            return State(REFUSED, text=first_sentence(message.removeprefix(RAISES)))
        return State(WRONG, text=_difference(message) or first_sentence(message))
    if result.fallbacks is None:
        return State(RUNS)
    operators = tuple(sorted({name.removeprefix("aten::") for name in result.fallbacks}))
    return State(FALLBACK, operators) if operators else State(NATIVE)


def _difference(message: str) -> str:
    """How far the values are from the CPU's, where torch.testing says it."""
    found = re.search(r"relative difference: (\d[\d.e+-]*)", message, re.IGNORECASE)
    return f"the greatest relative difference is {float(found[1]):.1e}" if found else ""


def first_sentence(text: str) -> str:
    """The first sentence of the first paragraph, at most 160 characters of it, in one line."""
    line = " ".join(text.strip().split("\n\n")[0].split())
    sentence = re.split(r"(?<=[.;!?])\s(?=[A-Z])", line)[0]
    return sentence if len(sentence) <= 160 else sentence[:157] + "..."


def count(states: Iterable[State]) -> dict[str, int]:
    """How many names have each state, in the order of MEANINGS, without those that none has."""
    listed = [state.name for state in states]
    return {name: listed.count(name) for name in MEANINGS if name in listed}
