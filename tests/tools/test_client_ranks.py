"""The checks of clients on several ranks: what is compared, what fails, and that no process is left."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import textwrap
from typing import Any

import pytest
from clients.ranks import Found, Rank, run_ranks, together

GOOD = [Rank(Found(f"tb:{number}", [number], "digest"), 2, "tbccl", []) for number in range(2)]

PROGRAM = """
    import os, time
    import torch
    import torch.distributed as dist
    from clients.ranks import Found, digest

    def adds(device, folder):
        rank = int(os.environ["RANK"])
        dist.init_process_group()
        value = torch.tensor([1.0 + rank], device=torch.device("tb", rank))
        dist.all_reduce(value)
        return Found(str(value.device), value.tolist(), digest([value]))

    def fails(device, folder):
        if os.environ["RANK"] == "1":
            raise ValueError("no such number")
        return Found("cpu", 0)

    def waits(device, folder):
        time.sleep(600)
"""


@pytest.fixture
def program(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of the functions above, which the ranks find."""
    name = "program_of_a_test"
    (tmp_path / f"{name}.py").write_text(textwrap.dedent(PROGRAM))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    return name


def processes_with(text: str) -> list[str]:
    """The command lines with this text, of the processes that are there."""
    found = []
    for file in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # one that ended meanwhile
            found.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [line for line in found if text in line]


def test_the_values_of_all_ranks_are_compared() -> None:
    ran = together("tb", GOOD)
    assert (ran.device, ran.values) == ("tb:0", [[0], [1]])


def test_one_rank_on_the_cpu_makes_it_a_run_on_the_cpu() -> None:
    other = Rank(Found("cpu", [1], "digest"), 2, "gloo", [])
    assert together("tb", [GOOD[0], other]).device == "cpu"
    assert together("cpu", [other, GOOD[0]]).device == "tb:0"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"backend": "gloo"}, "rank 1 is in a process group of 2 that gloo serves on tb:1, not in one of 2 with tbccl"),
        ({"size": 1}, "rank 1 is in a process group of 1"),
        ({"fallbacks": ["aten::sin"]}, "rank 1 fell back to the CPU for aten::sin"),
        ({"found": Found("tb:1", [1], "other")}, "rank 1 has other, but rank 0 digest"),
        ({"found": Found("tb:0", [1], "digest")}, "ranks share a device: they use tb:0, tb:0"),
    ],
)
def test_ranks_that_are_no_group_of_tb_fail(change: Any, text: str) -> None:
    with pytest.raises(RuntimeError, match=text):
        together("tb", [GOOD[0], dataclasses.replace(GOOD[1], **change)])


def test_each_rank_says_what_it_found_and_its_group(program: str) -> None:
    ranks = run_ranks(program, "adds", "tb")
    assert [rank.found.device for rank in ranks] == ["tb:0", "tb:1"]
    assert together("tb", ranks).values == [[3.0], [3.0]]


def test_the_error_of_a_rank_is_named_and_its_output_shown(program: str) -> None:
    with pytest.raises(RuntimeError, match=r"rank 1: ValueError: no such number\n(.|\n)*Traceback"):
        run_ranks(program, "fails", "cpu")


def test_ranks_that_take_too_long_are_ended(program: str) -> None:
    with pytest.raises(RuntimeError, match="waits of program_of_a_test on cpu had not ended after 10 s"):
        run_ranks(program, "waits", "cpu", seconds=10)
    assert processes_with(program) == []
