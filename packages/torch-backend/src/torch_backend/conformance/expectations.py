"""Strict expected failures, each with a reason. One that passes, or that matches no case, is a failure itself."""

from __future__ import annotations

import pathlib
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch

from torch_backend.conformance.case import Case

TORCH_MINOR = ".".join(torch.__version__.split(".")[:2])
SHIPPED = pathlib.Path(__file__).with_name("expected.toml")
KEYS = {"check", "op", "dtype", "device", "operators", "torch", "error", "reason"}


def matches(value: str, patterns: str) -> bool:
    """Whether a value matches one of the patterns, which are separated by commas."""
    return any(fnmatchcase(value, pattern.strip()) for pattern in patterns.split(","))


@dataclass(frozen=True)
class Expectation:
    """An expected failure. All but `reason` and `error` are patterns of fnmatch, separated by commas.

    `operators` are the sets of operators that serve the device's driver (tb_ops.backends), one of which must match.
    `torch` is the minor version of PyTorch, such as "2.14". `error`, if given, must be a part of the failure's text.
    """

    check: str
    op: str
    reason: str
    dtype: str = "*"
    device: str = "*"
    operators: str = "*"
    torch: str = "*"
    error: str = ""

    def covers(self, case: Case) -> bool:
        pairs = zip(case, (self.check, self.op, self.dtype), strict=True)
        return all(matches(value, patterns) for value, patterns in pairs)

    def __str__(self) -> str:
        return f"{self.check} {self.op} {self.dtype}"


def entries(path: pathlib.Path, keys: set[str], needed: Sequence[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the entries of a file of expected failures, each with the words that name it in an error.

    Raises:
        ValueError: an entry without one of the needed keys, or with an unknown key.
    """
    for number, entry in enumerate(tomllib.loads(path.read_text()).get("expected", []), start=1):
        where = f"{path}, [[expected]] number {number}"
        unknown = set(entry) - keys
        missing = {key for key in needed if not str(entry.get(key, "")).strip()}
        if unknown or missing:
            fault = f"unknown keys {sorted(unknown)}" if unknown else f"no {', '.join(sorted(missing))}"
            raise ValueError(f"{where} has {fault}; keys are {sorted(keys)}")
        yield where, entry


def load(paths: Iterable[pathlib.Path], device: str, operators: Iterable[str] = ()) -> list[Expectation]:
    """The expectations of these files for a device type, its sets of operators and the installed version of PyTorch.

    Raises:
        ValueError: an entry without a reason, without check or op, or with an unknown key.
    """
    found, serving = [], list(operators)
    for path in paths:
        for _, entry in entries(path, KEYS, ("check", "op", "reason")):
            expectation = Expectation(**entry)
            served = expectation.operators == "*" or any(matches(name, expectation.operators) for name in serving)
            if served and matches(device, expectation.device) and matches(TORCH_MINOR, expectation.torch):
                found.append(expectation)
    return found


def match(expectations: Iterable[Expectation], case: Case) -> Expectation | None:
    """The first expectation that covers a case."""
    return next((expectation for expectation in expectations if expectation.covers(case)), None)
