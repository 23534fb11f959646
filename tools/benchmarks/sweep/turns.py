"""Two processes, one for stock cpu without tb and one for tb, that time the same line of the sweep in turn.

A process is stopped while it is not its turn, so none of its threads uses a processor: neither OpenMP's threads nor the
device's worker end or sleep at once when they have no work.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.sweep.operator import Operator
from benchmarks.sweep.rows import Row
from benchmarks.threads import SETTINGS

ENVIRONMENTS = {"cpu": {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}, "tb": {"TB_FALLBACK": "allow"}}


@dataclass(frozen=True)
class Plan:
    """`rounds` of one block of each process, which takes about `seconds`."""

    rounds: int = 3
    seconds: float = 0.015


class LineError(Exception):
    """A process could not measure a line."""


class Process:
    """A process of benchmarks.sweep.worker. It runs only while it is asked."""

    def __init__(self, device: str, popen: subprocess.Popen[str]) -> None:
        self._device = device
        self._popen = popen

    @property
    def pid(self) -> int:
        return self._popen.pid

    def ask(self, **request: object) -> dict[str, Any]:
        """The answer. LineError: it is an exception. SystemExit: the process has ended."""
        assert self._popen.stdin
        assert self._popen.stdout
        self._popen.send_signal(signal.SIGCONT)
        with contextlib.suppress(BrokenPipeError):
            self._popen.stdin.write(json.dumps(request) + "\n")
            self._popen.stdin.flush()
        line = self._popen.stdout.readline()
        if not line:
            raise SystemExit(f"sweep: the process for {self._device} ended with {self._popen.wait()} at {request}")
        self._popen.send_signal(signal.SIGSTOP)
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise LineError(f"{self._device}: {answer['error']}")
        return answer


@contextlib.contextmanager
def process(device: str, threads: str) -> Iterator[Process]:
    environment = {**os.environ, **SETTINGS[threads], **ENVIRONMENTS[device]}
    if device == "tb":
        environment.pop("TORCH_DEVICE_BACKEND_AUTOLOAD", None)
    command = [sys.executable, "-m", "benchmarks.sweep.worker", device]
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as popen:
        try:
            yield Process(device, popen)
        finally:
            popen.kill()
            assert popen.stdin
            with contextlib.suppress(BrokenPipeError):  # of a request that was not read
                popen.stdin.close()


def line(stock: Process, tb: Process, operator: Operator, elements: int, threads: str, plan: Plan, file: Path) -> Row:
    """Measures a line. `file`: where tb's result is, with which stock's is compared."""
    request = {"name": operator.name, "elements": elements, "seconds": plan.seconds}
    try:
        fallbacks = tb.ask(**request, write=str(file))["fallbacks"]
        stock.ask(**request, compare=str(file))
        times: dict[Process, list[float]] = {stock: [], tb: []}
        for turn in range(plan.rounds):
            for one in list(times)[:: 1 if turn % 2 else -1]:
                times[one].append(one.ask()["microseconds"])
    except LineError as error:
        return Row(operator.family, operator.name, elements, threads, error=str(error))
    ratios = tuple(ours / theirs for ours, theirs in zip(times[tb], times[stock], strict=True))
    medians = statistics.median(times[stock]), statistics.median(times[tb])
    return Row(operator.family, operator.name, elements, threads, *medians, ratios, tuple(fallbacks))


def measure(
    operators: Sequence[Operator], sizes: Sequence[int], plan: Plan, settings: Sequence[str] = tuple(SETTINGS)
) -> Iterator[Row]:
    """Measures and yields the rows, at one setting of threads after the other."""
    for threads in settings:
        with (
            tempfile.TemporaryDirectory() as folder,
            process("cpu", threads) as stock,
            process("tb", threads) as tb,
        ):
            for operator in operators:
                for elements in sizes:
                    yield line(stock, tb, operator, elements, threads, plan, Path(folder, "result"))
