"""A worker process for one test file: reads tests from stdin, one JSON line each, and answers each with one JSON line.

Other output goes to stderr. A test that takes longer than its limit ends the process, which prints all stacks.
"""

from __future__ import annotations

import faulthandler
import json
import pathlib
import sys
import time
import traceback
import unittest
from typing import Any, TextIO

import torch

from torch_backend._worker_process import DEVICE_LOST, answer, run_worker
from torch_backend.conformance.device import Device
from torch_backend.pytorch_tests import device_tests
from torch_backend.pytorch_tests.adaptations import adapt
from torch_backend.pytorch_tests.device_tests import DeviceTest
from torch_backend.pytorch_tests.result import FAILED, PASSED, SKIPPED, XFAILED


class Observed(unittest.TestResult):
    """The first thing that unittest says about a test which is not a success."""

    def __init__(self) -> None:
        super().__init__()
        self.outcome, self.text, self.trace = PASSED, "", ""

    def _note(self, outcome: str, text: str, trace: str = "") -> None:
        if self.outcome in (PASSED, SKIPPED, XFAILED) and (self.outcome == PASSED or outcome == FAILED):
            self.outcome, self.text, self.trace = outcome, text, trace

    def _note_error(self, error: Any) -> None:
        text = _in_one_line(error[1])
        if error[1].__cause__ is not None:
            text = f"{text[:300]} (from {_in_one_line(error[1].__cause__)})"
        trace = "".join(traceback.format_exception(*error))
        self._note(FAILED, text[:600], trace[-4000:])

    def addError(self, test: Any, err: Any) -> None:
        self._note_error(err)

    def addFailure(self, test: Any, err: Any) -> None:
        self._note_error(err)

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:
        if err is not None:
            self._note_error(err)

    def addSkip(self, test: Any, reason: str) -> None:
        self._note(SKIPPED, " ".join(str(reason).split())[:300])

    def addExpectedFailure(self, test: Any, err: Any) -> None:
        self._note(XFAILED, "PyTorch expects a failure")

    def addUnexpectedSuccess(self, test: Any) -> None:
        self._note(FAILED, "unexpected success: PyTorch expects a failure")


def _in_one_line(error: BaseException) -> str:
    return " ".join("".join(traceback.format_exception_only(error)).split())


def observe(case: type[unittest.TestCase], method: str) -> Observed:
    """Runs one test with its class's setup."""
    observed = Observed()
    unittest.TestSuite([case(method)]).run(observed)
    return observed


def run(test: DeviceTest, device: Device) -> dict[str, Any]:
    """A test on the device, and on the CPU if it fails there: the fields of a Result without its name."""
    device.reset_fallbacks()
    start = time.monotonic()
    observed = observe(test.case, test.method)
    seconds = round(time.monotonic() - start, 3)
    fallbacks = device.fallbacks()
    device.drain()
    cpu = None
    if observed.outcome == FAILED and test.on_cpu:
        cpu = observe(*test.on_cpu).outcome
    return {
        "outcome": observed.outcome,
        "text": observed.text,
        "trace": observed.trace,
        "cpu": cpu,
        "seconds": seconds,
        "fallbacks": fallbacks,
    }


def serve(answers: TextIO) -> int:
    """Answers requests until stdin ends."""
    first = json.loads(sys.stdin.readline())
    name = first["device"]
    try:
        device = Device(name)
        if not device.usable():
            raise RuntimeError(f"{name} does not compute arange(4) + 1")
        device_tests.take_device()
        path = pathlib.Path(first["path"])
        added = adapt(path)
        module = device_tests.load(path)
        tests = {test.name: test for test in device_tests.device_tests(module, name)}
    except BaseException as error:  # a file may skip itself or call sys.exit
        answer(answers, {"fatal": f"{type(error).__name__}: {error}"})
        return 2
    answer(answers, {"facts": device.facts(), "adapted": added, "tests": list(tests)})
    for line in sys.stdin:
        request = json.loads(line)
        faulthandler.dump_traceback_later(request["limit"], exit=True)
        result = run(tests[request["test"]], device)
        lost = result["outcome"] == FAILED and not device.usable()
        faulthandler.cancel_dump_traceback_later()
        answer(answers, {"result": result, "lost": lost})
        if lost:
            return DEVICE_LOST
    return 0


def main() -> None:
    """Serves requests, then ends the process."""
    sys.argv = sys.argv[:1]  # PyTorch's tests read the arguments
    torch.set_num_threads(1)
    run_worker(serve)


if __name__ == "__main__":
    main()
