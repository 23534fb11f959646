"""The packages' extensions once more, compiled for a sanitizer, laid over the installed packages.

Only the `_core` extensions are exchanged: Python, torch and its OpenMP stay as they are, without instrumentation.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
from collections.abc import Iterable, Mapping

import nox

from building.environments import Environment, build_environment
from building.packages import ROOT, Package

# Without optimisation and with line tables only: it halves the time to compile, and stacks are exact. The types of
# objects are not checked: torch hides what says what they are.
_ARGUMENTS = "-Dcpp_args=['-g1', '-fno-sanitize=vptr']"
_OPTIONS = ["-Doptimization=0", "-Ddebug=false", _ARGUMENTS, "-Db_lundef=false", "-Db_ndebug=false"]

# To put before a command: ThreadSanitizer's runtime cannot place its memory where addresses have many random bits. How
# many they have only root may read, so it goes wherever it can.
LESS_RANDOM = ["setarch", "-R"]
if not shutil.which("setarch") or subprocess.run([*LESS_RANDOM, "true"], capture_output=True).returncode:
    LESS_RANDOM = []


def overlay(
    session: nox.Session, packages: Mapping[str, Package], names: Iterable[str], sanitizer: str, installed: Environment
) -> pathlib.Path:
    """A folder to put first on PYTHONPATH: these packages as `installed` has them, with instrumented extensions.

    Arguments:
        sanitizer: as GCC names it: "thread", "address,undefined".
    """
    folder = ROOT / "build" / f"sanitize-{sanitizer.replace(',', '-')}"
    place = folder / "overlay"
    for name in names:
        package = packages[name]
        build = folder / f"{name}-extension"
        environment = build_environment(session, packages, package)
        if not (build / "build.ninja").exists():
            options = [f"-Db_sanitize={sanitizer}", *_OPTIONS]
            environment.run(session, "meson", "setup", str(build), str(package.directory), *options, silent=True)
        environment.run(session, "ninja", f"-j{os.cpu_count() or 1}", "-C", str(build), "_core.abi3.so", silent=True)
        target = place / package.module
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(installed.site_packages / package.module, target, ignore=shutil.ignore_patterns("_core*.so"))
        shutil.copy2(build / "_core.abi3.so", target)
    return place


def preloaded(sanitizer: str) -> str:
    """LD_PRELOAD for a Python that loads instrumented extensions.

    Python is linked to neither the sanitizer's library, which has to come first, nor libstdc++, whose functions the
    library wraps when the process starts.
    """
    names = ("libtsan.so",) if sanitizer == "thread" else ("libasan.so", "libubsan.so")
    compiler = os.environ.get("CXX", "c++")
    found = []
    for name in (*names, "libstdc++.so"):
        command = [compiler, f"-print-file-name={name}"]
        path = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
        if not os.path.isabs(path):  # the compiler repeats names that it does not know
            raise LookupError(f"{compiler} has no {name}: install its sanitizer libraries")
        found.append(os.path.realpath(path))
    return " ".join(found)
