"""Builds that run side by side have no more jobs at once than the machine has processors."""

from __future__ import annotations

import functools
import pathlib
import subprocess
import sys
import threading
import time

import pytest
from building.job_slots import JobSlots, side_by_side

NINJA = pathlib.Path(sys.executable).parent / "ninja"
RULES = """
rule job
  command = echo "+ $$(date +%s%N)" >> {log}; sleep 0.2; echo "- $$(date +%s%N)" >> {log}; touch $out
"""


def most_at_once(log: pathlib.Path) -> tuple[int, int]:
    """The largest number of jobs that ran at one time, and the number of jobs."""
    lines = [line.split() for line in log.read_text().splitlines()]
    events = sorted((int(moment), 1 if sign == "+" else -1) for sign, moment in lines)
    running = [sum(step for _, step in events[: i + 1]) for i in range(len(events))]
    return max(running), len(events) // 2


@pytest.mark.parametrize("slots", [1, 3])
def test_ninjas_that_run_at_once_share_the_slots(tmp_path: pathlib.Path, slots: int) -> None:
    log, shared = tmp_path / "log", JobSlots(slots)

    def build(name: str) -> None:
        folder = tmp_path / name
        folder.mkdir()
        jobs = "".join(f"build {name}{i}: job\n" for i in range(5))
        (folder / "build.ninja").write_text(RULES.format(log=log) + jobs)
        with shared.one() as environment:
            variables = {"PATH": "/usr/bin:/bin", **environment}
            subprocess.run([NINJA, "-C", folder], env=variables, check=True, capture_output=True)

    side_by_side([functools.partial(build, name) for name in ("one", "two", "three")])
    assert most_at_once(log) == (slots, 15)


def test_a_build_that_fails_gives_its_slot_back_and_the_others_end_before_it_is_raised() -> None:
    shared, ended = JobSlots(1), threading.Event()

    def fails() -> None:
        with shared.one():
            raise RuntimeError("no compiler")

    def works() -> None:
        time.sleep(0.1)
        with shared.one():
            ended.set()

    with pytest.raises(RuntimeError, match="no compiler"):
        side_by_side([fails, works])
    assert ended.is_set()
