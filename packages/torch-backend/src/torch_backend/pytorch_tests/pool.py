"""The worker processes of a run: each has one test file at a time. A crash or a hang is the result of its test."""

from __future__ import annotations

import functools
import hashlib
import os
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from torch_backend._worker_process import GRACE, WorkerFailed, WorkerProcess, events, slot_for
from torch_backend.pytorch_tests.checkout import ACCELERATOR, Checkout, kind_of
from torch_backend.pytorch_tests.device_tests import variables
from torch_backend.pytorch_tests.result import FAILED, Result, TestName

# Tests that a worker takes at once, so that several workers share a large file.
CHUNK = 100
# Seconds to import a test file, which lists thousands of tests for each type of device.
LIST_LIMIT = 600.0
# What stands for a file that cannot be imported.
IMPORT = "(import)"


Event = Result | tuple[str, list[str]]  # a test's result; a file and all its tests
Put = Callable[[Event], None]


@dataclass(frozen=True)
class Setup:
    """What every worker of a run receives."""

    checkout: Checkout
    device: str
    test_limit: float
    command: tuple[str, ...] = (sys.executable, "-m", "torch_backend.pytorch_tests.worker")

    def variables(self, device: str) -> dict[str, str]:
        """Of the worker for the device under test, or of one for stock CPU."""
        own = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"} if device == "cpu" else variables(device)
        # PyTorch's own limit for tests of several processes. At its end it prints what each of them does.
        limit = {"DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": str(round(0.9 * self.test_limit))}
        return os.environ | own | slot_for(device) | limit | {"OMP_NUM_THREADS": "1"}


def sample(tests: list[str], count: int, seed: int) -> list[str]:
    """So many of the tests, drawn by the seed, in their order. 0: all."""
    if not count or len(tests) <= count:
        return tests
    drawn = sorted(tests, key=lambda test: hashlib.sha256(f"{seed} {test}".encode()).digest())[:count]
    return [test for test in tests if test in set(drawn)]


class Schedule:
    """Files that nobody has listed yet, and chunks of tests of those that are listed."""

    def __init__(self, unlisted: Iterable[str], listed: Iterable[tuple[str, list[str]]]) -> None:
        self._changed = threading.Condition()
        self._unlisted = deque(unlisted)
        self._chunks: deque[tuple[str, list[str]]] = deque()
        self._listing = 0
        for file, tests in listed:
            self._put(file, tests)

    def _put(self, file: str, tests: list[str]) -> None:
        self._chunks.extend((file, tests[at : at + CHUNK]) for at in range(0, len(tests), CHUNK))

    def take(self, file: str | None) -> tuple[str, list[str] | None] | None:
        """Tests to run, of `file` if there are; or a file to list, with None; or None: all is given out."""
        with self._changed:
            while True:
                for chunk in self._chunks:
                    if chunk[0] == file:
                        self._chunks.remove(chunk)
                        return chunk
                if self._unlisted:
                    self._listing += 1
                    return self._unlisted.popleft(), None
                if self._chunks:
                    return self._chunks.popleft()
                if not self._listing:
                    return None
                self._changed.wait()

    def list_file(self, file: str, tests: list[str]) -> None:
        """Answers a `take` that gave a file to list."""
        with self._changed:
            self._listing -= 1
            self._put(file, tests)
            self._changed.notify_all()

    def files_to_list(self) -> int:
        with self._changed:
            return len(self._unlisted) + self._listing


class Pool:
    """Runs the tests of files in `count` workers."""

    def __init__(self, setup: Setup, count: int, choose: Callable[[list[str]], list[str]]) -> None:
        """choose: which of a file's tests are run."""
        self.setup = setup
        self.count = count
        self._choose = choose
        # Workers are killed, so that their folders are in one of this process.
        self._reports = tempfile.TemporaryDirectory(prefix="pytorch-tests-")

    def run(self, schedule: Schedule, stop: threading.Event) -> Iterator[Event]:
        """Yields (file, all its tests) when a file is listed, and results. After `stop` no further test begins."""
        works = [functools.partial(self._serve, schedule, stop)] * self.count
        yield from events(works, stop, self.setup.test_limit + GRACE)

    def _serve(self, schedule: Schedule, stop: threading.Event, put: Put) -> None:
        worker: WorkerProcess | None = None
        here: str | None = None
        try:
            while not stop.is_set() and (task := schedule.take(here)) is not None:
                file, tests = task
                if worker is not None and file != here:
                    worker.close()
                    worker = None
                here = file
                try:
                    if tests is None:
                        chosen: list[str] = []
                        try:
                            worker = self._start(file)
                            chosen = self._choose(worker.first["tests"])
                            put((file, worker.first["tests"]))
                        finally:
                            schedule.list_file(file, chosen)
                    else:
                        worker = self._run(worker, file, tests, stop, put)
                except WorkerFailed as error:
                    worker = None
                    name = TestName(file, IMPORT)
                    cpu = self._on_cpu(name) if kind_of(file) == ACCELERATOR else None
                    put(Result(name, FAILED, " ".join(str(error).split())[:600], cpu=cpu))
        finally:
            if worker is not None:
                worker.close()

    def _start(self, file: str, device: str | None = None) -> WorkerProcess:
        device = device or self.setup.device
        # Tests of several processes take as many as there are devices. The CPU driver has two, unless asked otherwise.
        devices = {"TB_CPU_DEVICES": "2"} if kind_of(file) == ACCELERATOR else {}
        return WorkerProcess(
            self.setup.command,
            {
                "path": str(self.setup.checkout.path(file)),
                "device": device,
                "kind": kind_of(file),
                "reports": tempfile.mkdtemp(dir=self._reports.name),
            },
            environment=devices | self.setup.variables(device),
            folder=self.setup.checkout.tests,
            limit=LIST_LIMIT,
        )

    def _on_cpu(self, name: TestName) -> str | None:
        """What the test does in a process of its own without the device under test. None: it has no such test."""
        try:
            worker = self._start(name.file, "cpu")
        except WorkerFailed:
            return FAILED
        try:
            if name.test not in worker.first["tests"]:
                return None
            limit = self.setup.test_limit
            answer = worker.ask({"test": name.test, "limit": limit}, limit + GRACE)
            return str(answer["result"]["outcome"]) if answer else FAILED
        finally:
            worker.close()

    def _run(
        self, worker: WorkerProcess | None, file: str, tests: list[str], stop: threading.Event, put: Put
    ) -> WorkerProcess | None:
        """Runs tests of a file. Returns the worker that is left."""
        limit = self.setup.test_limit
        for test in tests:
            if stop.is_set():
                break
            worker = worker or self._start(file)
            start = time.monotonic()
            answer = worker.ask({"test": test, "limit": limit}, limit + GRACE)
            name = TestName(file, test)
            if answer is not None:
                result = Result(name=name, **answer["result"])
            else:
                seconds = time.monotonic() - start
                how = worker.died(seconds, limit)
                result = Result(name, FAILED, how.split("\n")[0], how, seconds=round(seconds, 3))
            if result.outcome == FAILED and kind_of(file) == ACCELERATOR:
                result = replace(result, cpu=self._on_cpu(name))
            put(result)
            if answer is None or answer["lost"]:
                worker.close()
                worker = None
        return worker
