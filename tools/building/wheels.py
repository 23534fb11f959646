"""The packages' wheels, built where their sources changed, and joined so that one wheel serves several torches."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pathlib
import shutil
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence

import nox
from release.wheel_file import declare_torch, torch_minors, torch_of, with_torch, write_wheel

from building.environments import Environment, Target, Wheel, locked
from building.job_slots import Result, job_slots, side_by_side
from building.packages import ROOT, Package, requirement_name

WHEELHOUSE = ROOT / "wheelhouse"


def build_environment(
    session: nox.Session, packages: Mapping[str, Package], package: Package, target: Target | None = None
) -> Environment:
    """The environment in which `package` is built. It has the build requirements of all packages of its kind.

    There are two kinds: packages that link torch, and the others.
    """
    torch = package.links_torch
    requirements = {
        requirement
        for package in packages.values()
        if package.links_torch == torch
        for requirement in package.build_requirements
        if requirement_name(requirement) != "torch"
    } | {"ninja>=1.13"}  # the first that shares job_slots()
    environment = Environment("build-torch" if torch else "build", target, torch=torch)
    return environment.prepare(session, sorted(requirements))


def wheel(
    session: nox.Session, packages: Mapping[str, Package], package: Package, torch_minors: Sequence[str] = ()
) -> Wheel:
    """The package's wheel from wheelhouse/, with extensions for these minor versions of torch.

    Arguments:
        torch_minors: by default only the one on which sessions run. A package that does not link torch has one wheel.
    """
    minors = list(torch_minors) or [Target().torch]
    if not package.links_torch or len(minors) == 1:
        return _built(session, packages, package, Target(torch=minors[0]))
    parts = [_built(session, packages, package, Target(torch=minor)) for minor in minors]
    digest = hashlib.sha256("".join(part.digest for part in parts).encode()).hexdigest()
    place = WHEELHOUSE / "joined" / package.name
    with locked(f"wheel-joined-{package.name}"):
        path = place / digest[:16] / parts[0].path.name
        if not path.exists():
            shutil.rmtree(place, ignore_errors=True)
            path.parent.mkdir(parents=True)
            join([part.path for part in parts], path)
    return Wheel(package, path, digest)


def wheelhouse_folder(package: Package, environment: Environment) -> tuple[pathlib.Path, str]:
    """Where the wheel of the sources as they are now is kept once it is built in this environment, and its digest."""
    torch = environment.version_of("torch") if package.links_torch else ""
    digest = package.digest(f"{sys.implementation.cache_tag} {package.build_requirements} {torch}")
    return WHEELHOUSE / (package.name + environment.target.suffix(package.links_torch)) / digest[:16], digest


@contextlib.contextmanager
def _filled(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """A folder to write a wheel to, which becomes `folder` at the end and takes the place of those of other sources."""
    shutil.rmtree(folder.parent, ignore_errors=True)
    scratch = folder.parent / "unfinished"
    scratch.mkdir(parents=True)
    yield scratch
    scratch.rename(folder)


def fill(folder: pathlib.Path, build: Callable[[pathlib.Path], None]) -> None:
    """Makes a folder of wheelhouse/ with a wheel: from TB_WHEEL_CACHE if it is there, else by build(folder).

    TB_WHEEL_CACHE is a folder that clones on one machine share. What is built goes there too.
    """
    variable = os.environ.get("TB_WHEEL_CACHE")
    cached = pathlib.Path(variable).expanduser() / folder.relative_to(WHEELHOUSE) if variable else None
    with _filled(folder) as scratch:
        if cached and cached.exists():
            shutil.copytree(cached, scratch, dirs_exist_ok=True)
        else:
            build(scratch)
    if cached and not cached.exists():
        _share(folder, cached)


def _share(folder: pathlib.Path, cached: pathlib.Path) -> None:
    cached.parent.mkdir(parents=True, exist_ok=True)
    unfinished = tempfile.mkdtemp(dir=cached.parent)
    shutil.copytree(folder, unfinished, dirs_exist_ok=True)
    try:
        os.rename(unfinished, cached)
    except OSError:  # another clone was faster
        shutil.rmtree(unfinished)


def for_each(packages: Sequence[Package], build: Callable[[Package], Result]) -> list[Result]:
    """Builds something of several packages side by side. Returns the results in the order of the packages."""
    # Those that link torch take longest. While PyTorch is installed for them, the others compile.
    ordered = sorted(packages, key=lambda package: not package.links_torch)
    results = side_by_side([functools.partial(build, package) for package in ordered])
    built = {package.name: result for package, result in zip(ordered, results, strict=True)}
    return [built[package.name] for package in packages]


def _built(session: nox.Session, packages: Mapping[str, Package], package: Package, target: Target) -> Wheel:
    """A wheel for one torch; built if its sources, shared/, or torch have changed.

    The build folder build/<package> is kept, so that a rebuild compiles only what changed.
    """
    environment = build_environment(session, packages, package, target)
    folder, digest = wheelhouse_folder(package, environment)
    name = folder.parent.name

    def build(scratch: pathlib.Path) -> None:
        with job_slots().one() as slots:
            session.log(f"building {name}")
            start = time.monotonic()
            environment.run(
                session,
                *("python", "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"),
                *("-C", f"build-dir={ROOT / 'build' / name}", "-w", str(scratch), str(package.directory)),
                env=slots,
            )
            session.log(f"built {name} in {time.monotonic() - start:.0f} s")

    with locked(f"wheel-{name}"):
        if not folder.exists():
            fill(folder, build)
        [path] = folder.glob("*.whl")
        declare_torch(path)
    return Wheel(package, path, digest)


def keep_wheel(built: pathlib.Path, folder: pathlib.Path) -> None:
    """Keeps a wheel that was built elsewhere from the same sources, in what wheelhouse_folder() gives."""
    with locked(f"wheel-{folder.parent.name}"), _filled(folder) as scratch:
        shutil.copy2(built, scratch)
        declare_torch(scratch / built.name)


def join(parts: Sequence[pathlib.Path], target: pathlib.Path) -> None:
    """Writes the wheel with the files of all these wheels of one package, version and platform.

    It requires a torch for which one of them has extensions.
    ValueError: they differ in more than the folders of their extensions.
    """
    contents: dict[str, tuple[bytes, int]] = {}
    outside: list[set[tuple[str, bytes]]] = []
    record = ""
    minors = torch_minors(name for part in parts for name in zipfile.ZipFile(part).namelist())
    for part in parts:
        with zipfile.ZipFile(part) as archive:
            files = {entry.filename: (archive.read(entry), entry.external_attr) for entry in archive.infolist()}
        [record] = [name for name in files if name.endswith(".dist-info/RECORD")]
        del files[record]
        metadata = record.removesuffix("RECORD") + "METADATA"
        if minors:
            files[metadata] = (with_torch(files[metadata][0], minors), files[metadata][1])
        outside.append({(name, data) for name, (data, _) in files.items() if torch_of(name) is None})
        if differing := {name for name, _ in outside[0] ^ outside[-1]}:
            raise ValueError(f"{', '.join(sorted(differing))}: not the same in {parts[0]} and in {part}")
        contents |= files
    write_wheel(target, contents, record)
