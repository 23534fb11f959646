"""A worker process for one test file: reads tests from stdin, one JSON line each, and answers each with one JSON line.

Other output goes to stderr. A test that takes longer than its limit ends the process, which prints all stacks.
"""

from __future__ import annotations

import faulthandler
import functools
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
from torch_backend.pytorch_tests import accelerator_tests, device_tests
from torch_backend.pytorch_tests.adaptations import adapt
from torch_backend.pytorch_tests.checkout import ACCELERATOR
from torch_backend.pytorch_tests.device_tests import DeviceTest
from torch_backend.pytorch_tests.result import FAILED, PASSED, SKIPPED, UNUSED, XFAILED


class Observed(unittest.TestResult):
    """The first thing that unittest says about a test which is not a success."""

    def __init__(self) -> None:
        super().__init__()
        self.outcome, self.text, self.trace = PASSED, "", ""

    def _note(self, outcome: str, text: str, trace: str = "") -> None:
        if self.outcome in (PASSED, SKIPPED, XFAILED) and (self.outcome == PASSED or outcome == FAILED):
            self.outcome, self.text, self.trace = outcome, text, trace

    def _note_error(self, error: Any) -> None:
        text = accelerator_tests.error_of_rank(str(error[1])) or _in_one_line(error[1])
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


def run_with_ranks(
    test: DeviceTest, device: Device, use: accelerator_tests.Use, ranks: accelerator_tests.Ranks
) -> dict[str, Any]:
    """A test that may start processes, which report what they use: the fields of a Result without its name.

    One that passes without memory of the device is skipped: it says nothing about the device.
    """
    use.restart()
    ranks.take()
    if hasattr(test.case, "_processes_spawned"):  # MultiProcContinuousTest keeps them, and that a test failed
        case: Any = test.case
        case._processes_spawned = case.poison_pill = False
    start = time.monotonic()
    observed = observe(test.case, test.method)
    seconds = round(time.monotonic() - start, 3)
    uses = [use.to_json(), *ranks.take()]
    counted = [one["fallbacks"] for one in uses if one["fallbacks"] is not None]
    device.drain()
    if observed.outcome == PASSED and device.device.type != "cpu" and all(one["used"] is False for one in uses):
        observed.outcome, observed.text = SKIPPED, UNUSED
    return {
        "outcome": observed.outcome,
        "text": observed.text,
        "trace": observed.trace,
        "seconds": seconds,
        "fallbacks": sorted({operator for fallbacks in counted for operator in fallbacks}) if counted else None,
    }


def serve(answers: TextIO) -> int:
    """Answers requests until stdin ends."""
    first = json.loads(sys.stdin.readline())
    name, path = first["device"], pathlib.Path(first["path"])
    of_accelerator = first["kind"] == ACCELERATOR
    try:
        device = Device(name)
        if not device.usable():
            raise RuntimeError(f"{name} does not compute arange(4) + 1")
        if of_accelerator:
            accelerator_tests.take_accelerator(path, name)
        else:
            device_tests.take_device()
        added = adapt(path)
        module = device_tests.load(path)
        found = accelerator_tests.accelerator_tests if of_accelerator else device_tests.device_tests
        tests = {test.name: test for test in found(module, name)}
    except BaseException as error:  # a file may skip itself or call sys.exit
        answer(answers, {"fatal": f"{type(error).__name__}: {error}"})
        return 2
    answer(answers, {"facts": device.facts(), "adapted": added, "tests": list(tests)})
    run_one = run
    if of_accelerator:
        ranks = accelerator_tests.Ranks(path, name, pathlib.Path(first["reports"]))
        run_one = functools.partial(run_with_ranks, use=accelerator_tests.Use(device), ranks=ranks)
    for line in sys.stdin:
        request = json.loads(line)
        faulthandler.dump_traceback_later(request["limit"], exit=True)
        result = run_one(tests[request["test"]], device)
        # What a failure leaves behind, such as process groups and threads, makes later tests of the accelerator fail.
        lost = result["outcome"] == FAILED and (of_accelerator or not device.usable())
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
elif __name__ == "__mp_main__":  # a process that multiprocessing spawned for a test
    accelerator_tests.prepare_rank()
