"""The same wheels beside each supported torch."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable

import nox

from building.environments import Target
from building.packages import ROOT, Package
from building.results import RECORDED, Results, record
from building.testing import (
    PACKAGES,
    Installation,
    component_tests,
    quick_conformance,
    run_all,
    run_module,
    run_pytest,
)
from building.torch_versions import MINORS, OLDEST, in_order

LINKED = [package for package in PACKAGES.values() if package.links_torch]


def _arguments(session: nox.Session) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="nox -s torch-matrix --", description=torch_matrix.__doc__)
    parser.add_argument("minors", nargs="*", metavar="MINOR", help=f"a minor version (default: {' '.join(MINORS)})")
    parser.add_argument("--try", action="store_true", dest="attempt", help="also minors beyond the supported range")
    parser.add_argument("--short", action="store_true", help="tb-amp's tests, the doctor and 20 steps only")
    parser.add_argument("--record", action="store_true", help=f"write the results to {RECORDED.relative_to(ROOT)}")
    chosen = parser.parse_args(session.posargs)
    chosen.minors = chosen.minors or list(MINORS)
    unknown = [minor for minor in chosen.minors if minor not in MINORS]
    if unknown and not chosen.attempt:
        session.error(f"torch {', '.join(unknown)}: the packages support {', '.join(MINORS)}. --try runs others")
    return chosen


@nox.session(name="torch-matrix")
def torch_matrix(session: nox.Session) -> None:
    """One set of wheels beside each torch: tests, conformance, demo. `-- MINOR...`, `--short`, `--try`.

    The wheels have extensions for the oldest supported torch and for those that are named.
    """
    chosen = _arguments(session)
    minors = tuple(in_order({OLDEST, *chosen.minors}))
    results: dict[str, Results] = {}

    def run(minor: str) -> None:
        target = Target(torch=minor)
        results[minor] = Results(f"torch-{minor}", target.python.version)
        _run(session, results[minor], Installation(target, minors), chosen.short)

    try:
        run_all(session, {f"torch {minor}": functools.partial(run, minor) for minor in chosen.minors})
    finally:
        for minor, result in results.items():
            session.log(f"torch {result.torch or minor}: {result.line()}")
        if chosen.record:
            record(list(results.values()))


def _run(session: nox.Session, results: Results, installation: Installation, short: bool) -> None:
    environment = installation.everything(session)
    results.torch = environment.version_of("torch")

    def component(package: Package) -> None:
        component_tests(session, package, [f"--junit-xml={results.reports / package.name}.xml"], installation)

    def integration() -> None:
        # Those of tools do not depend on the torch, and take long.
        arguments = ["-n", "2", "--dist", "loadfile", "--ignore=tests/tools"]
        run_pytest(session, environment, "tests", [*arguments, f"--junit-xml={results.reports / 'integration'}.xml"])

    def conformance() -> None:
        quick_conformance(session, environment, results.reports / "conformance")

    def demo() -> None:
        arguments = ["--untimed", "--steps", "20" if short else "40", "--sample", "20"]
        run_module(session, environment, "examples.demo", *arguments)

    def doctor() -> None:
        environment.run(session, "python", "-m", "torch_backend")

    tasks: dict[str, Callable[[], None]] = {"doctor": doctor, "demo": demo}
    tasks |= {package.name: functools.partial(component, package) for package in (LINKED[:1] if short else LINKED)}
    if not short:
        tasks |= {"conformance": conformance, "integration": integration}
    results.run(session, tasks)
