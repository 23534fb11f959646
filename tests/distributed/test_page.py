"""The program of docs/distributed.md runs by the command that stands above it."""

from __future__ import annotations

import pathlib
import re

from distributed.ranks import TESTS, torchrun


def test_the_program_of_the_page_trains_on_two_ranks(tmp_path: pathlib.Path) -> None:
    page = (TESTS.parent / "docs" / "distributed.md").read_text()
    (program,) = re.findall(r"^```py\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (tmp_path / "train.py").write_text(program)
    run = torchrun("train", 2, [], tmp_path, seconds=100)
    run.check()
    printed = dict(re.findall(r"^([01]) (\d\.\d+)$", run.outputs[0], re.MULTILINE))
    assert printed.keys() == {"0", "1"}, run.text
