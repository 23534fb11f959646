"""Runs cases in worker processes: enforces time limits, survives crashes and hangs, reports what happened."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from typing import IO, Any

from .target import WORKER, Case, Target
from .worker import STACKS

PASSED, FAILED, NOT_OFFERED, WARNED = "passed", "failed", "not offered", "warned"
EXPECTED = "expected failure"

OPENING_SECONDS = 60.0  # a driver for real hardware may take long to open
STACKS_SECONDS = 1.0
OUTPUT_LINES = 30


@dataclass
class Result:
    """What became of a case. text: why. where: "file:line" of the check. output: of the process, if it ended."""

    case: Case
    outcome: str
    text: str = ""
    where: str = ""
    statements: list[str] = field(default_factory=list)
    seconds: float = 0.0
    output: str = ""


class WorkerEnded(Exception):
    """The worker is gone or was killed. str() says how; output is the end of what it printed."""

    def __init__(self, text: str, output: str) -> None:
        super().__init__(text)
        self.output = output


class _Worker:
    """One child process with the driver open."""

    def __init__(self, target: Target) -> None:
        self._printed: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the worker
        requests, self._requests = os.pipe()
        self._answers, answers = os.pipe()
        self._rest = b""
        self._process = subprocess.Popen(
            [*WORKER, "--requests", str(requests), "--answers", str(answers)],
            stdin=subprocess.DEVNULL,
            stdout=self._printed,
            stderr=self._printed,
            pass_fds=(requests, answers),
            start_new_session=True,  # Ctrl-C is the parent's; the worker's own children end with its group
        )
        os.close(requests)
        os.close(answers)
        try:
            self.about = self.ask(target.words(), OPENING_SECONDS)
        except BaseException:
            self.kill()
            raise
        self.problem = str(self.about.get("problem", ""))

    def ask(self, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Sends a request and waits for the answer. Raises WorkerEnded after the limit or the process's end."""
        try:
            os.write(self._requests, json.dumps(request).encode() + b"\n")
        except BrokenPipeError:
            raise self._ended() from None
        until = time.monotonic() + seconds
        while b"\n" not in self._rest:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._answers], [], [], left)[0]:
                raise self._hangs(seconds)
            chunk = os.read(self._answers, 1 << 16)
            if not chunk:
                raise self._ended()
            self._rest += chunk
        line, self._rest = self._rest.split(b"\n", 1)
        answer: dict[str, Any] = json.loads(line)
        return answer

    def kill(self) -> None:
        """Ends the process and what it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for descriptor in (self._requests, self._answers):
            os.close(descriptor)

    def output(self) -> str:
        """The last lines of what it printed."""
        self._printed.seek(0)
        lines = self._printed.read().decode(errors="replace").strip().splitlines()
        return "\n".join(lines[-OUTPUT_LINES:])

    def _ended(self) -> WorkerEnded:
        code = self._process.wait()
        how = f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
        return WorkerEnded(f"the process ended with {how}", self.output())

    def _hangs(self, seconds: float) -> WorkerEnded:
        before = os.fstat(self._printed.fileno()).st_size
        self._process.send_signal(STACKS)
        until = time.monotonic() + STACKS_SECONDS
        while os.fstat(self._printed.fileno()).st_size == before and time.monotonic() < until:
            time.sleep(0.01)
        return WorkerEnded(f"no end within its limit of {seconds:g} s; killed", self.output())


class Session:
    """Runs cases on a target, one after another. Use it as a context manager.

    about: what the driver says of itself, from its first opening: name, version, abi, build_id, groups.
    problem: why it could not be opened, or why its last close was refused; "" if all is well.
    """

    def __init__(self, target: Target, *, limit: float | None = None) -> None:
        """limit: seconds for each case instead of its own."""
        self.target = target
        self.limit = limit
        self.about: dict[str, Any] = {}
        self.problem = ""
        self._worker: _Worker | None = None
        self._closing = ""
        try:
            self._open()
        except WorkerEnded as ended:
            self.problem = f"while the driver opened: {ended}\n{ended.output}".strip()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _open(self) -> _Worker:
        if self._worker is None:
            worker = _Worker(self.target)
            self._worker = worker
            if worker.problem:
                self.problem = worker.problem
                raise WorkerEnded(worker.problem, worker.output())
            self.about = self.about or worker.about
        return self._worker

    def _drop(self) -> None:
        if self._worker is not None:
            self._worker.kill()
            self._worker = None

    def close(self) -> None:
        """Closes the driver; a refusal becomes the session's problem. The next case opens it again."""
        if self._worker is None:
            return
        try:
            answer = self._worker.ask({"close": True}, self.limit or OPENING_SECONDS)
            self.problem = self.problem or str(answer.get("problem", ""))
        except WorkerEnded as ended:
            self.problem = self.problem or f"while the driver closed: {ended}\n{ended.output}".strip()
        self._drop()

    def run(self, case: Case) -> Result:
        """Runs one case. Never raises for what a driver does."""
        if case.own_process:
            self.close()
        start = time.monotonic()
        try:
            answer = self._open().ask({"run": case.id}, self.limit or case.seconds)
        except WorkerEnded as ended:
            self._drop()
            return Result(case, FAILED, str(ended), "", [], time.monotonic() - start, ended.output)
        if answer["outcome"] == FAILED:
            self._drop()  # what it left behind in the driver is not the next case's
        elif case.own_process:
            self.close()
        result = Result(case, answer["outcome"], answer["text"], answer["where"], answer["statements"])
        result.seconds = answer["seconds"]
        return result
