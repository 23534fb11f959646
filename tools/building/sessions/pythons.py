"""The wheels that one Python has built, on every CPython of this machine."""

from __future__ import annotations

import argparse
import functools

import nox

from building.environments import Target
from building.interpreters import NEWEST, OLDEST, Interpreter, interpreters
from building.packages import ROOT, Package
from building.results import RECORDED, Results, record
from building.testing import PACKAGES, Installation, component_tests, run_all
from building.torch_versions import MINORS, in_order
from building.torch_versions import OLDEST as OLDEST_TORCH

REQUIRED = (11, 12)  # minor versions that have to be there


@nox.session(name="python-matrix")
def python_matrix(session: nox.Session) -> None:
    """The packages without torch on each CPython from 3.11 on. `-- FOLDER...` for others than those of PATH and pyenv.

    `--torch MINOR`: those with torch instead, beside that torch.
    """
    parser = argparse.ArgumentParser(prog="nox -s python-matrix --", description=python_matrix.__doc__)
    parser.add_argument("folders", nargs="*", metavar="FOLDER", help="a folder that contains a python3")
    parser.add_argument("--torch", choices=MINORS, help="the packages that link torch, beside this one")
    parser.add_argument("--only", metavar="3.N", help="on this Python only")
    parser.add_argument("--record", action="store_true", help=f"write the results to {RECORDED.relative_to(ROOT)}")
    chosen = parser.parse_args(session.posargs)
    found = interpreters(chosen.folders)
    if missing := [f"3.{number}" for number in REQUIRED if number not in found]:
        session.error(f"no CPython {' and '.join(missing)} on PATH or in pyenv: give its folder after --")
    if chosen.only:
        found = {number: python for number, python in found.items() if python.name == chosen.only}
        if not found:
            session.error(f"no CPython {chosen.only} on PATH or in pyenv: give its folder after --")
    results: dict[int, Results] = {}

    def run(python: Interpreter) -> None:
        results[python.minor] = Results(f"python-{python.name}", python.version)
        _run(session, results[python.minor], python, chosen.torch)

    try:
        run_all(session, {f"Python {python.version}": functools.partial(run, python) for python in found.values()})
    finally:
        for number in range(OLDEST, NEWEST + 1):
            said = results[number].line() if number in results else "not asked for" if chosen.only else "not found"
            session.log(f"Python {found[number].version if number in found else f'3.{number}'}: {said}")
        if chosen.record:
            record(list(results.values()))


def _run(session: nox.Session, results: Results, python: Interpreter, torch: str | None) -> None:
    if torch:
        installation = Installation(Target(python, torch), tuple(in_order({OLDEST_TORCH, torch})))
        results.torch = installation.everything(session).version_of("torch")
    else:
        installation = Installation(Target(python))

    def component(package: Package) -> None:
        component_tests(session, package, [f"--junit-xml={results.reports / package.name}.xml"], installation)

    packages = [package for package in PACKAGES.values() if package.uses_torch == bool(torch)]
    results.run(session, {package.name: functools.partial(component, package) for package in packages})
