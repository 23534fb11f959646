"""The result of a test, and the log of a run, from which a run goes on that was stopped."""

from __future__ import annotations

import json
import pathlib
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, TextIO

PASSED = "passed"
FAILED = "failed"
SKIPPED = "skipped"
# PyTorch's own list says that the test fails on this device or on all.
XFAILED = "xfailed"
# Why a test of the process's accelerator counts as skipped although it passes.
UNUSED = "it passes without the device"


class TestName(NamedTuple):
    """A file without ".py", relative to PyTorch's `test`; a class and a method without the device's name."""

    file: str
    test: str

    def __str__(self) -> str:
        return f"{self.file} {self.test}"


@dataclass(frozen=True)
class Result:
    """What happened to a test.

    `text`: the error in one line, or why PyTorch skipped the test. `trace`: the error whole. `cpu`: what the same test
    does on stock CPU, asked where it fails on the device; None if there is none for the CPU. `fallbacks`: the operators
    that ran on the CPU instead; None if the device does not report them.
    """

    name: TestName
    outcome: str
    text: str = ""
    trace: str = ""
    cpu: str | None = None
    seconds: float = 0.0
    fallbacks: list[str] | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(fields: dict[str, Any]) -> Result:
        return Result(**(fields | {"name": TestName(*fields["name"])}))


class Log:
    """Results and the lists of tests of a run in a file, a JSON object each line. The first line says what is run."""

    def __init__(self, path: pathlib.Path, run: dict[str, Any], *, afresh: bool = False) -> None:
        """Opens the log. What an earlier run of the same things left in it is read, unless `afresh`.

        Raises:
            ValueError: the log is of another run.
        """
        self.listed: dict[str, list[str]] = {}
        self.results: dict[TestName, Result] = {}
        if not afresh and path.exists() and path.stat().st_size:
            self._read(path, run)
            self._file: TextIO = path.open("a")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("w")
            self._write({"run": run})

    def _read(self, path: pathlib.Path, run: dict[str, Any]) -> None:
        lines = path.read_text().splitlines()
        before = json.loads(lines[0])["run"]
        if before != run:
            other = [f"{key} was {before.get(key)!r}" for key in run if before.get(key) != run[key]]
            raise ValueError(
                f"{path} has the results of another run ({'; '.join(other)}). Give --results another folder, or "
                "--restart to begin again"
            )
        for line in lines[1:]:
            try:
                record = json.loads(line)
            except ValueError:  # the run was stopped within a line
                continue
            if "listed" in record:
                self.listed[record["listed"]] = record["tests"]
            else:
                result = Result.from_json(record)
                self.results[result.name] = result

    def _write(self, record: dict[str, Any]) -> None:
        self._file.write(json.dumps(record) + "\n")
        self._file.flush()

    def list_file(self, file: str, tests: list[str]) -> None:
        self.listed[file] = tests
        self._write({"listed": file, "tests": tests})

    def add(self, result: Result) -> None:
        self.results[result.name] = result
        self._write(result.to_json())

    def forget_failures(self) -> None:
        """Drops the results of tests that fail on the device alone; their next ones take the place."""
        for result in [*self.results.values()]:
            if result.outcome == FAILED and result.cpu != FAILED:
                del self.results[result.name]

    def close(self) -> None:
        self._file.close()
