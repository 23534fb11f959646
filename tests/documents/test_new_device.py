"""docs/new-device.md is right: its commands run in order in an empty folder and print what it shows."""

from __future__ import annotations

import json
import pathlib
import re
import time

import pytest
from conftest import ROOT
from documents.page_commands import Shell, Step, check_output

PAGE = ROOT / "docs" / "new-device.md"
FIRST_TENSOR = "Use it from PyTorch"  # the last section of the page's sequence for the first hour


def steps() -> list[Step]:
    """The page's blocks `sh run`, each with the block `text` right below it, if there is one."""
    found = []
    for part in re.split(r"^## \d+\. ", PAGE.read_text(), flags=re.MULTILINE)[1:]:
        section = part.splitlines()[0]
        for match in re.finditer(r"```sh run\n(.*?)```(?:\n\n```text\n(.*?)```)?", part, re.DOTALL):
            found.append(Step(section, match[1], (match[2] or "").splitlines()))
    return found


def test_the_page_has_the_steps_that_it_promises() -> None:
    assert [step.section for step in steps()] == [
        "Write a driver",
        "Build it",
        "Prove it",
        FIRST_TENSOR,
        "See what comes next",
        "Ship it",
        "Certify it",
    ]


def test_the_pages_commands_do_what_the_page_says(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    shell = Shell(tmp_path)
    started = time.monotonic()
    took = []
    for step in steps():
        before = time.monotonic()
        check_output(step, shell.run(step.commands))
        took.append(f"{step.section} {time.monotonic() - before:.1f} s")
        if step.section == FIRST_TENSOR:
            first = time.monotonic() - started
    with capsys.disabled():
        print(f"\nnew-device.md after pip install: {first:.1f} s to level 0 passed and the first tensor")
        print(f"new-device.md, each section: {', '.join(took)}")
    result = json.loads((shell.folder / "mychip" / "contract.json").read_text())
    assert (result["driver"], result["level"], result["failed"]) == ("mychip", 0, 0)
    assert result["executed"] == result["passed"] > 0


def test_an_output_that_differs_from_the_page_is_noticed() -> None:
    step = Step("", "command", ["first ... end", "second"])
    check_output(step, "zero\nfirst   of all end\nbetween\nsecond\n")
    for output in ("first of all end\n", "second\nfirst of all end\n", "first of all\nsecond\n"):
        with pytest.raises(AssertionError, match="the page promises"):
            check_output(step, output)
