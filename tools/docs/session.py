"""The nox session, which runs each step in its environment.

The public names and the table of torch.cuda's names come from the installed packages, so those steps run in an
environment with torch. The pages need the generator and the sources only, so that step runs without torch.
"""

from __future__ import annotations

import nox
from building.environments import Environment
from building.packages import ROOT

GENERATOR = ["sphinx==9.0.*", "myst-parser==5.2.*", "furo==2025.12.*", "griffelib==2.4.*"]
TOOLS_ON_PATH = {"PYTHONPATH": str(ROOT / "tools")}


def build_site(session: nox.Session, installed: Environment) -> None:
    """Renders the site and checks it. installed: an environment that has all packages.

    `-- --write` writes docs/torch-cuda-names.md from the installed torch instead of checking that it is current.
    """
    names = ROOT / "build" / "docs" / "public_names.json"
    names.parent.mkdir(parents=True, exist_ok=True)
    # Nothing here opens a driver. The cpu driver is set so that no page can depend on the machine.
    here = {**TOOLS_ON_PATH, "TB_DRIVER": "cpu"}
    installed.run(session, "python", "-m", "docs.public_names", str(names), env=here)
    installed.run(session, "python", "-m", "docs.cuda_names", *session.posargs, env=here)
    generator = Environment("docs").prepare(session, GENERATOR)
    generator.run(session, "python", "-m", "docs", str(names), env=TOOLS_ON_PATH)
