"""Source archives of other projects, for the tests that their wheels lack: from PyPI by pip, from Debian by apt."""

from __future__ import annotations

import hashlib
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass


class SourceUnavailable(RuntimeError):
    """The sources cannot be had; the text says why, and what to do."""


@dataclass(frozen=True)
class SourceArchive:
    """An archive and its digest.

    Attributes:
        name: the file's.
        requirement: what pip or apt is asked for: "einops==0.8.2", "pytorch=2.6.0+dfsg-7".
        debian: the release of Debian that has it as a source package; "" for an archive of PyPI.
    """

    name: str
    sha256: str
    requirement: str
    debian: str = ""

    def fetch(self, folder: pathlib.Path) -> pathlib.Path:
        """The unpacked sources below a folder, fetched the first time. Another digest is another folder.

        Raises:
            SourceUnavailable: the registry does not have this archive, or there is no apt.
        """
        unpacked = folder / f"{self.name.split('.tar')[0]}-{self.sha256[:16]}"
        if unpacked.exists():
            return unpacked
        folder.mkdir(parents=True, exist_ok=True)
        archive = folder / self.name
        if not archive.exists():
            (_by_apt if self.debian else _by_pip)(self, folder)
        if not archive.exists():
            raise SourceUnavailable(f"{self.requirement} has no archive {self.name}; these came: {_names(folder)}")
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
        if digest != self.sha256:
            archive.unlink()
            raise SourceUnavailable(f"{self.name} has the digest {digest}, not {self.sha256}; it was removed")
        partial = folder / "unpacking"
        shutil.rmtree(partial, ignore_errors=True)
        with tarfile.open(archive) as opened:
            opened.extractall(partial, filter="data")
        (top,) = partial.iterdir()
        top.rename(unpacked)
        return unpacked


def _names(folder: pathlib.Path) -> str:
    return ", ".join(sorted(path.name for path in folder.iterdir() if path.is_file())) or "none"


def _by_pip(archive: SourceArchive, folder: pathlib.Path) -> None:
    """Asks pip for the source distribution. pip asks its build backend for the metadata, once the digest is right."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as requirements:
        requirements.write(f"{archive.requirement} --hash=sha256:{archive.sha256}\n")
        requirements.flush()
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:"]
        _run([*command, "-d", str(folder), "-r", requirements.name], folder)


def _by_apt(archive: SourceArchive, folder: pathlib.Path) -> None:
    """Asks apt for the source package, with lists of its own: the system's stay as they are."""
    if not shutil.which("apt-get"):
        raise SourceUnavailable("there is no apt-get here: take a machine with Debian, or name a folder of the sources")
    state = folder / "apt"
    (state / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    sites = _run(["apt-get", "indextargets", "--format", "$(SITE)", "Created-By: Packages"], folder).split()
    site = next((site for site in sites if site.rstrip("/").endswith("/debian")), None)
    if site is None:
        raise SourceUnavailable(f"apt knows no archive of Debian ({sites}): name a folder of the sources")
    source = f"deb-src [trusted=yes] {site} {archive.debian} main\n"  # the digest is checked
    (state / "sources.list").write_text(source)
    options = [f"Dir::Etc::sourcelist={state / 'sources.list'}", "Dir::Etc::sourceparts=/dev/null"]
    options += [f"Dir::State::lists={state / 'lists'}", f"Dir::Cache={state / 'cache'}"]
    own = [text for option in options for text in ("-o", option)]
    _run(["apt-get", *own, "update"], folder)
    _run(["apt-get", *own, "source", "--download-only", "--tar-only", archive.requirement], folder)


def _run(command: list[str], folder: pathlib.Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SourceUnavailable(f"{command[0]} {command[-1]}: {done.stderr.strip()[-600:]}")
    return done.stdout
