"""Runs a suite's pytest in a process, and in another where that ended within a test, which has failed then."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from torch_backend.pytorch_tests.result import FAILED, Result, TestName

from suites.plugin import DEVICE_LOST, VARIABLE
from suites.suite import Suite

STARTS = 30
"""So many processes may end within a test before a run gives up."""
COLLECTION = 600.0
"""Seconds without a line in the log, beside a test's limit, after which a process is killed: it does not collect."""


class SuiteFailed(RuntimeError):
    """pytest cannot run the suite; the text says why."""


def run(
    suite: Suite, root: pathlib.Path, folder: pathlib.Path, device: str, asked: Sequence[TestName] | None, text: str
) -> Iterator[Result]:
    """Yields the results of all tests, or of those asked for, on a device.

    Arguments:
        root: of the tests.
        folder: for the log and for what pytest prints.
        text: only tests that pytest's -k finds by it; "" for all.

    Raises:
        SuiteFailed: pytest does not collect the tests, or ends within too many of them.
    """
    done: list[TestName] = []
    printed = folder / f"{device}.txt"
    printed.unlink(missing_ok=True)
    for _ in range(STARTS):
        log = folder / f"{device}.jsonl"
        log.unlink(missing_ok=True)
        request = folder / f"{device}.json"
        fields = {"device": device, "log": str(log), "limit": suite.limit, "done": done, "asked": asked}
        request.write_text(json.dumps(fields | {"default_device": suite.default_device, "numpy": suite.numpy}))
        paths = suite.tests if asked is None else sorted({f"{name.file}.py" for name in asked})
        paths = [path for path in paths if (root / path).exists()]
        command = [sys.executable, "-m", "pytest", "-p", "suites.plugin", "-p", "no:cacheprovider", "-q", "--tb=short"]
        command += ["-c", str(root / "pytest.ini"), "--rootdir", str(root), "--continue-on-collection-errors"]
        command += [*suite.options_for(device), *(["-k", text] if text else []), *paths]
        started = None
        with printed.open("a") as output:
            process = subprocess.Popen(
                command, cwd=root, stdout=output, stderr=output, env=_variables(suite, device, request)
            )
            for line in _lines(process, log, suite.limit + COLLECTION):
                if "started" in line:
                    started = (TestName(*line["started"]), time.monotonic())
                    continue
                result = Result.from_json(line)
                done.append(result.name)
                started = None
                yield result
        if started:
            name, since = started
            seconds = time.monotonic() - since
            how = f"hang: no result after {seconds:.0f} s" if seconds >= suite.limit else f"crash: {_how(process)}"
            done.append(name)
            yield Result(name, FAILED, how, seconds=seconds)
        elif process.returncode in (0, 1, 5):
            return
        elif process.returncode != DEVICE_LOST:
            raise SuiteFailed(f"pytest ended with {_how(process)}: {printed} has what it printed")
        if asked is not None:
            asked = [name for name in asked if name not in done]
    raise SuiteFailed(f"{STARTS} processes ended within a test, the last within {done[-1]}")


def _how(process: subprocess.Popen[Any]) -> str:
    status = process.returncode
    return signal.Signals(-status).name if status < 0 else f"status {status}"


def _variables(suite: Suite, device: str, request: pathlib.Path) -> dict[str, str]:
    """The environment of a process. On the CPU, torch is as it comes, without torch_backend."""
    variables = dict(os.environ) | {VARIABLE: str(request), "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    variables |= {"TOKENIZERS_PARALLELISM": "false", "TORCH_DEVICE_BACKEND_AUTOLOAD": "0" if device == "cpu" else "1"}
    return variables | suite.variables_for(device)


def _lines(process: subprocess.Popen[Any], log: pathlib.Path, patience: float) -> Iterator[dict[str, Any]]:
    """The lines that a process adds to its log, until it ends. One that adds none for so many seconds is killed."""
    position, last = 0, time.monotonic()
    while True:
        ended = process.poll() is not None
        if log.exists():
            with log.open() as file:
                file.seek(position)
                for text in iter(file.readline, ""):
                    if not text.endswith("\n"):
                        break
                    position += len(text.encode())
                    last = time.monotonic()
                    yield json.loads(text)
        if ended:
            return
        if time.monotonic() - last > patience:
            process.kill()
        time.sleep(0.2)
