"""Virtual environments under .nox/, which are made once, shared between sessions and kept up to date.

An environment is made again when its requirements change, and gets a new wheel when the wheel's digest changes. Each
torch is installed once, into an environment of its own. The others that declare it get it by hard links, which take a
second and no disk space. This is safe because pip and Python replace files and never write into them.
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
from dataclasses import dataclass, field
from typing import Any

import nox

from building.interpreters import CURRENT, Interpreter
from building.packages import ROOT, Package, requirement_name
from building.torch_versions import MINORS, OLDEST, announce_torch, chosen_minor

PLACE = ROOT / ".nox"


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """Holds a lock between processes, since two sessions may run at once in one tree."""
    PLACE.mkdir(exist_ok=True)
    with open(PLACE / f"{name}.lock", "w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


@dataclass(frozen=True)
class Target:
    """For what an environment is made: a Python, and a minor version of torch for those that contain torch."""

    python: Interpreter = CURRENT
    torch: str = field(default_factory=chosen_minor)

    def suffix(self, torch: bool) -> str:
        """What the names of environments and build folders end with; "" for what sessions use by default."""
        version = f"-torch-{self.torch}" if torch and self.torch != OLDEST else ""
        return version + (f"-python-{self.python.name}" if self.python != CURRENT else "")


@dataclass(frozen=True)
class Wheel:
    package: Package
    path: pathlib.Path
    digest: str


class Environment:
    """A virtual environment below .nox/ and the commands run in it."""

    def __init__(self, name: str, target: Target | None = None, *, torch: bool = False) -> None:
        """Arguments:
        torch: whether it contains torch.
        """
        self.target = target or Target()
        self.torch = torch
        self.name = name + self.target.suffix(torch)
        self.path = PLACE / f"env-{self.name}"

    @property
    def bin(self) -> pathlib.Path:
        return self.path / "bin"

    @property
    def site_packages(self) -> pathlib.Path:
        return self.path / "lib" / f"python{self.target.python.name}" / "site-packages"

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

    def configure(self, session: nox.Session, folder: pathlib.Path, source: pathlib.Path, *options: str) -> None:
        """Makes a Meson build folder, or sets the options of one that is there."""
        known = ["--reconfigure"] if (folder / "meson-private" / "coredata.dat").exists() else []
        self.run(session, "meson", "setup", *known, str(folder), str(source), *options, silent=True)

    def version_of(self, project: str) -> str:
        """The installed version of a project, read from its metadata folder. LookupError: it is not installed."""
        for folder in self.site_packages.glob("*.dist-info"):
            name, _, version = folder.name.removesuffix(".dist-info").rpartition("-")
            if requirement_name(name) == project:
                return version
        raise LookupError(f"{project} is not installed in {self.path}; remove that folder and run the session again")

    def installed_digests(self) -> dict[str, str]:
        """The digest of each wheel that is installed here; {} if there is no environment."""
        state = self.path / "tb-environment.json"
        return dict(json.loads(state.read_text())["wheels"]) if state.exists() else {}

    def note_digest(self, package: str, digest: str) -> None:
        """Says that what is installed of a package is no longer that of its wheel."""
        state = self.path / "tb-environment.json"
        known = json.loads(state.read_text())
        known["wheels"][package] = digest
        state.write_text(json.dumps(known))

    def prepare(self, session: nox.Session, requirements: Sequence[str], wheels: Sequence[Wheel] = ()) -> Environment:
        """Brings the environment to exactly these requirements and wheels (and what they declare)."""
        return self._prepare(session, requirements, wheels, prepare_torch(session, self.target) if self.torch else None)

    def make_again(self, session: nox.Session) -> Environment:
        """Makes it again without requirements, whatever was installed: with pip and, if it contains torch, torch."""
        source = prepare_torch(session, self.target) if self.torch else None
        with locked(f"env-{self.name}"):
            self._create(session, source)
        return self

    def _prepare(
        self, session: nox.Session, requirements: Sequence[str], wheels: Sequence[Wheel], source: Environment | None
    ) -> Environment:
        with locked(f"env-{self.name}"):
            state_file = self.path / "tb-environment.json"
            key = hashlib.sha256(
                json.dumps(
                    [
                        *(self.target.python.path, self.target.python.version),
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
                if self.torch and source is None:
                    announce_torch(session, str(self.bin / "python"), *requirements)
                self._install_all(session, requirements, wheels)
            else:
                # --force-reinstall, because pip does not replace a package by a wheel of the same version.
                stale = [w for w in wheels if state["wheels"].get(w.package.name) != w.digest]
                if not stale:
                    return self
                state_file.unlink()  # an interrupted install must not look finished
                self.install(session, "--force-reinstall", "--no-deps", *(str(w.path) for w in stale))
            state_file.write_text(json.dumps({"key": key, "wheels": digests}))
        return self

    def _install_all(self, session: nox.Session, requirements: Sequence[str], wheels: Sequence[Wheel]) -> None:
        paths = [str(wheel.path) for wheel in wheels]
        if not self.torch or self.target.torch in MINORS:
            self.install(session, *requirements, *paths)
            self.run(session, "python", "-m", "pip", "check", silent=True)
            return
        # For a torch beyond the range that the wheels declare, pip would take it back.
        ours = {"torch", *(wheel.package.name for wheel in wheels)}
        declared = {need for wheel in wheels for need in wheel.package.dependencies}
        others = [need for need in declared if requirement_name(need) not in ours]
        self.install(session, *requirements, *sorted(others))
        self.install(session, "--no-deps", *paths)

    def _create(self, session: nox.Session, source: Environment | None) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        session.log(f"making {self.path.relative_to(ROOT)}")
        command = [sys.executable, "-m", "virtualenv", "-q", "--python", self.target.python.path, str(self.path)]
        session.run(*command, external=True, silent=True)
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


def prepare_torch(session: nox.Session, target: Target | None = None) -> Environment:
    """The environment that contains only torch, of the target's minor version. The others get torch by links to it."""
    environment = Environment("torch", target, torch=True)
    return environment._prepare(session, [f"torch=={environment.target.torch}.*"], [], None)
