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
# Of the CPU driver's device. Tests that need more are skipped, on machines of any size.
MEMORY = "8G"
DRIVERS = ("cpu", "sim", "opencl")
# What the gate runs, in two minutes.
OF_GATE = ["test_torch", "test_view_ops", "test_indexing", "test_sort_and_select", "test_reductions", "test_autograd"]
OF_GATE += ["--sample", "40", "--time-limit", "120", "--restart"]
PAGE = ROOT / "docs" / "results" / "pytorch-tests.md"
# What PyTorch's tests import besides.
NEEDS = ["expecttest", "hypothesis", "numpy", "psutil", "pyyaml", "scipy", "networkx"]


@nox.session(name="pytorch-tests")
def pytorch_tests(session: nox.Session) -> None:
    """PyTorch's own test files. `-- FILE...`, `-- --driver NAME`, `-- --quick`, `-- --source FOLDER`, `-- --broken`.

    `--gate`: a sample of two minutes, and nothing where apt does not have the sources. `--record` writes the page of
    results from the last runs of all drivers.

    Without --source the tests are those of a source package of Debian, which is fetched by apt (27 MB). Other arguments
    are those of `python -m torch_backend.pytorch_tests`. A run that was stopped goes on; --restart begins again.
    """
    parser = argparse.ArgumentParser(prog="nox -s pytorch-tests --", description=pytorch_tests.__doc__)
    parser.add_argument("--source", type=pathlib.Path, metavar="FOLDER", help="a checkout of PyTorch")
    parser.add_argument("--driver", default="cpu", metavar="NAME", help="as TB_DRIVER has it (default cpu)")
    parser.add_argument("--broken", action="store_true", help="whether each of five broken kernels is found")
    parser.add_argument("--gate", action="store_true", help="a sample of two minutes, if apt has the sources")
    parser.add_argument("--record", action="store_true", help=f"write {PAGE.relative_to(ROOT)} of all drivers that ran")
    chosen, rest = parser.parse_known_args(session.posargs)
    BUILD.mkdir(parents=True, exist_ok=True)
    try:
        source = chosen.source or SOURCES.fetch(BUILD)
    except SourceUnavailable as error:
        if chosen.gate:
            session.log(f"NOT RUN: {error}")
            return
        session.error(f"{error}. Or name a checkout of PyTorch by --source FOLDER")
    environment = Environment("pytorch-tests", torch=True).prepare(
        session, [*EVERYTHING, *NEEDS], wheels(session, PACKAGES)
    )
    command = ["torch_backend.pytorch_tests", "--source", str(source), *rest]
    variables = {"TB_DRIVER": chosen.driver, "TB_CPU_MEMORY": MEMORY}
    if chosen.broken:
        command = ["broken_kernels", str(BUILD / "broken"), *command, "--restart", "--exitfirst"]
        variables |= {"PYTHONPATH": str(ROOT / "tools")}
    else:
        part = "-gate" if chosen.gate else "-quick" if "--quick" in rest else ""
        command += OF_GATE if chosen.gate else []
        command += ["--results", str(BUILD / (pathlib.Path(chosen.driver).stem + part))]
    try:
        environment.run(session, "python", "-m", *command, env=variables)
    finally:
        if chosen.record:
            _record(session, environment)


def _record(session: nox.Session, environment: Environment) -> None:
    """Writes the page of results from the reports of all drivers."""
    reports = [str(path) for driver in DRIVERS if (path := BUILD / driver / "report.json").exists()]
    with PAGE.open("w") as page:
        environment.run(session, "python", "-m", "torch_backend.pytorch_tests.results_page", *reports, stdout=page)
