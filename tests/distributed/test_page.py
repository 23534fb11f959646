"""The program of docs/distributed.md runs by the command that stands above it."""

from __future__ import annotations

import pathlib
import re

from distributed.ranks import TESTS, torchrun


def test_the_program_of_the_page_trains_on_two_ranks(tmp_path: pathlib.Path) -> None:
    page = (TESTS.parent / "docs" / "distributed.md").read_text()
    (program,) = re.findall(r"^```py\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    (tmp_path / "train.py").write_text(program)
    logs = tmp_path / "logs"  # the ranks write a line in parts, which would mix in one output
    run = torchrun("train", 2, [], tmp_path, seconds=100, options=["--log-dir", str(logs), "--redirects", "1"])
    run.check()
    printed = [path.read_text() for rank in ("0", "1") for path in logs.glob(f"**/{rank}/stdout.log")]
    assert len(printed) == 2, run.text
    assert all(re.fullmatch(rf"{rank} \d\.\d+\n", text) for rank, text in enumerate(printed)), printed
