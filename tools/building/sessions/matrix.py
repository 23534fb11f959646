"""The same wheels beside each supported torch, and on each CPython of this machine."""

from __future__ import annotations

import argparse
import datetime
import functools
import json
import os
import pathlib
import time
import xml.etree.ElementTree
from collections.abc import Callable, Sequence

import nox

from building.environments import Environment, Target
from building.interpreters import NEWEST, OLDEST, Interpreter, interpreters
from building.packages import ROOT, Package
from building.testing import PACKAGES, PYTHONPATH, Installation, run_all, run_pytest
from building.torch_versions import MINORS
from building.torch_versions import OLDEST as OLDEST_TORCH

REPORTS = ROOT / "build" / "matrix"
RESULTS = ROOT / "docs" / "results" / "compatibility.json"
REQUIRED = (11, 12)  # the minor versions of Python that have to be there
LINKED = [package for package in PACKAGES.values() if package.links_torch]


def _arguments(session: nox.Session) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="nox -s torch-matrix --", description=torch_matrix.__doc__)
    parser.add_argument("minors", nargs="*", metavar="MINOR", help=f"such as 2.14 (default: {' '.join(MINORS)})")
    parser.add_argument("--try", action="store_true", dest="attempt", help="also minors beyond the supported range")
    parser.add_argument("--short", action="store_true", help="wheels, the doctor, tb-amp's tests and 20 steps only")
    parser.add_argument("--record", action="store_true", help=f"write the results to {RESULTS.relative_to(ROOT)}")
    chosen = parser.parse_args(session.posargs)
    chosen.minors = chosen.minors or list(MINORS)
    unknown = [minor for minor in chosen.minors if minor not in MINORS]
    if unknown and not chosen.attempt:
        parser.error(f"torch {', '.join(unknown)}: the packages support {', '.join(MINORS)}. --try runs others")
    return chosen


@nox.session(name="torch-matrix")
def torch_matrix(session: nox.Session) -> None:
    """The tests of what links torch, with one set of wheels beside each torch. `-- 2.14 2.15`, `--short`, `-- --help`."""
    chosen = _arguments(session)
    rows: dict[str, Row] = {}
    minors = tuple(sorted({OLDEST_TORCH, *chosen.minors}, key=lambda minor: int(minor.split(".")[1])))

    def run(minor: str) -> None:
        row = rows[minor] = Row(session, Installation(Target(torch=minor), minors), chosen.short)
        row.run()

    try:
        run_all(session, {f"torch {minor}": functools.partial(run, minor) for minor in chosen.minors})
    finally:
        for minor, row in rows.items():
            session.log(f"torch {minor}: {row.line()}")
    if chosen.record:
        record(RESULTS, [row.facts() for row in rows.values()])


class Row:
    """What runs beside one torch, and what came of it."""

    def __init__(self, session: nox.Session, installation: Installation, short: bool) -> None:
        self.session = session
        self.installation = installation
        self.short = short
        self.torch = installation.target.torch
        self.reports = REPORTS / f"torch-{self.torch}"
        self.counts: dict[str, tuple[int, int]] = {}
        self.seconds = 0.0

    def run(self) -> None:
        started = time.monotonic()
        self.reports.mkdir(parents=True, exist_ok=True)
        for old in self.reports.iterdir():
            old.unlink()
        environment = self.installation.everything(self.session)
        self.torch = environment.version_of("torch")
        tests: dict[str, Callable[[], None]] = {
            package.name: functools.partial(self._component, package)
            for package in (LINKED[:1] if self.short else LINKED)
        }
        if not self.short:
            on_two = ["-n", "2", "--dist", "loadfile", "--ignore", "tests/tools"]
            tests["integration"] = functools.partial(self._pytest, environment, "integration", "tests", on_two)
            tests["conformance"] = functools.partial(self._conformance, environment)
        steps = "20" if self.short else "40"
        demo = ["python", "-m", "examples.demo", "--untimed", "--steps", steps, "--sample", "20"]
        tests["doctor"] = functools.partial(environment.run, self.session, "python", "-m", "torch_backend")
        tests["demo"] = functools.partial(environment.run, self.session, *demo, env={"PYTHONPATH": PYTHONPATH})
        try:
            run_all(self.session, {name: functools.partial(self._counted, name, test) for name, test in tests.items()})
        finally:
            self.seconds = time.monotonic() - started

    def _component(self, package: Package) -> None:
        environment = self.installation.component(self.session, package)
        self._pytest(environment, package.name, f"packages/{package.name}/tests", [])

    def _pytest(self, environment: Environment, name: str, tests: str, arguments: Sequence[str]) -> None:
        run_pytest(self.session, environment, tests, [*arguments, f"--junit-xml={self.reports / name}.xml"])

    def _conformance(self, environment: Environment) -> None:
        options = ["--device", "tb", "--profile", "quick", "--json", str(self.reports / "conformance.json")]
        on_cpu = {"TB_DRIVER": os.environ.get("TB_DRIVER", "cpu")}
        environment.run(self.session, "python", "-m", "torch_backend.conformance", *options, env=on_cpu)

    def _counted(self, name: str, test: Callable[[], None]) -> None:
        passed = False
        try:
            test()
            passed = True
        finally:
            self.counts[name] = counted(self.reports, name) or (int(passed), int(not passed))

    def line(self) -> str:
        results = ", ".join(f"{name} {passed} passed {failed} failed" for name, (passed, failed) in self.counts.items())
        return f"{self.torch}, {self.seconds:.0f} s: {results or 'nothing ran'}"

    def facts(self) -> dict[str, object]:
        return {
            "torch": self.torch,
            "python": self.installation.target.python.version,
            "date": datetime.date.today().isoformat(),
            "counts": {name: {"passed": passed, "failed": failed} for name, (passed, failed) in self.counts.items()},
        }


