"""What has to be right in the files of a release. Each check returns what is wrong, as texts."""

from __future__ import annotations

import csv
import pathlib
import re
import tarfile
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from release import changelog
from release.elf import library_path
from release.wheel_file import WheelFile, read_wheel, record_digest, torch_of, torch_range

LIMIT = 20_000_000  # bytes, of all wheels together
_TAG = re.compile(r"cp311-abi3-manylinux_2_\d+_\w+")
_BESIDE_TORCH = "$ORIGIN/../../torch/lib"
_IN_AN_ARCHIVE = ("pyproject.toml", "VERSION", "README.md", "LICENSE", "CHANGELOG.md")


@dataclass(frozen=True)
class Project:
    """What the tree says of a package."""

    name: str
    version: str
    requires_python: str
    torch: str | None
    """The versions of torch that it declares, such as ">=2.7,<2.9"; None if it does not use torch."""
    files: Mapping[str, bytes]
    """Those of its folder that its wheel or its source archive repeats, by name."""


def read_project(folder: pathlib.Path) -> Project:
    """The project in this folder of packages/. OSError: it lacks a file that each package has."""
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    requirements = [Requirement(text) for text in project.get("dependencies", ())]
    torch = [str(requirement.specifier) for requirement in requirements if requirement.name == "torch"]
    return Project(
        name=project["name"],
        version=(folder / "VERSION").read_text().strip(),
        requires_python=project["requires-python"],
        torch=torch[0] if torch else None,
        files={name: (folder / name).read_bytes() for name in _IN_AN_ARCHIVE},
    )


def folder_problems(
    folder: pathlib.Path,
    projects: Sequence[Project],
    extensions: Sequence[str],
    supported: Sequence[str],
    machine: Sequence[str],
    limit: int = LIMIT,
) -> list[str]:
    """What is wrong with a folder that should hold one wheel and one source archive of each project, and no other file.

    Arguments:
        extensions: the minor versions of torch for which the wheels have extensions.
        supported: the minor versions of torch that the metadata should name.
        machine: folders of the machine that built, which no file may mention.
        limit: bytes, of all wheels together.
    """
    found: list[str] = []
    expected: set[pathlib.Path] = set()
    wheels: dict[str, WheelFile] = {}
    for project in projects:
        stem = f"{project.name.replace('-', '_')}-{project.version}"
        matching = sorted(folder.glob(f"{stem}-*.whl"))
        if len(matching) == 1:
            wheels[project.name] = read_wheel(matching[0])
            wrong = wheel_problems(wheels[project.name], project, extensions, supported, machine)
            found += [f"{matching[0].name}: {text}" for text in wrong]
        else:
            found.append(f"there are {len(matching)} wheels {stem}-*.whl; there should be one")
        archive = folder / f"{stem}.tar.gz"
        found += [f"{archive.name}: {text}" for text in archive_problems(archive, project, machine)]
        found += [f"{project.name}: {text}" for text in changelog_problems(project)]
        expected |= {*matching, archive}
    found += [f"{path.name} is not of this release" for path in sorted(set(folder.iterdir()) - expected)]
    found += requirement_problems(wheels, {project.name: project.version for project in projects})
    size = sum(wheel.path.stat().st_size for wheel in wheels.values())
    if size >= limit:
        found.append(f"all wheels together have {size / 1e6:.1f} MB; the limit is {limit / 1e6:.1f} MB")
    return found


def wheel_problems(
    wheel: WheelFile, project: Project, extensions: Sequence[str], supported: Sequence[str], machine: Sequence[str]
) -> list[str]:
    """See folder_problems."""
    return [
        *_tag_problems(wheel),
        *_record_problems(wheel),
        *_metadata_problems(wheel, project, supported),
        *_extension_problems(wheel, extensions if project.torch else ()),
        *_path_problems(wheel.contents, machine),
    ]


def changelog_problems(project: Project) -> list[str]:
    return [
        f"CHANGELOG.md: {text}" for text in changelog.problems(project.files["CHANGELOG.md"].decode(), project.version)
    ]


def _tag_problems(wheel: WheelFile) -> Iterator[str]:
    written = "-".join(wheel.path.stem.split("-")[-3:])
    if wheel.tags != [written]:
        yield f"WHEEL has the tags {', '.join(wheel.tags)}, but the file's name has {written}"
    if not _TAG.fullmatch(written):
        yield f"the tag {written} is not one of CPython's stable ABI from 3.11 on and manylinux"


