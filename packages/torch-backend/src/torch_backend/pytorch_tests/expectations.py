"""Failures that have an explanation. A failure without an entry fails a run, and so does an entry whose tests pass."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from torch_backend.conformance.expectations import TORCH_MINOR, entries, matches
from torch_backend.pytorch_tests.result import TestName

SHIPPED = pathlib.Path(__file__).with_name("expected.toml")
VENDORS = "pytorch_tests.toml"
KINDS = {
    "names a device": "the test assumes a device by its name",
    "another version": "the tests are of another version of PyTorch, where this differs",
    "pytorch": "PyTorch's own fault",
    "not offered": "not offered; the status page says so",
    "by design": "the device differs by design",
}
KEYS = {"file", "test", "kind", "reason", "driver", "torch", "source", "error", "strict"}


@dataclass(frozen=True)
class Expectation:
    """An expected failure. `file`, `test`, `driver`, `torch` and `source` are patterns of fnmatch, separated by commas.

    `test` is a class and a method without the device's name. `torch` and `source` are the minor versions of the
    installed PyTorch and of the tests. `error`, if given, must be a part of the failure's text. An entry without `test`
    is a cause, wherever a test fails with its error. One with `test` is wrong as soon as one of its tests passes,
    unless `strict` is false: they pass in some orders.
    """

    kind: str
    reason: str
    file: str = "*"
    test: str = "*"
    driver: str = "*"
    torch: str = "*"
    source: str = "*"
    error: str = ""
    strict: bool = True

    @property
    def names_tests(self) -> bool:
        return self.test != "*"

    def covers(self, name: TestName) -> bool:
        return matches(name.file, self.file) and matches(name.test, self.test)

    def __str__(self) -> str:
        return f"{self.file} {self.test if self.names_tests else self.error}"


def beside(library: str) -> list[pathlib.Path]:
    """The file with a vendor's own expectations in the folder of his driver's library, if there is one."""
    path = pathlib.Path(library).with_name(VENDORS) if library else None
    return [path] if path is not None and path.is_file() else []


def load(
    paths: Iterable[pathlib.Path], driver: str, source: str, kinds: Mapping[str, str] = KINDS
) -> list[Expectation]:
    """The expectations of these files for a driver, a version of the tests, and the installed PyTorch.

    Raises:
        ValueError: an entry without kind or reason, without both test and error, with another kind, or an unknown key.
    """
    found = []
    source_minor = ".".join(source.split(".")[:2])
    for path in paths:
        for where, entry in entries(path, KEYS, ("kind", "reason")):
            if "test" not in entry and "error" not in entry:
                raise ValueError(f"{where} has neither test nor error: it would cover every failure")
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
