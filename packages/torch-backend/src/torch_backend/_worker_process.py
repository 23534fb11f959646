"""Processes that answer requests, one JSON line each, and how they end: a crash, or a hang. Both sides are here."""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import pathlib
import queue
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, TextIO

# Seconds to import torch and its databases on a busy machine.
START_LIMIT = 180.0
# A worker ends itself at its limit and prints its stacks. The parent waits this many seconds more before it kills it.
GRACE = 10.0
# The exit status of a worker whose device does not compute any more. The parent starts another worker.
DEVICE_LOST = 75


def slot_for(device: str) -> dict[str, str]:
    """The variable with which a process leaves PyTorch's slot for outside devices to the backend of this device."""
    return {} if device.split(":")[0] in ("tb", "lazy") else {"TB_REGISTER": "0"}


class WorkerFailed(RuntimeError):
    """A worker cannot start or cannot list the cases; the text says why."""


class WorkerProcess:
    """It answers every request, or it has ended and `died` says how. `first` is its answer to the first one."""

    running: ClassVar[weakref.WeakSet[WorkerProcess]] = weakref.WeakSet()

    def __init__(
        self,
        command: Sequence[str],
        request: dict[str, Any],
        *,
        environment: Mapping[str, str],
        folder: pathlib.Path | None = None,
        limit: float = START_LIMIT,
    ) -> None:
        """Starts it, in a folder, and asks the first request.

        Raises:
            WorkerFailed: it does not answer within the limit, in seconds, or answers {"fatal": the reason}.
        """
        self.stderr = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the process)
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.stderr,
            env=environment,
            cwd=folder,
            start_new_session=True,  # so that `kill` reaches what it starts
        )
        WorkerProcess.running.add(self)
        self._buffer = b""
        start = time.monotonic()
        answer = self.ask(request, limit)
        if answer is None or "fatal" in answer:
            reason = answer["fatal"] if answer else self.died(time.monotonic() - start, limit)
            self.close()
            raise WorkerFailed(reason)
        self.first = answer

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
                self.end(GRACE if ready else 0.0)  # a process that closes its output is ending
                return None
            self._buffer += received
        line, self._buffer = self._buffer.split(b"\n", 1)
        answer: dict[str, Any] = json.loads(line)
        return answer

    def died(self, seconds: float, limit: float) -> str:
        """How the process ended that worked for so many seconds of its limit, and what it wrote to stderr."""
        status = self.process.returncode
        try:
            how = f"signal {signal.Signals(-status).name}" if status < 0 else f"exit status {status}"
        except ValueError:
            how = f"signal {-status}"
        self.stderr.seek(0)
        text = self.stderr.read().decode(errors="replace").strip()
        # What the case printed precedes the stacks.
        text = text[text.find("Fatal Python error") :] if "Fatal Python error" in text else text
        return (f"hang: no result after {seconds:.0f} s" if seconds >= limit else f"crash: {how}") + (
            f"\n{text[:3000]}" if text else ""
        )

    def kill(self) -> None:
        """Kills the process and all that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def end(self, seconds: float = 1.0) -> None:
        """Waits so long for the process to end; then kills it. What it started ends with it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        self.kill()
        self.process.wait()
        WorkerProcess.running.discard(self)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            if self.process.stdin is not None:
                self.process.stdin.close()
        self.end()
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.stderr.close()


def events(
    works: Sequence[Callable[[Callable[[Any], None]], None]], stop: threading.Event, limit: float
) -> Iterator[Any]:
    """Runs each function on a thread of its own, and yields what they put, until all have returned.

    What one raises is raised here. When the caller leaves, or an interrupt comes, `stop` is set and all workers are
    killed; each thread then gets so many seconds to end.
    """
    ends = object()
    put: queue.Queue[Any] = queue.Queue()

    def run(work: Callable[[Callable[[Any], None]], None]) -> None:
        try:
            work(put.put)
        except BaseException as error:
            put.put(error)
        finally:
            put.put(ends)

    threads = [threading.Thread(target=run, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    running = len(threads)
    try:
        while running:
            event = put.get()
            if event is ends:
                running -= 1
            elif isinstance(event, BaseException):
                raise event
            else:
                yield event
    finally:
        stop.set()
        if running:
            for worker in [*WorkerProcess.running]:
                worker.kill()
        for thread in threads:
            thread.join(limit)


def answer(stream: TextIO, text: dict[str, Any]) -> None:
    """Answers a request, in a worker."""
    stream.write(json.dumps(text) + "\n")
    stream.flush()


def run_worker(serve: Callable[[TextIO], int]) -> None:
    """Serves the requests of stdin, then ends this process, a worker, with the status that `serve` returns.

    Answers go to the original stdout; other output goes to stderr.
    """
    faulthandler.enable()
    warnings.simplefilter("ignore")
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    status = serve(answers)
    answers.close()
    sys.stderr.flush()
    os._exit(status)  # the end of the interpreter and of the device is not tested here
