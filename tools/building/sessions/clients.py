"""The sessions that run other packages, unmodified, on tb."""

from __future__ import annotations

import argparse
import functools

import nox
from clients.versions import CLIENTS, OF_RELEASES, WITH_TORCHVISION

from building.environments import Environment
from building.packages import ROOT
from building.testing import PACKAGES, run_all, run_module, wheels
from building.torch_versions import chosen_minor

REPORT = ROOT / "build" / "clients" / "report.json"
RELEASES = ROOT / "build" / "clients" / "releases"
PAGE = ROOT / "docs" / "clients.md"


@nox.session(name="check-client-releases")
def client_releases(session: nox.Session) -> None:
    """Whether the last ten releases of each client find tb. `-- NAME...`, `-- --last N`, `-- --record`.

    It downloads 400 MB. Each release is kept in build/clients/releases. --record writes the table to docs/clients.md.
    """
    arguments = [f"--page={PAGE}" if argument == "--record" else argument for argument in session.posargs]
    run_module(session, _environment(session), "clients.releases", f"--folder={RELEASES}", *arguments)


@nox.session
def clients(session: nox.Session) -> None:
    """Other packages, unmodified, on tb against the CPU. `-- NAME...`, `-- -k TEXT`, `-- --record`. Downloads 250 MB.

    The results are in build/clients/report.json; --record also writes them to docs/clients.md.
    """
    parser = argparse.ArgumentParser(prog="nox -s clients --", description=clients.__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {' '.join(CLIENTS)} (default: all)")
    parser.add_argument("-k", dest="text", default="", help="only checks whose name has this text")
    parser.add_argument("--record", action="store_true", help=f"write the results to {PAGE.relative_to(ROOT)}")
    chosen = parser.parse_args(session.posargs)
    unknown = [name for name in chosen.names if name not in CLIENTS]
    if unknown:
        session.error(f"there are no checks for {', '.join(unknown)}; there are some for {', '.join(CLIENTS)}")
    names = chosen.names or list(CLIENTS)

    def check(environment: Environment, some: list[str]) -> None:
        run_module(session, environment, "clients", *some, "-k", chosen.text, "--json", str(REPORT))

    vision = [name for name in names if name in WITH_TORCHVISION]
    others = [name for name in names if name not in WITH_TORCHVISION]
    tasks = {}
    if others:
        tasks["clients"] = functools.partial(check, _environment(session), others)
    if vision:
        tasks["clients with torchvision"] = functools.partial(check, _vision_environment(session), vision)
    try:
        run_all(session, tasks)
    finally:
        if chosen.record:
            run_module(session, _environment(session), "clients.page", str(REPORT), str(PAGE))


def _environment(session: nox.Session) -> Environment:
    """All clients but those that need torchvision, with all of our packages, and what only older releases need."""
    requirements = [need for name, need in CLIENTS.items() if name not in WITH_TORCHVISION] + OF_RELEASES
    return Environment("clients", torch=True).prepare(session, requirements, wheels(session, PACKAGES))


def _vision_environment(session: nox.Session) -> Environment:
    """The clients that need torchvision, which declares one exact torch and so comes without what it declares."""
    declared = ["numpy", "pillow", "pyyaml", "huggingface_hub", "safetensors"]
    environment = Environment("clients-vision", torch=True).prepare(session, declared, wheels(session, PACKAGES))
    torchvision = f"torchvision==0.{int(chosen_minor().split('.')[1]) + 15}.*"  # its minor numbers are torch's and 15
    environment.install(session, "--no-deps", torchvision, *(CLIENTS[name] for name in WITH_TORCHVISION))
    return environment
