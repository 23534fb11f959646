"""Failures that have an explanation. A failure without an entry fails a run, and so does an entry whose tests pass."""

from __future__ import annotations

import pathlib
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass

import torch

from torch_backend.conformance.expectations import matches
from torch_backend.pytorch_tests.result import TestName

SHIPPED = pathlib.Path(__file__).with_name("expected.toml")
KINDS = {
    "names a device": "the test assumes a device by its name",
    "pytorch": "PyTorch's own fault",
    "not offered": "not offered; the status page says so",
    "by design": "the device differs by design",
}
KEYS = {"file", "test", "kind", "reason", "driver", "torch", "source", "error"}


@dataclass(frozen=True)
class Expectation:
    """An expected failure. `file`, `test`, `driver`, `torch` and `source` are patterns of fnmatch, separated by commas.

    `test` is a class and a method without the device's name. `torch` and `source` are the minor versions of the
    installed PyTorch and of the tests. `error`, if given, must be a part of the failure's text.
    """

    file: str
    test: str
    kind: str
    reason: str
    driver: str = "*"
    torch: str = "*"
    source: str = "*"
    error: str = ""

    def covers(self, name: TestName) -> bool:
        return matches(name.file, self.file) and matches(name.test, self.test)

    def __str__(self) -> str:
        return f"{self.file} {self.test}"


def minor(version: str) -> str:
    return ".".join(version.split(".")[:2])


def load(paths: Iterable[pathlib.Path], driver: str, source: str) -> list[Expectation]:
    """The expectations of these files for a driver, a version of the tests, and the installed PyTorch.

    Raises:
        ValueError: an entry without file, test, kind or reason, with another kind, or with an unknown key.
    """
    found = []
    for path in paths:
        for number, entry in enumerate(tomllib.loads(path.read_text()).get("expected", []), start=1):
            unknown = set(entry) - KEYS
            missing = {key for key in ("file", "test", "kind", "reason") if not str(entry.get(key, "")).strip()}
            if unknown or missing:
                fault = f"unknown keys {sorted(unknown)}" if unknown else f"no {', '.join(sorted(missing))}"
                raise ValueError(f"{path}, [[expected]] number {number} has {fault}; keys are {sorted(KEYS)}")
            if entry["kind"] not in KINDS:
                raise ValueError(
                    f"{path}, [[expected]] number {number} has the kind {entry['kind']!r}, not one of {[*KINDS]}"
                )
            expectation = Expectation(**entry)
            if (
                matches(driver, expectation.driver)
                and matches(minor(torch.__version__), expectation.torch)
                and matches(minor(source), expectation.source)
            ):
                found.append(expectation)
    return found
