"""Worker processes. If one crashes or hangs, that is the result of its case, and another worker continues."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from torch_backend.conformance.case import FAILED, Case, Result

# Seconds to import torch and its databases on a busy machine.
START_LIMIT = 180.0
# A worker ends itself at its limit and prints its stacks. The parent waits this many seconds more before it kills it.
GRACE = 10.0


class WorkerFailed(RuntimeError):
    """A worker cannot start or cannot list the cases; the text says why."""


@dataclass(frozen=True)
class Setup:
    """What every worker of a run receives at its start."""

    device: str
    profile: str
    seed: int
    case_limit: float
    samples: int = 0
    command: tuple[str, ...] = (sys.executable, "-m", "torch_backend.conformance.worker")


class Worker:
    """One process. It answers every request, or it has ended and `died` says how."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.stderr = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        self.process = subprocess.Popen(
            setup.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.stderr,
            # The CPU driver has two devices, for checks of tensors on different ones.
            env={"TB_CPU_DEVICES": "2"} | os.environ | {"OMP_NUM_THREADS": "1"},
        )
        self._buffer = b""
        request = {name: getattr(setup, name) for name in ("device", "profile", "seed", "case_limit", "samples")}
        answer = self.ask(request, START_LIMIT)
        if answer is None or "fatal" in answer:
            reason = answer["fatal"] if answer else self.died(START_LIMIT)
            self.close()
            raise WorkerFailed(reason)
        self.facts: dict[str, Any] = answer["facts"]

    def ask(self, request: dict[str, Any], limit: float) -> dict[str, Any] | None:
        """The answer. None if the process ended, or exceeded the limit (in seconds) and was killed."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.stderr.seek(0)
        self.stderr.truncate()
        deadline = time.monotonic() + limit
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            self.end()
            return None
        while b"\n" not in self._buffer:
            ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            received = os.read(self.process.stdout.fileno(), 1 << 16) if ready else b""
            if not received:
                self.end()
                return None
            self._buffer += received
        line, self._buffer = self._buffer.split(b"\n", 1)
        answer: dict[str, Any] = json.loads(line)
        return answer

    def died(self, seconds: float) -> str:
        """How the process ended, and what it wrote to stderr."""
        status = self.process.returncode
        try:
            how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        except ValueError:
            how = f"signal {-status}"
        self.stderr.seek(0)
        text = self.stderr.read().decode(errors="replace").strip()
        # What the case printed precedes the stacks.
        text = text[text.find("Fatal Python error") :] if "Fatal Python error" in text else text
        hung = seconds >= self.setup.case_limit
        return (f"hang: no result after {seconds:.0f} s" if hung else f"crash: {how}") + (
            f"\n{text[:3000]}" if text else ""
        )

    def end(self) -> None:
        """Waits up to a second for the process to end; then kills it."""
        try:
            self.process.wait(1.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            if self.process.stdin is not None:
                self.process.stdin.close()
        self.end()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.stderr.close()


class Pool:
    """Runs cases in `count` workers. The constructor starts the first one, so that errors of the setup appear at once.

    Raises:
        WorkerFailed: the device or the databases cannot be used.
    """

    def __init__(self, setup: Setup, count: int) -> None:
        self.setup = setup
        self.count = count
        self._first: Worker | None = Worker(setup)
        self.facts = self._first.facts

    def list_cases(self, checks: list[str]) -> tuple[list[Case], list[tuple[str, str]]]:
        """The cases of the databases; see checks.list_cases."""
        assert self._first is not None
        answer = self._first.ask({"list_cases": checks}, START_LIMIT)
        if answer is None:
            reason = f"reading the databases: {self._first.died(0)}"
            self.close()
            raise WorkerFailed(reason)
        return [Case(*case) for case in answer["cases"]], [(check, entry) for check, entry in answer["without"]]

    def run(self, cases: list[Case], stop: threading.Event) -> Iterator[Result]:
        """Yields the results as they come. After `stop` no further case begins."""
        pending = deque(cases)
        results: queue.Queue[Result | BaseException | None] = queue.Queue()
        first, self._first = self._first, None
        count = max(1, min(self.count, len(cases)))

        def work(worker: Worker | None) -> None:
            try:
                self._work(worker, pending, results, stop)
            except BaseException as error:
                results.put(error)
            finally:
                results.put(None)

        threads = [
            threading.Thread(target=work, args=(first if index == 0 else None,), daemon=True) for index in range(count)
        ]
        for thread in threads:
            thread.start()
        try:
            running = count
            while running:
                result = results.get()
                if result is None:
                    running -= 1
                elif isinstance(result, BaseException):
                    raise result
                else:
                    yield result
        finally:
            stop.set()
            for thread in threads:
                thread.join(self.setup.case_limit + GRACE)

    def _work(
        self, worker: Worker | None, pending: deque[Case], results: queue.Queue[Any], stop: threading.Event
    ) -> None:
        before: deque[str] = deque(maxlen=3)
        try:
            while not stop.is_set():
                try:
                    case = pending.popleft()
                except IndexError:
                    break
                if worker is None:
                    worker = Worker(self.setup)
                    before.clear()
                start = time.monotonic()
                answer = worker.ask({"case": list(case)}, self.setup.case_limit + GRACE)
                if answer is not None:
                    result = Result.from_json(answer["result"])
                else:
                    seconds = time.monotonic() - start
                    result = Result(case, FAILED, worker.died(seconds), failed_samples=1, seconds=round(seconds, 3))
                    result.extra["before it in the same process"] = list(before)
                results.put(result)
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
