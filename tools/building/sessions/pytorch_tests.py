"""The session that runs PyTorch's own test files on tb."""

from __future__ import annotations

import argparse
import pathlib

import nox

from building.environments import Environment
from building.packages import ROOT
from building.source_archives import SourceArchive, SourceUnavailable
from building.testing import EVERYTHING, PACKAGES, wheels

BUILD = ROOT / "build" / "pytorch-tests"
SOURCES = SourceArchive(
    "pytorch_2.6.0+dfsg.orig.tar.xz",
    "099a9601bc40d67656e75735c44abedb0fbe92d08817852ab7472eebb7e6ddff",
    requirement="pytorch=2.6.0+dfsg-7",
    debian="trixie",
)
# What PyTorch's tests import besides.
NEEDS = ["expecttest", "hypothesis", "numpy", "psutil", "pyyaml", "scipy", "networkx"]


@nox.session(name="pytorch-tests")
def pytorch_tests(session: nox.Session) -> None:
    """PyTorch's own test files. `-- FILE...`, `-- --driver NAME`, `-- --quick`, `-- --source FOLDER`.

    Without --source the tests are those of a source package of Debian, which is fetched by apt (27 MB). Other arguments
    are those of `python -m torch_backend.pytorch_tests`. A run that was stopped goes on; --restart begins again.
    """
    parser = argparse.ArgumentParser(prog="nox -s pytorch-tests --", description=pytorch_tests.__doc__)
    parser.add_argument("--source", type=pathlib.Path, metavar="FOLDER", help="a checkout of PyTorch")
    parser.add_argument("--driver", default="cpu", metavar="NAME", help="as TB_DRIVER has it (default cpu)")
    chosen, rest = parser.parse_known_args(session.posargs)
    BUILD.mkdir(parents=True, exist_ok=True)
    try:
        source = chosen.source or SOURCES.fetch(BUILD)
    except SourceUnavailable as error:
        session.error(f"{error}. Or name a checkout of PyTorch by --source FOLDER")
    environment = Environment("pytorch-tests", torch=True).prepare(
        session, [*EVERYTHING, *NEEDS], wheels(session, PACKAGES)
    )
    results = BUILD / f"{pathlib.Path(chosen.driver).stem}{'-quick' if '--quick' in rest else ''}"
    command = ["python", "-m", "torch_backend.pytorch_tests", "--source", str(source), "--results", str(results), *rest]
    environment.run(session, *command, env={"TB_DRIVER": chosen.driver})
