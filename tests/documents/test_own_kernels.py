"""docs/own-kernels.md is right: its package builds without PyTorch's headers, and its commands print what it shows."""

from __future__ import annotations

import re

import pytest
from conftest import ROOT
from documents.page_commands import Shell, Step, check_output

PAGE = (ROOT / "docs" / "own-kernels.md").read_text()
FILES = dict(re.findall(r"```\w+ file=(\S+)\n(.*?)```", PAGE, re.DOTALL))
STEPS = [
    Step("", match[1], (match[2] or "").splitlines())
    for match in re.finditer(r"```sh run\n(.*?)```(?:\n\n```text\n(.*?)```)?", PAGE, re.DOTALL)
]


@pytest.fixture
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """A folder with the page's files."""
    shell = Shell(tmp_path_factory.mktemp("kernels"))
    for name, text in FILES.items():
        path = shell.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return shell


def test_the_page_has_its_files_and_steps() -> None:
    assert set(FILES) == {"mychip_kernels.c", "src/mychip_kernels/__init__.py", "meson.build", "pyproject.toml"}
    assert [bool(step.prints) for step in STEPS] == [False, True]


def test_the_pages_commands_do_what_the_page_says(shell: Shell) -> None:
    for step in STEPS:
        check_output(step, shell.run(step.commands))
    assert "torch" not in "".join(line for line in FILES["mychip_kernels.c"].splitlines() if "#include" in line)
