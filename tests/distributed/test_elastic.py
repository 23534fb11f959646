"""Ranks that are started again go on from the last whole checkpoint as if nothing had happened."""

from __future__ import annotations

import json
import pathlib
import signal
import socket
from typing import Any

import pytest

from distributed.programs.elastic import LIMIT, STEPS
from distributed.ranks import Run, run_ranks, torchrun

PROGRAM = "distributed.programs.elastic"
# In the save behind step 5, the rank that dies, where, and the step from which the next start goes on. Rank 0 alone
# writes the whole kind, and finishes if only rank 1 dies.
DEATHS = {
    "whole": [(0, "part", 3), (1, "part", 6)],
    "sharded": [(0, "part", 3), (1, "part", 3), (0, "metadata", 3)],
}


def ends(folder: pathlib.Path) -> list[dict[str, Any]]:
    """What the ranks wrote at their end."""
    return [json.loads((folder / f"end.{rank}").read_text()) for rank in range(2)]


def start(folder: pathlib.Path, kind: str, *death: str) -> Run:
    folder.mkdir(exist_ok=True)
    return run_ranks(PROGRAM, 2, [str(folder), kind, *death], folder, seconds=90)


def unbroken(folder: pathlib.Path, kind: str) -> list[dict[str, Any]]:
    start(folder, kind).check()
    whole = ends(folder)
    assert [(one["first"], len(one["losses"])) for one in whole] == [(0, STEPS)] * 2
    return whole


def check_equal(whole: list[dict[str, Any]], resumed: list[dict[str, Any]], first: int) -> None:
    """The losses and the weights of a run that went on from a step are those of the other one."""
    for one, other in zip(whole, resumed, strict=True):
        assert other["first"] == first
        assert other["losses"] == {step: loss for step, loss in one["losses"].items() if int(step) >= first}
        assert len(other["losses"]) == STEPS - first
        assert other["weights"] == one["weights"]


# torchrun keeps its store in both when it starts the ranks again, and finds the other machines in another way.
RENDEZVOUS = {"standalone": ["--standalone"], "static": ["--master-addr=127.0.0.1", "--master-port={port}"]}


@pytest.mark.parametrize("rendezvous", RENDEZVOUS)
def test_losses_and_weights_are_those_of_the_run_without_a_failure(tmp_path: pathlib.Path, rendezvous: str) -> None:
    whole = unbroken(tmp_path / "unbroken", "sharded")
    folder = tmp_path / "broken"
    folder.mkdir()
    # Before step 4, then instead of the save behind step 5, then in it: from the checkpoint of step 3 all three times.
    deaths = ["4", "1", "step", "6", "1", "save", "6", "0", "part"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        ways = [part.format(port=free.getsockname()[1]) for part in RENDEZVOUS[rendezvous]]
    arguments, options = [str(folder), "sharded", *deaths], ["--max-restarts=3"]
    torchrun(PROGRAM, 2, arguments, folder, seconds=150, rendezvous=ways, options=options).check()
    resumed = ends(folder)
    assert [one["start"] for one in resumed] == [3, 3]
    check_equal(whole, resumed, first=3)


@pytest.mark.parametrize("kind", DEATHS)
def test_a_rank_killed_in_a_save_leaves_no_checkpoint_that_is_taken_for_whole(
    kind: str, tmp_path: pathlib.Path
) -> None:
    whole, folder, first = unbroken(tmp_path / "unbroken", kind), tmp_path / "broken", 0
    for rank, place, after in DEATHS[kind]:
        run = start(folder, kind, "6", str(rank), place)
        statuses = [1, 1]
        statuses[rank] = -signal.SIGKILL
        run.check(statuses)
        seen = json.loads((folder / f"failed.{1 - rank}").read_text())
        assert seen["first"] == first, "another checkpoint was taken for the last whole one"
        assert seen["seconds"] < LIMIT.total_seconds() / 2, "gloo notices a closed connection at once"
        assert "Connection" in seen["text"], seen
        first = after
    start(folder, kind).check()
    check_equal(whole, ends(folder), first)
