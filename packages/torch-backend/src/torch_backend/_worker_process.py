"""A process that answers requests, one JSON line each, and can say how it ended: a crash, or a hang."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

# Seconds to import torch and its databases on a busy machine.
START_LIMIT = 180.0
# A worker ends itself at its limit and prints its stacks. The parent waits this many seconds more before it kills it.
GRACE = 10.0


class WorkerFailed(RuntimeError):
    """A worker cannot start or cannot list the cases; the text says why."""


class WorkerProcess:
    """It answers every request, or it has ended and `died` says how. `first` is its answer to the first one."""

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
        )
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

    def end(self, seconds: float = 1.0) -> None:
        """Waits so long for the process to end; then kills it."""
        try:
            self.process.wait(seconds)
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
