"""Virtual environments under .nox/, which are made once, shared between sessions and kept up to date.

An environment is made again when its requirements change, and gets a new wheel when the wheel's digest changes. torch
is installed once, into its own environment. The others that declare it get it by hard links, which take a second and no
disk space. This is safe because pip and Python replace files and never write into them.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import nox

from building.packages import ROOT, TORCH, Package, requirement_name

PLACE = ROOT / ".nox"
WHEELHOUSE = ROOT / "wheelhouse"


@contextlib.contextmanager
def _locked(name: str) -> Iterator[None]:
    """Holds a lock between processes, since two sessions may run at once in one tree."""
    PLACE.mkdir(exist_ok=True)
    with open(PLACE / f"{name}.lock", "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@dataclass(frozen=True)
class Wheel:
    package: Package
    path: pathlib.Path
    digest: str


class Environment:
    """A virtual environment below .nox/ and the commands run in it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.path = PLACE / f"env-{name}"

    @property
    def bin(self) -> pathlib.Path:
        return self.path / "bin"

    @property
    def site_packages(self) -> pathlib.Path:
        return self.path / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"

    def run(self, session: nox.Session, *command: str, env: Mapping[str, str] | None = None, **options: Any) -> Any:
        """Runs a program of the environment; the environment's own programs come first on PATH."""
        merged = {
            "PATH": f"{self.bin}{os.pathsep}{os.environ.get('PATH', os.defpath)}",
            "VIRTUAL_ENV": str(self.path),
            "PYTHONHOME": None,
            **(env or {}),
        }
        return session.run(str(self.bin / command[0]), *command[1:], env=merged, external=True, **options)

    def install(self, session: nox.Session, *arguments: str) -> None:
        if arguments:
            self.run(session, "python", "-m", "pip", "install", "-q", *arguments, silent=True)

    def version_of(self, project: str) -> str:
        """The installed version of a project, read from its metadata folder. LookupError: it is not installed."""
        for folder in self.site_packages.glob("*.dist-info"):
            name, _, version = folder.name.removesuffix(".dist-info").rpartition("-")
            if requirement_name(name) == project:
                return version
        raise LookupError(f"{project} is not installed in {self.path}; remove that folder and run the session again")

    def prepare(
        self, session: nox.Session, requirements: Sequence[str], wheels: Sequence[Wheel] = (), *, torch: bool = False
    ) -> Environment:
        """Brings the environment to exactly these requirements and wheels (and what they declare)."""
        source = prepare_torch(session) if torch else None
        with _locked(f"env-{self.name}"):
            state_file = self.path / "tb-environment.json"
            key = hashlib.sha256(
                json.dumps(
                    [
                        sys.version,
                        sorted(requirements),
                        [(w.package.name, w.package.dependencies) for w in wheels],
                        source.version_of("torch") if source else "",
                    ]
                ).encode()
            ).hexdigest()
            state = json.loads(state_file.read_text()) if state_file.exists() else {}
            digests = {w.package.name: w.digest for w in wheels}
            if state.get("key") != key:
                self._create(session, source)
                self.install(session, *requirements, *(str(w.path) for w in wheels))
                self.run(session, "python", "-m", "pip", "check", silent=True)
            else:
                # --force-reinstall, because pip does not replace a package by a wheel of the same version.
                stale = [w for w in wheels if state["wheels"].get(w.package.name) != w.digest]
                if not stale:
                    return self
                state_file.unlink()  # an interrupted install must not look finished
                self.install(session, "--force-reinstall", "--no-deps", *(str(w.path) for w in stale))
            state_file.write_text(json.dumps({"key": key, "wheels": digests}))
        return self

    def _create(self, session: nox.Session, source: Environment | None) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        session.log(f"making {self.path.relative_to(ROOT)}")
        session.run(sys.executable, "-m", "virtualenv", "-q", str(self.path), external=True, silent=True)
        if source is None:
            return
        for entry in source.site_packages.iterdir():
            target = self.site_packages / entry.name
            if target.exists():  # such as pip, which each environment has
                continue
            if entry.is_dir():
                shutil.copytree(entry, target, symlinks=True, copy_function=_link)
            else:
                _link(str(entry), str(target))


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or too many links
        shutil.copy2(source, target)


def prepare_torch(session: nox.Session) -> Environment:
    """The environment that contains only torch. The others get torch by links to it."""
    return Environment("torch").prepare(session, [TORCH])


def _build_environment(session: nox.Session, packages: Mapping[str, Package], torch: bool) -> Environment:
    requirements = {
        requirement
        for package in packages.values()
        if package.links_torch == torch
        for requirement in package.build_requirements
        if requirement_name(requirement) != "torch"
    }
    return Environment("build-torch" if torch else "build").prepare(session, sorted(requirements), torch=torch)


def build_environment(session: nox.Session, packages: Mapping[str, Package], package: Package) -> Environment:
    """The environment in which `package` is built. It has the build requirements of all packages of its kind.

    There are two kinds: packages that link torch, and the others.
    """
    return _build_environment(session, packages, package.links_torch)


def wheel(session: nox.Session, packages: Mapping[str, Package], package: Package) -> Wheel:
    """The package's wheel from wheelhouse/; built if its sources, shared/, or torch have changed.

    The build folder build/<package> is kept, so that a rebuild compiles only what changed.
    """
    environment = build_environment(session, packages, package)
    torch = environment.version_of("torch") if package.links_torch else ""
    digest = package.digest(f"{sys.implementation.cache_tag} {package.build_requirements} {torch}")
    place = WHEELHOUSE / package.name
    with _locked(f"wheel-{package.name}"):
        found = list((place / digest[:16]).glob("*.whl"))
        if not found:
            session.log(f"building {package.name}")
            scratch = place / "unfinished"
            shutil.rmtree(place, ignore_errors=True)
            environment.run(
                session,
                *("python", "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"),
                *("-C", f"build-dir={ROOT / 'build' / package.name}", "-C", f"compile-args=-j{os.cpu_count() or 1}"),
                *("-w", str(scratch), str(package.directory)),
            )
            scratch.rename(place / digest[:16])
            found = list((place / digest[:16]).glob("*.whl"))
    [path] = found
    return Wheel(package, path, digest)
