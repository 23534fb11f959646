"""Checks that files and folders in code spans of pages exist: `launch/launch.h` is the end of some tracked path.

`python tools/checks/named_files.py` prints each name of docs/ and README.md that no tracked file or folder ends with,
and fails if there is one. A name is checked if it has a slash and a file's ending, or ends with a slash. Names with a
part in capitals (`contract/cases/AREA.cpp`) are patterns, and pages whose commands write files are left out.
"""

from __future__ import annotations

import pathlib
import re
import sys
from collections.abc import Iterable

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from checks.tree import listed  # noqa: E402

MAKE_FILES = {"docs/new-device.md", "docs/custom-operators.md", "docs/own-kernels.md"}
ENDINGS = "cpp|cuh|h|c|inc|py|pyi|toml|yaml|json|md|txt|svg|build"
NAME = re.compile(rf"`((?:[\w.-]+/)+(?:[\w.-]+\.(?:{ENDINGS}))?)(?:#[^`]*)?`")
MADE = ("build/", "bin/", "wheelhouse/", ".nox/")  # folders that commands make


def known_ends(paths: Iterable[str]) -> set[str]:
    """All ends of all paths and of their folders: a/b/c.h, b/c.h, c.h, and a/b/, b/."""
    ends = set()
    for path in paths:
        parts = path.split("/")
        for first in range(len(parts)):
            ends.add("/".join(parts[first:]))
            ends.update("/".join(parts[first:last]) + "/" for last in range(first + 1, len(parts)))
    return ends


def names(page: str) -> list[tuple[int, str]]:
    """(line number, name) of the files and folders that a page names."""
    found = [(number, name) for number, line in enumerate(page.splitlines(), 1) for name in NAME.findall(line)]
    return [
        (number, name)
        for number, name in found
        if not name.startswith(MADE)
        and not any(re.fullmatch(r"[A-Z]{2,}", part.split(".")[0]) for part in name.split("/"))
    ]


def check(root: pathlib.Path) -> list[str]:
    paths = listed(root)
    ends = known_ends(paths)
    pages = [path for path in paths if path == "README.md" or (path.startswith("docs/") and path.endswith(".md"))]
    return [
        f"{page}:{number}: no tracked file or folder is '{name}'"
        for page in pages
        if page not in MAKE_FILES and (root / page).exists()
        for number, name in names((root / page).read_text(encoding="utf-8"))
        if name not in ends
    ]


def main() -> int:
    problems = check(ROOT)
    print("\n".join(problems) or "every file that the pages name is there")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
