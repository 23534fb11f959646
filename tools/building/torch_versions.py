"""The minor versions of torch that the packages support, and the one on which sessions run.

The range is written in the pyproject.toml of each package that links torch. All have the same.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import tomllib
import urllib.request
from collections.abc import Iterable

import nox

from building.packages import ROOT, requirement_name


def supported_minors(root: pathlib.Path = ROOT) -> list[str]:
    """The minor versions that the packages declare: torch>=2.13,<2.16 gives 2.13, 2.14 and 2.15.

    ValueError: the packages declare different versions, or it is no such range.
    """
    found: dict[str, pathlib.Path] = {}
    for path in sorted((root / "packages").glob("*/pyproject.toml")):
        text = tomllib.loads(path.read_text())
        for requirement in (*text["build-system"]["requires"], *text["project"].get("dependencies", ())):
            if requirement_name(requirement) == "torch":
                found.setdefault(requirement, path)
    ranges = [re.fullmatch(r"torch>=2\.(\d+),<2\.(\d+)", requirement) for requirement in found]
    if len(ranges) != 1 or ranges[0] is None:
        written = "; ".join(f"{requirement} in {path.relative_to(root)}" for requirement, path in found.items())
        raise ValueError(f"the packages should declare one range torch>=2.A,<2.B, but they declare {written}")
    first, end = map(int, ranges[0].groups())
    return [f"2.{number}" for number in range(first, end)]


def in_order(minors: Iterable[str]) -> list[str]:
    """Minor versions, the oldest first: 2.9 comes before 2.10."""
    return sorted(minors, key=lambda minor: [int(part) for part in minor.split(".")])


MINORS = supported_minors()
OLDEST = MINORS[0]


def chosen_minor() -> str:
    """The version on which sessions run: TB_TORCH, by default the oldest. ValueError: it is no minor version."""
    minor = os.environ.get("TB_TORCH", OLDEST)
    if not re.fullmatch(r"2\.\d+", minor):
        raise ValueError(f"TB_TORCH={minor!r} is not a minor version of torch: use one of {', '.join(MINORS)}")
    return minor


def announce_torch(session: nox.Session, python: str, requirement: str) -> None:
    """Says where pip takes a torch from and how much it downloads, before it does."""
    command = [python, "-m", "pip", "install", "--dry-run", "--ignore-installed", "-q", "--report", "-", requirement]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise nox.command.CommandFailed(f"pip finds no {requirement}:\n{done.stderr.strip()}")
    urls = [entry["download_info"]["url"] for entry in json.loads(done.stdout)["install"]]
    [torch] = [url for url in urls if url.rpartition("/")[2].startswith("torch-")]
    remote = [url for url in urls if not url.startswith("file:")]
    megabytes = sum(_size(url) for url in remote) / 1e6
    session.log(f"{requirement}: {torch}; of {len(urls)} files {len(remote)} are downloaded, {megabytes:.0f} MB")


def _size(url: str) -> int:
    with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=60) as answer:
        return int(answer.headers.get("Content-Length", 0))
