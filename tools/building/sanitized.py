"""Builds for a sanitizer, and copies of installed packages whose extensions are of such a build.

In a copy only the extensions of EXTENSIONS are replaced. Python, torch and its OpenMP have no instrumentation.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
from collections.abc import Iterable, Mapping

import nox

from building.environments import Environment
from building.packages import ROOT, Package
from building.wheels import build_environment

EXTENSIONS = ("_core.abi3.so", "_distributed.abi3.so")

# A prefix of commands that switches off address randomisation, if the system allows it. With many random bits in
# addresses ThreadSanitizer's runtime cannot map its memory, and only root may read how many there are.
LESS_RANDOM = ["setarch", "-R"]
if not shutil.which("setarch") or subprocess.run([*LESS_RANDOM, "true"], capture_output=True).returncode:
    LESS_RANDOM = []


def configured(session: nox.Session, environment: Environment, package: Package, sanitizer: str) -> pathlib.Path:
    """The build folder of a package for a sanitizer, GCC's "thread" or "address,undefined". Nothing is compiled yet."""
    folder = _folder(sanitizer) / package.name
    # Most of the time is the compiler's. Reports need line tables only, and exact stacks no optimisation. That is given
    # as an argument too, which is later on the command line than what targets choose.
    arguments = ["-g1", "-O0"]
    options = ["-Doptimization=0", "-Ddebug=false", "-Db_lundef=false", f"-Db_sanitize={sanitizer}"]
    if package.links_torch:
        # It does not export the type information that the check of object types needs, and has no assertions: some of
        # its classes have more members with them.
        arguments.append("-fno-sanitize=vptr")
        options.append("-Db_ndebug=true")
    else:
        options += ["-Db_ndebug=false", "-Dnative_tests=true"]
    environment.configure(session, folder, package.directory, *options, f"-Dcpp_args={arguments}")
    return folder


def _folder(sanitizer: str) -> pathlib.Path:
    return ROOT / "build" / f"sanitize-{sanitizer.replace(',', '-')}"


def overlay(
    session: nox.Session, packages: Mapping[str, Package], names: Iterable[str], sanitizer: str, installed: Environment
) -> pathlib.Path:
    """A folder for PYTHONPATH with copies of these packages of `installed`, whose extensions are instrumented.

    Arguments:
        sanitizer: GCC's name, "thread" or "address,undefined".
    """
    place = _folder(sanitizer) / "overlay"
    for name in names:
        package = packages[name]
        environment = build_environment(session, packages, package)
        build = configured(session, environment, package, sanitizer)
        target = place / package.module
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(installed.site_packages / package.module, target)
        extensions = [path for path in target.rglob("*.abi3.so") if path.name in EXTENSIONS]
        names_of_files = [path.name for path in extensions]
        environment.run(session, "ninja", f"-j{os.cpu_count() or 1}", "-C", str(build), *names_of_files, silent=True)
        for extension in extensions:
            shutil.copy2(build / extension.name, extension)
    return place


def preloaded(sanitizer: str) -> str:
    """The value of LD_PRELOAD for a Python that loads instrumented extensions.

    Python links neither the sanitizer's library, which must be loaded first, nor libstdc++, whose functions that
    library wraps when the process starts.
    """
    names = ("libtsan.so",) if sanitizer == "thread" else ("libasan.so", "libubsan.so")
    compiler = os.environ.get("CXX", "c++")
    found = []
    for name in (*names, "libstdc++.so"):
        command = [compiler, f"-print-file-name={name}"]
        path = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        if not os.path.isabs(path):  # for an unknown name the compiler prints the name
            raise LookupError(f"{compiler} has no {name}: install its sanitizer libraries")
        found.append(os.path.realpath(path))
    return " ".join(found)
