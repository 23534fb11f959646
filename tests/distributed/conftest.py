"""The fixture that runs cases of programs, many in one set of processes, and gives each test its results."""

from __future__ import annotations

import importlib
import json
import pathlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from _pytest.mark import ParameterSet

from distributed.ranks import Run, run_ranks

FAILURES = 4  # after so many failed cases the rest of a program is not started again


@dataclass(frozen=True)
class Chosen:
    """A case of a program, with a number of ranks."""

    program: str
    ranks: int
    name: str


def cases_of(program: str, ranks: tuple[int, ...] = (2,), but: tuple[str, ...] = ()) -> list[ParameterSet]:
    """The parameters `case` of a test: all cases of tests/distributed/programs/PROGRAM.py, without those of `but`."""
    names = importlib.import_module(f"distributed.programs.{program}").CASES
    chosen = [Chosen(program, count, name) for count in ranks for name in names if name not in but]
    return [pytest.param(case, id=f"{case.name}-{case.ranks}") for case in chosen]


@dataclass(frozen=True)
class Outcome:
    """What the ranks wrote about a case, in the order of ranks."""

    run: Run
    lines: tuple[Mapping[str, Any], ...]

    def values(self) -> list[Any]:
        """What the case returned on each rank. AssertionError: it failed on some."""
        errors = [f"rank {rank}: {line['error']}" for rank, line in enumerate(self.lines) if "error" in line]
        assert not errors, "\n".join([*errors, self.run.text])
        return [line["value"] for line in self.lines]


class CaseRuns:
    """Runs the chosen cases of a program at the first question for one of them."""

    def __init__(
        self, chosen: list[Chosen], folder: pathlib.Path, env: Mapping[str, str], seconds: float, forked: bool
    ) -> None:
        self.chosen, self.folder, self.env, self.seconds, self.forked = chosen, folder, env, seconds, forked
        self.outcomes: dict[Chosen, Outcome] = {}
        self.ends: list[Run] = []

    def __call__(self, case: Chosen) -> list[Any]:
        """The values that the case returned, one of each rank."""
        if case not in self.outcomes:
            mates = [one for one in self.chosen if (one.program, one.ranks) == (case.program, case.ranks)]
            self._run(mates or [case])
        return self.outcomes[case].values()

    def _run(self, cases: list[Chosen]) -> None:
        """Runs the cases, and those after one that failed in new processes."""
        waiting, turns = list(cases), 0
        while waiting:
            program, ranks = waiting[0].program, waiting[0].ranks
            folder = self.folder / f"{program}-{ranks}-{turns}"
            folder.mkdir()
            arguments = ["--results", str(folder), *(case.name for case in waiting)]
            module = f"distributed.programs.{program}"
            ran = run_ranks(module, ranks, arguments, folder, seconds=self.seconds, env=self.env, forked=self.forked)
            written = [read_lines(folder / f"results.{rank}") for rank in range(ranks)]
            none = {"error": "not reached"}
            failed = False
            while waiting and not failed:
                case = waiting.pop(0)
                outcome = Outcome(ran, tuple(lines.get(case.name, none) for lines in written))
                self.outcomes[case] = outcome
                failed = any("error" in line for line in outcome.lines)
            if not failed:
                self.ends.append(ran)
            turns += 1
            if turns == FAILURES:
                given_up = {"error": f"not run: {FAILURES} cases of the program failed before"}
                self.outcomes |= {case: Outcome(ran, (given_up,) * ranks) for case in waiting}
                waiting = []


def read_lines(path: pathlib.Path) -> dict[str, Mapping[str, Any]]:
    """The last line of each case."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {line["case"]: line for line in map(json.loads, lines)}


@pytest.fixture(scope="module")
def case_runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CaseRuns]:
    """Runs cases with the module's ENV, SECONDS and FORKED (see run_ranks).

    At the end every run whose cases passed must have ended well.
    """
    mine = [item for item in request.session.items if getattr(item, "module", None) is request.module]
    parameters = [item.callspec.params.get("case") for item in mine if hasattr(item, "callspec")]
    chosen = list(dict.fromkeys(case for case in parameters if isinstance(case, Chosen)))
    env, seconds = getattr(request.module, "ENV", {}), getattr(request.module, "SECONDS", 120)
    forked = getattr(request.module, "FORKED", True)
    runs = CaseRuns(chosen, tmp_path_factory.mktemp("ranks"), env, seconds, forked)
    yield runs
    for run in runs.ends:
        run.check()
