"""tools/checks/named_files.py, on a small tree."""

from __future__ import annotations

import pathlib
import subprocess

import pytest
from checks import named_files

FILES = ["packages/tb-ops/src/launch/launch.h", "docs/page.md", "README.md", "docs/new-device.md"]


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> pathlib.Path:
    for file in FILES:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text("")
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


GOOD = [
    "the end of a path: `launch/launch.h`",
    "a whole path: `packages/tb-ops/src/launch/launch.h`",
    "a folder: `src/launch/`",
    "no name of a file: `a/b`, `x.h`, `nox -s lint`",
    "a pattern: `cases/AREA.cpp`",
    "made by a command: `build/demo.json`",
]


@pytest.mark.parametrize("text", GOOD)
def test_existing_files_and_other_text_pass(text: str, tree: pathlib.Path) -> None:
    (tree / "docs/page.md").write_text(text)
    assert named_files.check(tree) == []


@pytest.mark.parametrize("name", ["launch/lunch.h", "aunch/launch.h", "lunch/", "src/launch/launch.cpp"])
def test_a_missing_file_is_found_with_its_place(name: str, tree: pathlib.Path) -> None:
    (tree / "docs/page.md").write_text(f"# Page\n\n`launch/launch.h` and `{name}`\n")
    assert named_files.check(tree) == [f"docs/page.md:3: no tracked file or folder is '{name}'"]


def test_the_readme_is_a_page_and_pages_that_make_files_are_not(tree: pathlib.Path) -> None:
    for page in ("README.md", "docs/new-device.md"):
        (tree / page).write_text("`src/mychip.c`")
    assert named_files.check(tree) == ["README.md:1: no tracked file or folder is 'src/mychip.c'"]
