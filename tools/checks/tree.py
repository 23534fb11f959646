"""The files of a repository, as the checkers see them."""

from __future__ import annotations

import pathlib
import subprocess


def listed(root: pathlib.Path, *patterns: str, new: bool = False) -> list[str]:
    """The paths below root that git tracks; with `new` also untracked ones. They include links and deleted files."""
    also = ["--cached", "--others", "--exclude-standard"] if new else []
    command = ["git", "ls-files", "-z", *also, "--", *patterns]
    names = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.split("\0")
    return sorted(name for name in names if name)
