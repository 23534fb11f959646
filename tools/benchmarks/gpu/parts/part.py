"""The interface of a part of the report: it takes options on the command line, and writes a JSON document to a file."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

Outcome = Literal["passed", "failed", "not run"]


@dataclass(frozen=True)
class Aim:
    """An upper bound of a figure."""

    what: str
    found: float
    bound: float

    @property
    def met(self) -> bool:
        return self.found <= self.bound


@dataclass
class Result:
    """A part's result. `text` is one sentence, `rows` a table under `columns`. "not run" never counts as passed."""

    outcome: Outcome
    text: str
    columns: list[str] = field(default_factory=list)
    rows: list[list[str | float]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    aims: list[Aim] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "aims": [{**asdict(aim), "met": aim.met} for aim in self.aims]}


@dataclass(frozen=True)
class Options:
    """quick: run everything with as little work as possible; the figures mean nothing. seconds: the part's time limit.

    reference: the device that tb is compared with. image: the contract's kernels; None: the kit's own.
    """

    quick: bool
    seconds: float
    reference: str
    image: str | None


def main(description: str | None, part: Callable[[Options], Result]) -> int:
    """The main function of a part's program. An exception ends it with a traceback, which the report includes."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--reference", default="cuda")
    parser.add_argument("--image")
    asked = parser.parse_args()
    result = part(Options(asked.quick, asked.seconds, asked.reference, asked.image))
    asked.out.write_text(json.dumps(result.to_json()))
    return 0


def run_for_json(module: str, *arguments: str, environment: dict[str, str]) -> Any:
    """Runs a Python module and returns the JSON on its last line. RuntimeError with its output if it fails."""
    command = [sys.executable, "-m", module, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode or not done.stdout.strip():
        tail = (done.stdout + done.stderr)[-2000:]
        raise RuntimeError(f"{module} {' '.join(arguments)} ended with status {done.returncode}: {tail}")
    return json.loads(done.stdout.splitlines()[-1])
