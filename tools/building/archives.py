"""Builds a package's source archive, and targets of its C++ tests."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Mapping

import nox

from building.job_slots import job_slots
from building.packages import ROOT, Package
from building.wheels import build_environment, keep_wheel, wheel, wheelhouse_folder


def source_archive(
    session: nox.Session, packages: Mapping[str, Package], package: Package, folder: pathlib.Path
) -> pathlib.Path:
    """Writes the source archive of what is committed to this folder."""
    environment = build_environment(session, packages, package)
    script = "import os, sys; from mesonpy import build_sdist; os.chdir(sys.argv[1]); print(build_sdist(sys.argv[2]))"
    environment.run(session, "python", "-c", script, str(package.directory), str(folder), silent=True)
    [archive] = folder.glob(f"{package.module}-*.tar.gz")
    return archive


def check_archive(
    session: nox.Session, packages: Mapping[str, Package], package: Package, *, keep: bool = False
) -> None:
    """Writes the source archive to build/sdist. A wheel that is built from it must have the tree's wheel's files.

    Arguments:
        keep: if wheelhouse/ has no wheel of these sources yet, the archive's becomes it, and is compiled as the tree's
            would be. There is nothing to compare it with then; what uses it finds what it lacks.
    """
    environment = build_environment(session, packages, package)
    folder, _ = wheelhouse_folder(package, environment)
    keep = keep and not folder.exists()
    if keep and not _committed(package):
        session.error(f"{package.name} has changes that are not committed and would not be in a wheel of its archive")
    # The check compares file names only, so the build may skip optimisation.
    optimisation = [] if keep else ["-C", "setup-args=-Doptimization=0"]
    with tempfile.TemporaryDirectory() as scratch:
        place = pathlib.Path(scratch)
        archive = source_archive(session, packages, package, place)
        with tarfile.open(archive) as opened:
            opened.extractall(place / "unpacked", filter="data")
        [unpacked] = (place / "unpacked").iterdir()
        if any(path.is_symlink() for path in unpacked.rglob("*")):
            session.error(f"{archive.name} holds a symbolic link: it would not build elsewhere")
        with job_slots().one() as slots:
            environment.run(
                session,
                *("python", "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index"),
                *(*optimisation, "-w", str(place / "wheel"), str(unpacked)),
                env=slots,
            )
        [built] = (place / "wheel").glob("*.whl")
        if keep:
            keep_wheel(built, folder)
        else:
            with zipfile.ZipFile(built) as here, zipfile.ZipFile(wheel(session, packages, package).path) as ours:
                difference = set(here.namelist()) ^ set(ours.namelist())
            if difference:
                session.error(
                    f"{package.name}: the wheel from the archive and the wheel from the tree differ in {difference}"
                )
        (ROOT / "build" / "sdist").mkdir(parents=True, exist_ok=True)
        shutil.copy2(archive, ROOT / "build" / "sdist" / archive.name)


def _committed(package: Package) -> bool:
    command = ["git", "status", "--porcelain", "--", str(package.directory), str(package.shared)]
    return not subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout


def native_library(
    session: nox.Session, packages: Mapping[str, Package], package: Package, folder: pathlib.Path, target: str
) -> pathlib.Path:
    """A target of a package's C++ tests, built as the wheel is."""
    environment = build_environment(session, packages, package)
    if not (folder / "build.ninja").exists():
        environment.run(
            session, "meson", "setup", str(folder), str(package.directory), "-Dnative_tests=true", silent=True
        )
    environment.run(
        session, "meson", "compile", "-C", str(folder), pathlib.Path(target).stem.removeprefix("lib"), silent=True
    )
    return folder / target
