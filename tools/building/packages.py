"""The packages of this repository, as their pyproject.toml files describe them."""

from __future__ import annotations

import hashlib
import pathlib
import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Folders and files that are not part of a wheel. A change there must not cause a new build.
_OUTSIDE_THE_WHEEL = {"tests", "testing", "build", "__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"}
_OUTSIDE_THE_WHEEL |= {"CHANGELOG.md"}


def requirement_name(requirement: str) -> str:
    """The normalized project name of a requirement: "Torch == 2.*" gives "torch"."""
    match = re.match(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)", requirement)
    if match is None:
        raise ValueError(f"{requirement!r} is not a requirement: it should start with a project name")
    return re.sub(r"[-_.]+", "-", match[1].rstrip("-_.")).lower()


@dataclass(frozen=True)
class Package:
    """One folder of packages/: its name, what it declares, and the digest of its wheel's sources."""

    name: str
    directory: pathlib.Path
    shared: pathlib.Path
    build_requirements: tuple[str, ...]
    dependencies: tuple[str, ...]
    test_requirements: tuple[str, ...]

    @property
    def module(self) -> str:
        return self.name.replace("-", "_")

    @property
    def uses_torch(self) -> bool:
        return any(requirement_name(d) == "torch" for d in self.dependencies)

    @property
    def links_torch(self) -> bool:
        return any(requirement_name(d) == "torch" for d in self.build_requirements)

    def files(self) -> list[pathlib.Path]:
        """Everything that can change the wheel, in a fixed order."""
        found = []
        for top in (self.directory, self.shared):
            for path in sorted(top.rglob("*")):
                parts = path.relative_to(top).parts
                outside = _OUTSIDE_THE_WHEEL & set(parts) or any(part.startswith(".mesonpy-") for part in parts)
                if path.is_file() and not outside and parts[0] != "shared":
                    found.append(path)
        return found

    def digest(self, salt: str) -> str:
        """SHA-256 over names and contents of `files()` and over `salt` (tool and torch versions)."""
        digest = hashlib.sha256(salt.encode())
        base = self.directory.parent.parent
        for path in self.files():
            content = path.read_bytes()
            digest.update(f"{path.relative_to(base).as_posix()}\0{len(content)}\0".encode() + content)
        return digest.hexdigest()


def read_package(directory: pathlib.Path, shared: pathlib.Path) -> Package:
    """The package in `directory`. KeyError: pyproject.toml lacks a field."""
    text = tomllib.loads((directory / "pyproject.toml").read_text())
    project = text["project"]
    return Package(
        name=project["name"],
        directory=directory,
        shared=shared,
        build_requirements=tuple(text["build-system"]["requires"]),
        dependencies=tuple(project.get("dependencies", ())),
        test_requirements=tuple(project.get("optional-dependencies", {}).get("test", ())),
    )


def read_packages(root: pathlib.Path = ROOT) -> dict[str, Package]:
    """All packages by name. Each comes after the packages that it depends on."""
    found = {}
    for pyproject in sorted((root / "packages").glob("*/pyproject.toml")):
        package = read_package(pyproject.parent, root / "shared")
        found[package.name] = package
    return {package.name: package for package in closure(found, found)}


def closure(packages: dict[str, Package], names: Iterable[str]) -> list[Package]:
    """`names` and the packages of this repository that they declare, dependencies first."""
    done: dict[str, Package] = {}

    def visit(name: str, path: Sequence[str]) -> None:
        if name in path:
            raise ValueError(f"packages need each other in a circle: {' -> '.join([*path, name])}")
        if name in done:
            return
        for dependency in packages[name].dependencies:
            if requirement_name(dependency) in packages:
                visit(requirement_name(dependency), [*path, name])
        done[name] = packages[name]

    for name in names:
        visit(name, [])
    return list(done.values())