def counted(reports: pathlib.Path, name: str) -> tuple[int, int] | None:
    """(passed, failed) of a run, from the report that it wrote; None if there is none."""
    if (path := reports / f"{name}.xml").exists():
        suites = xml.etree.ElementTree.parse(path).getroot().iter("testsuite")
        numbers = [[int(suite.get(key, 0)) for key in ("tests", "skipped", "failures", "errors")] for suite in suites]
        tests, skipped, failures, errors = (sum(column) for column in zip(*numbers, strict=True))
        return tests - skipped - failures - errors, failures + errors
    if (path := reports / f"{name}.json").exists():
        checks = json.loads(path.read_text())["checks"].values()
        return sum(check["passed"] + check["xfailed"] for check in checks), sum(check["failed"] for check in checks)
    return None


def record(path: pathlib.Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Puts rows in place of those of the same Python and minor version of torch. Rows without torch are of Python alone."""

    def key(row: Mapping[str, Any]) -> tuple[str, str]:
        return minor(row["python"]), minor(row["torch"])

    old = json.loads(path.read_text()) if path.exists() else []
    new = {key(row) for row in rows}
    kept = [row for row in old if key(row) not in new]
    path.write_text(json.dumps(sorted([*kept, *rows], key=key), indent=1) + "\n")


def minor(version: str) -> str:
    """The minor version: "2.14.1+cu130" gives "2.14"; "" gives ""."""
    return ".".join(version.split("+")[0].split(".")[:2])


@nox.session(name="python-matrix")
def python_matrix(session: nox.Session) -> None:
    """The packages without torch on each CPython from 3.11 on: this one, of PATH, of pyenv. `-- FOLDER...` for more.

    `--torch 2.14`: also those with torch. `--record` writes the results to docs/results/compatibility.json.
    """
    parser = argparse.ArgumentParser(prog="nox -s python-matrix --", description=python_matrix.__doc__)
    parser.add_argument("folders", nargs="*", metavar="FOLDER", help="a folder that contains a python3")
    parser.add_argument("--torch", choices=MINORS, help="also the packages with torch, on this version")
    parser.add_argument("--record", action="store_true")
    chosen = parser.parse_args(session.posargs)
    found = interpreters(chosen.folders)
    if missing := [f"3.{number}" for number in REQUIRED if number not in found]:
        session.error(f"no CPython {' and '.join(missing)} on PATH or in pyenv: give its folder after --")
    rows = {number: PythonRow(session, python, chosen.torch) for number, python in found.items()}
    try:
        run_all(session, {f"Python {row.python.version}": row.run for row in rows.values()})
    finally:
        for number in range(OLDEST, NEWEST + 1):
            session.log(f"Python 3.{number}: {rows[number].line() if number in rows else 'not found, nothing ran'}")
    if chosen.record:
        record(RESULTS, [row.facts() for row in rows.values()])
