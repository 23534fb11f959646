"""Packages brought up to date where they are installed, without a wheel: compiled incrementally, then copied.

What is copied is what the wheel would have. The metadata (version, requirements, entry points) stays that of the wheel
that was installed before. A session that installs wheels replaces what was copied.
"""

from __future__ import annotations

import csv
import json
import os
import pathlib
import shutil
from collections.abc import Iterable, Iterator, Mapping

import nox

from building.environments import Environment, locked
from building.packages import ROOT, Package, closure
from building.wheels import build_environment, wheelhouse_folder


def updated(
    session: nox.Session, packages: Mapping[str, Package], environment: Environment, names: Iterable[str]
) -> bool:
    """Compiles and copies these packages and those that they declare, where their sources changed.

    False: one of them was never built here or is not installed in the environment, which then gets nothing.
    """
    needed = closure(dict(packages), names)
    installed = environment.installed_digests()
    builds = {package.name: build_environment(session, packages, package, environment.target) for package in needed}
    folders = {package.name: wheelhouse_folder(package, builds[package.name]) for package in needed}
    builders = {name: ROOT / "build" / folder.parent.name for name, (folder, _) in folders.items()}
    if any(name not in installed or not (builder / "build.ninja").exists() for name, builder in builders.items()):
        return False
    for package in needed:
        folder, digest = folders[package.name]
        if installed[package.name] in (digest, in_place := f"in place {digest}"):
            continue
        builder = builders[package.name]
        with locked(f"wheel-{folder.parent.name}"):
            builds[package.name].run(session, "ninja", f"-j{os.cpu_count() or 1}", "-C", str(builder))
            environment.note_digest(package.name, "")  # an interrupted copy must not look finished
            copied = copy_installed(builder / "meson-info" / "intro-install_plan.json", package, environment)
        session.log(f"{package.name}: {copied} files are new in {environment.path.relative_to(ROOT)}")
        environment.note_digest(package.name, in_place)
    return True


def copy_installed(plan: pathlib.Path, package: Package, environment: Environment) -> int:
    """Copies what Meson's install plan names, where it differs, and removes what the wheel had and the plan lacks.

    Keeps RECORD true, so that pip can uninstall all of it. Returns the number of files that were copied.
    """
    site = environment.site_packages
    sources = dict(_files(json.loads(plan.read_text())))
    [record] = site.glob(f"{package.module}-*.dist-info/RECORD")
    with record.open(newline="") as file:
        rows = {row[0]: row for row in csv.reader(file)}
    for gone in [name for name in rows if _is_source(name, package) and name not in sources]:
        (site / gone).unlink(missing_ok=True)
        del rows[gone]
    copied = 0
    for name, source in sources.items():
        target = site / name
        if target.exists() and target.read_bytes() == source.read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh = target.with_name(f"{target.name}.new")  # a process that has the old file keeps it
        shutil.copy2(source, fresh)
        fresh.replace(target)
        rows[name] = [name, "", ""]
        copied += 1
    with record.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows.values())
    return copied


def _is_source(name: str, package: Package) -> bool:
    return name.split("/")[0] == package.module and not name.endswith(".pyc")


def _files(plan: dict[str, dict[str, dict[str, str]]]) -> Iterator[tuple[str, pathlib.Path]]:
    """Each file's path below site-packages, and its source. ValueError: the plan has a place outside site-packages."""
    for entries in plan.values():
        for source, entry in entries.items():
            place, _, name = entry["destination"].partition("/")
            if place not in ("{py_platlib}", "{py_purelib}"):
                raise ValueError(f"{source} would be installed to {entry['destination']}, which is no Python folder")
            path = pathlib.Path(source)
            if not path.is_dir():
                yield name, path
                continue
            excluded = {*entry.get("exclude_files", ()), *entry.get("exclude_dirs", ())}
            for below in path.rglob("*"):
                inner = below.relative_to(path)
                if below.is_file() and excluded.isdisjoint(one.as_posix() for one in (inner, *inner.parents)):
                    yield f"{name}/{inner.as_posix()}", below
