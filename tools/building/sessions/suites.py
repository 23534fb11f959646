"""The session that runs test suites of other libraries on tb."""

from __future__ import annotations

import argparse
import functools
import pathlib

import nox
from suites.suite import Suite, load

from building.environments import Environment
from building.packages import ROOT
from building.source_archives import SourceUnavailable
from building.testing import PACKAGES, PYTEST, run_all, run_module, wheels
from building.torch_versions import chosen_minor

BUILD = ROOT / "build" / "suites"
PAGE = ROOT / "docs" / "results" / "suites.md"


@nox.session
def suites(session: nox.Session) -> None:
    """Test suites of other libraries, unmodified, on tb. `-- NAME...`, `-- --driver NAME`, `-- -k TEXT`, `-- --record`.

    Their tests come from PyPI and Debian (20 MB). The results are in build/suites/DRIVER/report.json; --record also
    writes docs/results/suites.md.
    """
    table, absent = load()
    parser = argparse.ArgumentParser(prog="nox -s suites --", description=suites.__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {' '.join(table)} (default: all)")
    parser.add_argument("--driver", default="cpu", metavar="NAME", help="as TB_DRIVER has it (default cpu)")
    parser.add_argument("-k", dest="text", default="", help="only tests that pytest's -k finds; nothing is recorded")
    parser.add_argument("--judge", action="store_true", help="run nothing: compare the last results with the entries")
    parser.add_argument("--record", action="store_true", help=f"write the results to {PAGE.relative_to(ROOT)}")
    chosen = parser.parse_args(session.posargs)
    for name in chosen.names:
        if name in absent:
            session.error(f"{name} has no tests to be had: {absent[name]}")
        if name not in table:
            session.error(f"there is no suite {name}; there are {', '.join(table)}")
    names = chosen.names or list(table)
    driver = str(pathlib.Path(chosen.driver).resolve()) if "/" in chosen.driver else chosen.driver
    report = BUILD / pathlib.Path(chosen.driver).stem / "report.json"

    def check(suite: Suite) -> None:
        try:
            source = suite.source().fetch(BUILD / "archives")
        except SourceUnavailable as error:
            raise nox.command.CommandFailed(f"{suite.name}: {error}") from None
        command = ["python", "-m", "suites", suite.name, "--source", str(source), "--json", str(report)]
        command += ["--judge"] if chosen.judge else []
        variables = {"PYTHONPATH": str(ROOT / "tools"), "TB_DRIVER": driver}
        _environment(session, suite).run(session, *command, "-k", chosen.text, env=variables)

    try:
        run_all(session, {name: functools.partial(check, table[name]) for name in names})
    finally:
        if chosen.record:
            run_module(session, _environment(session, table[names[0]]), "suites.page", str(report), str(PAGE))


def _environment(session: nox.Session, suite: Suite) -> Environment:
    """An environment with the library, what its tests import, and all of our packages. torch stays as it is."""
    needs = [f"torch=={chosen_minor()}.*", PYTEST, *suite.needs]
    return Environment(f"suite-{suite.name}", torch=True).prepare(session, needs, wheels(session, PACKAGES))