def _record_problems(wheel: WheelFile) -> Iterator[str]:
    record = f"{wheel.described}/RECORD"
    rows = {name: (digest, size) for name, digest, size in csv.reader(wheel.contents[record].decode().splitlines())}
    for name, data in wheel.contents.items():
        right = ("", "") if name == record else (record_digest(data), str(len(data)))
        if name not in rows:
            yield f"RECORD lacks {name}"
        elif rows[name] != right:
            yield f"RECORD has another digest or size for {name} than the file"
    yield from (f"RECORD lists {name}, which is not there" for name in rows.keys() - wheel.contents.keys())


def _metadata_problems(wheel: WheelFile, project: Project, supported: Sequence[str]) -> Iterator[str]:
    right = {"Name": project.name, "Version": project.version, "Requires-Python": project.requires_python}
    for field, value in right.items():
        if wheel.metadata[field] != value:
            yield f"{field} is {wheel.metadata[field]}, but the tree says {value}"
    license_file = f"{wheel.described}/licenses/LICENSE"
    if wheel.contents.get(license_file) != project.files["LICENSE"]:
        yield f"{license_file} is not the package's LICENSE"
    if wheel.readme.strip() != project.files["README.md"].decode().strip():
        yield "the description is not the package's README.md"
    torch = next((need.specifier for need in _requirements(wheel) if need.name == "torch"), None)
    fitting = torch_range(supported) if project.torch else None
    if torch != fitting:
        yield f"it requires torch {torch}, but it should require {fitting}"


def _requirements(wheel: WheelFile) -> list[Requirement]:
    return [Requirement(text) for text in wheel.metadata.get_all("Requires-Dist", [])]


def _extension_problems(wheel: WheelFile, minors: Sequence[str]) -> Iterator[str]:
    module = wheel.described.split("-")[0]
    libraries = [name for name in wheel.contents if name.endswith(".so") or ".so." in name]
    found = {minor for name in libraries if (minor := torch_of(name))}
    if found != set(minors):
        yield f"it has extensions for torch {sorted(found)}, but it should for {sorted(minors)}"
    cores = [f"{module}/torch-{minor}/_core.abi3.so" for minor in minors] or [f"{module}/_core.abi3.so"]
    yield from (f"{core} is missing" for core in cores if core not in wheel.contents)
    for name in libraries:
        if name.split("/")[0] != module:
            yield f"{name} is a library of others, which torch or the system has"
        if ".cpython-" in name:
            yield f"{name} is for one version of Python only"
        right = _BESIDE_TORCH if torch_of(name) else ""
        try:
            path = library_path(wheel.contents[name])
        except ValueError as error:
            yield f"{name} is {error}"
            continue
        if path != right:
            yield f"{name} looks for libraries in {path!r}, but it should in {right!r}"


def _path_problems(contents: Mapping[str, bytes], machine: Sequence[str]) -> Iterator[str]:
    for name, data in contents.items():
        for folder in machine:
            # A path of its own, not the end of another one.
            if place := re.search(rb"(?<![\w./-])" + re.escape(folder.encode()) + rb"/[\x21-\x7e]{0,200}", data):
                yield f"{name} mentions a path of the machine that built it: {place[0].decode()}"


def archive_problems(path: pathlib.Path, project: Project, machine: Sequence[str]) -> list[str]:
    """What is wrong with a project's source archive; see folder_problems."""
    if not path.exists():
        return ["the source archive is missing"]
    with tempfile.TemporaryDirectory() as scratch, tarfile.open(path) as archive:
        links = [member.name for member in archive if member.issym() or member.islnk()]
        if links:
            return [f"{name} is a link: it would not build elsewhere" for name in links]
        archive.extractall(scratch, filter="data")
        top = pathlib.Path(scratch) / path.name.removesuffix(".tar.gz")
        names = (file for file in pathlib.Path(scratch).rglob("*") if file.is_file())
        contents = {str(file.relative_to(top.parent)): file.read_bytes() for file in names}
    found = [f"{name} is outside of {top.name}" for name in contents if name.split("/")[0] != top.name]
    for name, data in project.files.items():
        if contents.get(f"{top.name}/{name}") != data:
            found.append(f"{name} is missing, or differs from the tree (an archive has what is committed)")
    if f"\nVersion: {project.version}\n".encode() not in contents.get(f"{top.name}/PKG-INFO", b""):
        found.append(f"PKG-INFO has not the version {project.version}")
    return [*found, *_path_problems(contents, machine)]


def requirement_problems(wheels: Mapping[str, WheelFile], versions: Mapping[str, str]) -> list[str]:
    """Requirements of these wheels for projects of the release that the release does not satisfy."""
    found = []
    for name, wheel in wheels.items():
        for need in _requirements(wheel):
            version = versions.get(canonicalize_name(need.name))
            if version is not None and not need.specifier.contains(version, prereleases=True):
                found.append(f"{name} requires {need}, but the release has version {version}")
    return found
