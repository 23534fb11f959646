"""The session that runs every public name of PyTorch on tb, and writes the page of what works."""

from __future__ import annotations

import argparse
import pathlib

import nox

from building.packages import ROOT
from building.testing import everything

BUILD = ROOT / "build" / "api-coverage"
PAGE = ROOT / "docs" / "results" / "api-coverage.md"
RECORDED = ["cpu", "sim"]


@nox.session(name="api-coverage")
def api_coverage(session: nox.Session) -> None:
    """Which public names of PyTorch are native, on the drivers cpu and sim. `-- --driver NAME...`, `-- --record`.

    The reports and a page are in build/api-coverage; --record writes docs/results/api-coverage.md, from cpu and sim.
    Other arguments are those of `python -m torch_backend.api_coverage`.
    """
    parser = argparse.ArgumentParser(prog="nox -s api-coverage --", description=api_coverage.__doc__)
    parser.add_argument("--driver", action="append", metavar="NAME", help="as TB_DRIVER has it (default cpu and sim)")
    parser.add_argument("--record", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    chosen, rest = parser.parse_known_args(session.posargs)
    drivers = chosen.driver or RECORDED
    if chosen.record and (drivers != RECORDED or "--name" in rest):
        session.error(f"the page of the repository is for all names on {' and '.join(RECORDED)}: leave out the others")
    environment = everything(session)
    reports = []
    for driver in drivers:
        report = BUILD / f"{pathlib.Path(driver).stem}.json"
        command = ["python", "-m", "torch_backend.api_coverage", "--json", str(report), *rest]
        environment.run(session, *command, env={"TB_DRIVER": driver})
        reports.append(str(report))
    page = PAGE if chosen.record else BUILD / "page.md"
    environment.run(session, "python", "-m", "torch_backend.api_coverage.page", *reports, str(page))
