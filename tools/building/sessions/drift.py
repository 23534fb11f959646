"""The session that compares what two versions of PyTorch offer to a backend."""

from __future__ import annotations

import os

import nox

from building.environments import Environment, prepare_torch
from building.packages import ROOT
from building.testing import run_module

OLDEST, NEWEST = "2.13", "2.15"  # the minor versions that are supported
FOLDER = ROOT / "build" / "drift"


@nox.session
def drift(session: nox.Session) -> None:
    """What the newest supported torch offers that the oldest does not. `-- 2.13 2.14`; one version: only our overrides.

    Fails if a virtual function of a class that ours derive from is neither overridden nor listed as left out.
    """
    minors = session.posargs or [OLDEST, NEWEST]
    needed = Environment("drift").prepare(session, ["numpy", "expecttest"])  # torch's databases of tests import these
    path = os.pathsep.join([str(ROOT / "tools"), str(needed.site_packages)])
    for minor in minors:
        prepare_torch(session, minor).run(
            session, "python", "-m", "drift", "record", str(FOLDER / f"{minor}.json"), env={"PYTHONPATH": path}
        )
    run_module(session, needed, "drift", "report", str(FOLDER), *(str(FOLDER / f"{minor}.json") for minor in minors))
