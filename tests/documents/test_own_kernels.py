"""docs/own-kernels.md is right: its commands run in an empty folder, with its files, and print what it shows."""

from __future__ import annotations

import pathlib
import re
import time

import pytest
from conftest import ROOT
from documents.page_commands import Shell, Step, check_output

PAGE = (ROOT / "docs" / "own-kernels.md").read_text()
FILES = dict(re.findall(r"```\w+ file=(\S+)\n(.*?)```", PAGE, re.DOTALL))
STEPS = [
    Step("", match[1], (match[2] or "").splitlines())
    for match in re.finditer(r"```sh run\n(.*?)```(?:\n\n```text\n(.*?)```)?", PAGE, re.DOTALL)
]
SCAFFOLD, *LATER = STEPS


def test_the_page_has_its_files_and_steps() -> None:
    assert set(FILES) == {"operators.h", "operators.c", "kernels.cu", "train.py"}
    assert [len(step.prints) for step in STEPS] == [1, 11, 1, 1, 1]


def test_the_pages_commands_do_what_the_page_says(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell(tmp_path)
    started = time.monotonic()
    check_output(SCAFFOLD, shell.run(SCAFFOLD.commands))
    for name, text in FILES.items():
        (shell.folder / "mychip" / name).write_text(text)
    for step in LATER:
        check_output(step, shell.run(step.commands))
    with capsys.disabled():
        print(f"\nown-kernels.md after pip install: {time.monotonic() - started:.1f} s")
    includes = {
        line
        for file in (shell.folder / "mychip").rglob("*.[ch]")
        for line in file.read_text().splitlines()
        if line.startswith("#include")
    }
    assert includes
    assert not [line for line in includes if re.search("torch|ATen|c10|Python", line)]
