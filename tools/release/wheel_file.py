"""A wheel as a file: writing one, and what it says of itself."""

from __future__ import annotations

import base64
import csv
import email
import email.message
import functools
import hashlib
import io
import pathlib
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet

_TORCH_FOLDER = re.compile(r"[^/]+/torch-(\d+\.\d+)/")
_OLDEST_DATE = (1980, 1, 1, 0, 0, 0)  # of the files in a wheel, which so depends on its contents only


def torch_of(name: str) -> str | None:
    """The minor version of torch for which a wheel has the file of this name, an extension; None: for all of them."""
    match = _TORCH_FOLDER.match(name)
    return match[1] if match else None


def torch_minors(names: Iterable[str]) -> list[str]:
    """The minor versions of torch for which there are extensions among these files, the oldest first."""
    return sorted({minor for name in names if (minor := torch_of(name))}, key=_numbers)


def _numbers(minor: str) -> tuple[int, ...]:
    return tuple(map(int, minor.split(".")))


def torch_range(minors: Sequence[str]) -> SpecifierSet:
    """What a package with extensions for these minor versions, the oldest first, requires.

    Minor versions between them for which there are none are excluded one by one.
    """
    major, last = _numbers(minors[-1])
    first = _numbers(minors[0])[1] if _numbers(minors[0])[0] == major else 0
    absent = [f"!={major}.{number}.*" for number in range(first, last) if f"{major}.{number}" not in minors]
    return SpecifierSet(",".join([f">={minors[0]}", f"<{major}.{last + 1}", *absent]))


def with_torch(metadata: bytes, minors: Sequence[str]) -> bytes:
    """METADATA that requires a torch of these minor versions, where it required any that the sources support."""
    head, blank, readme = metadata.partition(b"\n\n")
    lines = head.decode().split("\n")
    for i, line in enumerate(lines):
        field, _, value = line.partition(": ")
        if field != "Requires-Dist":
            continue
        try:
            requirement = Requirement(value)
        except InvalidRequirement:
            continue
        if requirement.name == "torch":
            requirement.specifier = torch_range(minors)
            lines[i] = f"{field}: {requirement}"
    return "\n".join(lines).encode() + blank + readme


def declare_torch(path: pathlib.Path) -> None:
    """Makes a wheel require a torch for which it has extensions. One that does, or needs no torch, stays as it is."""
    with zipfile.ZipFile(path) as archive:
        contents = {entry.filename: (archive.read(entry), entry.external_attr) for entry in archive.infolist()}
    minors = torch_minors(contents)
    [record] = [name for name in contents if name.endswith(".dist-info/RECORD")]
    metadata = record.removesuffix("RECORD") + "METADATA"
    data, attributes = contents[metadata]
    if not minors or with_torch(data, minors) == data:
        return
    del contents[record]
    contents[metadata] = (with_torch(data, minors), attributes)
    scratch = path.with_suffix(".declared")
    write_wheel(scratch, contents, record)
    scratch.replace(path)


def record_digest(data: bytes) -> str:
    """A file's digest as RECORD has it."""
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def write_wheel(target: pathlib.Path, contents: Mapping[str, tuple[bytes, int]], record: str) -> None:
    """Writes these files and their RECORD.

    Arguments:
        contents: data and permissions (as zip files have them) by name.
        record: the name of RECORD.
    """
    rows = io.StringIO()
    writer = csv.writer(rows, lineterminator="\n")
    for name, (data, _) in contents.items():
        writer.writerow((name, record_digest(data), len(data)))
    writer.writerow((record, "", ""))
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, (data, attributes) in {**contents, record: (rows.getvalue().encode(), 0o644 << 16)}.items():
            entry = zipfile.ZipInfo(name, _OLDEST_DATE)
            entry.external_attr = attributes
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED)


def write_empty_project(folder: pathlib.Path, name: str, version: str) -> pathlib.Path:
    """A wheel of one module that has a version and nothing else, to try what others say of that version."""
    described = f"{name}-{version}.dist-info"
    files = {
        f"{name}/__init__.py": f"__version__ = {version!r}\n",
        f"{described}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{described}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    path = folder / f"{name}-{version}-py3-none-any.whl"
    write_wheel(path, {file: (text.encode(), 0o644 << 16) for file, text in files.items()}, f"{described}/RECORD")
    return path


@dataclass(frozen=True)
class WheelFile:
    path: pathlib.Path
    contents: Mapping[str, bytes]

    @functools.cached_property
    def described(self) -> str:
        """The folder NAME-VERSION.dist-info."""
        [folder] = {name.split("/")[0] for name in self.contents if name.split("/")[0].endswith(".dist-info")}
        return folder

    @functools.cached_property
    def metadata(self) -> email.message.Message:
        return email.message_from_bytes(self.contents[f"{self.described}/METADATA"])

    @functools.cached_property
    def readme(self) -> str:
        text = self.metadata.get_payload(decode=True)
        return text.decode() if isinstance(text, bytes) else ""

    @functools.cached_property
    def tags(self) -> list[str]:
        lines = self.contents[f"{self.described}/WHEEL"].decode().splitlines()
        return [line.removeprefix("Tag: ").strip() for line in lines if line.startswith("Tag: ")]


def read_wheel(path: pathlib.Path) -> WheelFile:
    with zipfile.ZipFile(path) as archive:
        return WheelFile(
            path, {entry.filename: archive.read(entry) for entry in archive.infolist() if not entry.is_dir()}
        )
