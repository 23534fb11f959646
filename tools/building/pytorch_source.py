"""PyTorch's sources from Debian's archive, by apt, for the tests in them. They are not part of PyTorch's wheels."""

from __future__ import annotations

import hashlib
import pathlib
import shutil
import subprocess
import tarfile

SUITE, VERSION = "trixie", "2.6.0+dfsg-7"
ARCHIVE = "pytorch_2.6.0+dfsg.orig.tar.xz"
SHA256 = "099a9601bc40d67656e75735c44abedb0fbe92d08817852ab7472eebb7e6ddff"


class SourceUnavailable(RuntimeError):
    """The sources cannot be had; the text says why, and what to do."""


def fetch(folder: pathlib.Path) -> pathlib.Path:
    """The unpacked sources below a folder, fetched the first time.

    Raises:
        SourceUnavailable: there is no apt, or its archive does not have this package.
    """
    unpacked = folder / VERSION
    if unpacked.exists():
        return unpacked
    archive = folder / ARCHIVE
    if not archive.exists():
        _download(folder)
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    if digest != SHA256:
        archive.unlink()
        raise SourceUnavailable(f"{ARCHIVE} has the digest {digest}, not {SHA256}; it was removed")
    partial = folder / "unpacking"
    shutil.rmtree(partial, ignore_errors=True)
    with tarfile.open(archive) as opened:
        opened.extractall(partial, filter="data")
    (top,) = partial.iterdir()
    top.rename(unpacked)
    return unpacked


def _download(folder: pathlib.Path) -> None:
    """Asks apt for the source package, with lists of its own: the system's stay as they are."""
    if not shutil.which("apt-get"):
        raise SourceUnavailable("there is no apt-get here: name a checkout of PyTorch by --source FOLDER")
    state = folder / "apt"
    (state / "lists" / "partial").mkdir(parents=True, exist_ok=True)
    sites = _apt(["indextargets", "--format", "$(SITE)", "Created-By: Packages"], folder).split()
    site = next((site for site in sites if site.rstrip("/").endswith("/debian")), None)
    if site is None:
        raise SourceUnavailable(f"apt knows no archive of Debian ({sites}): name a checkout by --source FOLDER")
    (state / "sources.list").write_text(f"deb-src [trusted=yes] {site} {SUITE} main\n")  # the digest is checked
    options = [f"Dir::Etc::sourcelist={state / 'sources.list'}", "Dir::Etc::sourceparts=/dev/null"]
    options += [f"Dir::State::lists={state / 'lists'}", f"Dir::Cache={state / 'cache'}"]
    own = [text for option in options for text in ("-o", option)]
    _apt([*own, "update"], folder)
    _apt([*own, "source", "--download-only", f"pytorch={VERSION}"], folder)


def _apt(arguments: list[str], folder: pathlib.Path) -> str:
    done = subprocess.run(["apt-get", *arguments], cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SourceUnavailable(
            f"apt-get {arguments[-1]}: {done.stderr.strip()[-600:]}. Or name a checkout by --source"
        )
    return done.stdout
