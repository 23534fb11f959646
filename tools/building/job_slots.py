"""Packages that compile at once share the machine's processors, as the recipes of one `make -j` do.

Ninja 1.13 takes part in GNU make's jobserver: a named pipe with a byte for each processor that is free.
"""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


class JobSlots:
    """A number of slots. Who starts a build holds one, and the build takes another for each job beside its first."""

    def __init__(self, count: int) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="tb-jobs-")
        pipe = pathlib.Path(self._folder.name) / "slots"
        os.mkfifo(pipe)
        self._pipe = os.open(pipe, os.O_RDWR)
        os.write(self._pipe, b"+" * count)
        self._environment = {"MAKEFLAGS": f" -j{count} --jobserver-auth=fifo:{pipe}"}

    @contextlib.contextmanager
    def one(self) -> Iterator[dict[str, str]]:
        """Waits for a slot and holds it. Gives the environment variables that a build needs."""
        slot = os.read(self._pipe, 1)
        try:
            yield self._environment
        finally:
            os.write(self._pipe, slot)


@functools.cache
def job_slots() -> JobSlots:
    """The slots of this process: one for each processor."""
    return JobSlots(os.cpu_count() or 1)


def side_by_side(calls: Sequence[Callable[[], Result]]) -> list[Result]:
    """Makes the calls at once, each in a thread of its own, waits for all of them, and raises the first failure."""
    with ThreadPoolExecutor(max(1, len(calls))) as threads:
        running = [threads.submit(call) for call in calls]
    return [call.result() for call in running]
