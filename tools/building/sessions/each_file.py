"""The session that compiles C++ files one by one, as wheels do not (shared/units/meson.build)."""

from __future__ import annotations

import os

import nox

from building.packages import ROOT
from building.testing import PACKAGES
from building.wheels import build_environment


@nox.session(name="each-file")
def each_file(session: nox.Session) -> None:
    """Compile each C++ file by itself: it includes what it uses, whatever else is compiled with it."""
    grouped = [p for p in PACKAGES.values() if "subdir('shared/units')" in (p.directory / "meson.build").read_text()]
    if not grouped:
        session.error("no package compiles files together: this session has nothing to prove")
    for package in grouped:
        environment = build_environment(session, PACKAGES, package)
        folder = ROOT / "build" / "each-file" / package.name
        options = ["-Deach_file=true", "-Doptimization=0", "-Ddebug=false"]
        environment.configure(session, folder, package.directory, *options)
        environment.run(session, "ninja", f"-j{os.cpu_count() or 1}", "-k0", "-C", str(folder))
