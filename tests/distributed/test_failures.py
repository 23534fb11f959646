"""What a rank gets to know when another one ends or stays away, and that nothing hangs or stays behind."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import pytest

from distributed.cases import number_from
from distributed.programs import failing
from distributed.ranks import Run, run_ranks, torchrun

DEATHS = number_from("TB_TEST_DISTRIBUTED_DEATHS", 6)
AT_ONCE = 6  # other ranks in one run
LIMIT = 3.0  # seconds: the time-out of groups
ERROR = "torch.distributed.DistBackendError"
SOURCE = pathlib.Path(failing.__file__).read_text().splitlines()


def observed(run: Run) -> list[dict[str, Any]]:
    """What rank 0 printed."""
    return [json.loads(line) for line in run.outputs[0].splitlines() if line.startswith("{")]


def check_text(kind: str, text: str, saw: dict[str, Any]) -> None:
    """Which call failed, of which group and rank, and where the program made it."""
    assert kind == ERROR, f"{kind}: {text}: {saw}"
    assert re.search(rf"\(call \d+ of process group '{saw['group']}', rank 0 of 2", text), text
    place = re.search(r"failing\.py:(\d+)|failing\.py\", line (\d+)", text)
    assert place, text
    line = SOURCE[int(place.group(1) or place.group(2)) - 1]
    assert "dist." in line or "work" in line, f"{line} is not the line of the call: {text}"


def check_seen(saw: dict[str, Any], where: str) -> None:
    """Where the failure is raised, once, and what works afterwards."""
    if where == "at the host's wait" and saw["at the work's wait"][0]:
        where = "at the work's wait"  # what is known already may be raised before
        assert saw["at the host's wait"][0] == "", f"the failure is raised twice: {saw}"
    kind, text = saw[where][:2]
    if saw["call"] == "dropped":
        assert text == "", f"nobody waits for the call: {saw}"
    else:
        check_text(kind, text, saw)
    assert saw["again"][0] == "", f"the failure is raised twice: {saw['again']}"
    assert saw["kernels"][0] == "", f"kernels do not work any more: {saw['kernels']}"
    kind, text = saw["next call"][:2]
    check_text(kind, text, saw)
    assert saw.get("other group", 2.0) == 2.0


@pytest.mark.parametrize("first", range(0, DEATHS, AT_ONCE))
def test_the_host_s_next_wait_raises_when_a_rank_has_ended(first: int, tmp_path: pathlib.Path) -> None:
    count = min(AT_ONCE, DEATHS - first)
    run = run_ranks("distributed.programs.failing", count + 1, ["20", str(first), "dies"], tmp_path, seconds=100)
    run.check([0] + [failing.ENDED] * count)
    everything = observed(run)
    assert len(everything) == count, run.text
    for saw in everything:
        check_seen(saw, "at the host's wait")
        assert saw["seconds"] < 10, "gloo notices a closed connection at once"


def test_waits_on_the_host_raise_at_the_work(tmp_path: pathlib.Path) -> None:
    env = {"TB_DISTRIBUTED_WAIT": "host"}
    run = run_ranks("distributed.programs.failing", 3, ["20", "0", "dies"], tmp_path, seconds=60, env=env)
    run.check([0, failing.ENDED, failing.ENDED])
    everything = observed(run)
    assert len(everything) == 2, run.text
    for saw in everything:
        check_seen(saw, "at the work's wait")
        assert saw["at the host's wait"][0] == "", saw


def test_a_call_that_a_rank_does_not_make_times_out(tmp_path: pathlib.Path) -> None:
    run = run_ranks("distributed.programs.failing", 4, [str(LIMIT), "0", "away"], tmp_path, seconds=60)
    run.check()
    everything = observed(run)
    assert [saw["call"] for saw in everything] == ["all_reduce", "broadcast", "recv"], run.text
    for saw in everything:
        check_seen(saw, "at the host's wait")
        assert saw["at the work's wait"][2] < LIMIT / 2, "the calling thread waited"
        assert LIMIT - 0.5 < saw["seconds"] < LIMIT + 5, saw


def test_a_process_ends_with_calls_pending_and_groups_not_destroyed(tmp_path: pathlib.Path) -> None:
    run = run_ranks("distributed.programs.ending", 2, ["pending"], tmp_path, seconds=45)
    run.check()
    assert all("the program's end" in output for output in run.outputs), run.text


def test_torchrun_ends_all_ranks_when_one_ends_in_init(tmp_path: pathlib.Path) -> None:
    run = torchrun("distributed.programs.ending", 2, ["in_init"], tmp_path, seconds=60)
    assert run.in_time, run.text
    assert not run.left, run.text
    assert run.statuses != (0,), run.text
    assert "the program's end" not in run.outputs[0], run.text
    assert "exitcode  : 3" in run.outputs[0], run.text
