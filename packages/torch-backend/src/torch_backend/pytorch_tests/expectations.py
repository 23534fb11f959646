"""Failures that have an explanation. A failure without an entry fails a run, and so does an entry whose tests pass."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from torch_backend.conformance.expectations import TORCH_MINOR, entries, matches
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


def load(
    paths: Iterable[pathlib.Path], driver: str, source: str, kinds: Mapping[str, str] = KINDS
) -> list[Expectation]:
    """The expectations of these files for a driver, a version of the tests, and the installed PyTorch.

    Raises:
        ValueError: an entry without file, test, kind or reason, with another kind, or with an unknown key.
    """
    found = []
    source_minor = ".".join(source.split(".")[:2])
    for path in paths:
        for where, entry in entries(path, KEYS, ("file", "test", "kind", "reason")):
            if entry["kind"] not in kinds:
                raise ValueError(f"{where} has the kind {entry['kind']!r}, not one of {[*kinds]}")
            expectation = Expectation(**entry)
            if (
                matches(driver, expectation.driver)
                and matches(TORCH_MINOR, expectation.torch)
                and matches(source_minor, expectation.source)
            ):
                found.append(expectation)
    return found
