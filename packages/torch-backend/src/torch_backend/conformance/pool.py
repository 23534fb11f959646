"""The worker processes of a run. A crash or a hang is the result of its case, and another worker continues."""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torch_backend._worker_process import GRACE, START_LIMIT, WorkerFailed, WorkerProcess, events, slot_for
from torch_backend.conformance.case import FAILED, Case, Result


@dataclass(frozen=True)
class Setup:
    """What every worker of a run receives at its start."""

    device: str
    profile: str
    seed: int
    case_limit: float
    samples: int = 0
    command: tuple[str, ...] = (sys.executable, "-m", "torch_backend.conformance.worker")


def start_worker(setup: Setup) -> WorkerProcess:
    """A worker that is ready for cases."""
    request = {name: getattr(setup, name) for name in ("device", "profile", "seed", "case_limit", "samples")}
    # The CPU driver has two devices, for checks of tensors on different ones.
    environment = {"TB_CPU_DEVICES": "2"} | os.environ | {"OMP_NUM_THREADS": "1"} | slot_for(setup.device)
    return WorkerProcess(setup.command, request, environment=environment)


class Pool:
    """Runs cases in `count` workers. The constructor starts the first one, so that errors of the setup appear at once.

    Raises:
        WorkerFailed: the device or the databases cannot be used.
    """

    def __init__(self, setup: Setup, count: int) -> None:
        self.setup = setup
        self.count = count
        self._first: WorkerProcess | None = start_worker(setup)
        self.facts: dict[str, Any] = self._first.first["facts"]

    def list_cases(self, checks: list[str]) -> tuple[list[Case], list[tuple[str, str]]]:
        """The cases of the databases; see checks.list_cases."""
        assert self._first is not None
        answer = self._first.ask({"list_cases": checks}, START_LIMIT)
        if answer is None:
            reason = f"reading the databases: {self._first.died(0, START_LIMIT)}"
            self.close()
            raise WorkerFailed(reason)
        return [Case(*case) for case in answer["cases"]], [(check, entry) for check, entry in answer["without"]]

    def run(self, cases: list[Case], stop: threading.Event) -> Iterator[Result]:
        """Yields the results as they come. After `stop` no further case begins."""
        pending = deque(cases)
        first, self._first = self._first, None
        count = max(1, min(self.count, len(cases)))
        works = [functools.partial(self._work, first if index == 0 else None, pending, stop) for index in range(count)]
        yield from events(works, stop, self.setup.case_limit + GRACE)

    def _work(
        self, worker: WorkerProcess | None, pending: deque[Case], stop: threading.Event, put: Callable[[Result], None]
    ) -> None:
        before: deque[str] = deque(maxlen=3)
        try:
            while not stop.is_set():
                try:
                    case = pending.popleft()
                except IndexError:
                    break
                if worker is None:
                    worker = start_worker(self.setup)
                    before.clear()
                start = time.monotonic()
                answer = worker.ask({"case": list(case)}, self.setup.case_limit + GRACE)
                if answer is not None:
                    result = Result.from_json(answer["result"])
                else:
                    seconds = time.monotonic() - start
                    result = Result(
                        case,
                        FAILED,
                        worker.died(seconds, self.setup.case_limit),
                        failed_samples=1,
                        seconds=round(seconds, 3),
                    )
                    result.extra["before it in the same process"] = list(before)
                put(result)
                before.append(str(case))
                if answer is None or answer["lost"]:
                    worker.close()
                    worker = None
        finally:
            if worker is not None:
                worker.close()

    def close(self) -> None:
        if self._first is not None:
            self._first.close()
            self._first = None
