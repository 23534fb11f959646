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
from collections.abc import Mapping
from dataclasses import dataclass

_TORCH_FOLDER = re.compile(r"[^/]+/torch-(\d+\.\d+)/")
_OLDEST_DATE = (1980, 1, 1, 0, 0, 0)  # of the files in a wheel, which so depends on its contents only


def torch_of(name: str) -> str | None:
    """The minor version of torch for which a wheel has the file of this name, an extension; None: for all of them."""
    match = _TORCH_FOLDER.match(name)
    return match[1] if match else None


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
