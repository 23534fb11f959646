"""The session that compares what two versions of PyTorch offer to a backend."""

from __future__ import annotations

import os

import nox

from building.environments import Environment, Target, prepare_torch
from building.packages import ROOT
from building.testing import run_module
from building.torch_versions import MINORS

FOLDER = ROOT / "build" / "drift"


@nox.session
def drift(session: nox.Session) -> None:
    """What the newest supported torch offers that the oldest does not. `-- MINOR...`; one version: only our overrides.

    Fails if a virtual function of a class that ours derive from is neither overridden nor listed as left out.
    """
    minors = session.posargs or [MINORS[0], MINORS[-1]]
    needed = Environment("drift").prepare(session, ["numpy", "expecttest"])  # torch's databases of tests import these
    path = os.pathsep.join([str(ROOT / "tools"), str(needed.site_packages)])
    for minor in minors:
        torch = prepare_torch(session, Target(torch=minor))
        record = ["python", "-m", "drift", "record", str(FOLDER / f"{minor}.json")]
        torch.run(session, *record, env={"PYTHONPATH": path})
    run_module(session, needed, "drift", "report", str(FOLDER), *(str(FOLDER / f"{minor}.json") for minor in minors))
