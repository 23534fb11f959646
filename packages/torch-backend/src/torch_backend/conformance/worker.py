"""A worker process: reads cases from stdin, one JSON line each, and answers each with one JSON line.

Other output goes to stderr, which the parent shows if the process ends. A case that takes longer than its limit ends
the process, which prints the stacks of all threads.
"""

from __future__ import annotations

import dataclasses
import faulthandler
import functools
import json
import sys
from collections.abc import Mapping
from typing import TextIO

from torch_backend._worker_process import DEVICE_LOST, answer, run_worker
from torch_backend.conformance import databases
from torch_backend.conformance.case import FAILED, Case
from torch_backend.conformance.checks import CHECKS, Check, list_cases
from torch_backend.conformance.device import Device
from torch_backend.conformance.execution import run_case
from torch_backend.conformance.profiles import PROFILES


def serve(checks: Mapping[str, Check], answers: TextIO) -> int:
    """Answers requests for cases of these checks until stdin ends."""
    first = json.loads(sys.stdin.readline())
    profile = PROFILES[first["profile"]]
    try:
        device = Device(first["device"])
        databases.operators()
        if not device.usable():
            raise RuntimeError(f"{first['device']} does not compute arange(4) + 1")
    except Exception as error:
        answer(answers, {"fatal": f"{type(error).__name__}: {error}"})
        return 2
    answer(answers, {"facts": device.facts()})
    for line in sys.stdin:
        request = json.loads(line)
        if "list_cases" in request:
            cases, without = list_cases(request["list_cases"], profile, first["seed"])
            answer(answers, {"cases": cases, "without": without})
            continue
        case = Case(*request["case"])
        limits = profile.limits(case.check)
        if first["samples"]:
            limits = dataclasses.replace(limits, samples=first["samples"])
        faulthandler.dump_traceback_later(first["case_limit"], exit=True)
        result = run_case(case, device, dataclasses.replace(limits, seed=first["seed"]), checks)
        lost = result.status == FAILED and not device.usable()
        faulthandler.cancel_dump_traceback_later()
        if lost:
            result.message += " (and the device does not compute any more)"
        answer(answers, {"result": result.to_json(), "lost": lost})
        if lost:
            return DEVICE_LOST
    return 0


def main() -> None:
    """Serves requests, then ends the process."""
    run_worker(functools.partial(serve, CHECKS))


if __name__ == "__main__":
    main()
