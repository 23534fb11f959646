"""Runs one case in this process and summarises its observations."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

import torch

from torch_backend.conformance.case import FAILED, NO_DTYPE, NOT_APPLICABLE, PASSED, Case, Observation, Result
from torch_backend.conformance.checks import CHECKS, Check
from torch_backend.conformance.databases import dtype_of
from torch_backend.conformance.device import Device
from torch_backend.conformance.outcome import error_text
from torch_backend.conformance.profiles import Limits


def run_case(case: Case, device: Device, limits: Limits, checks: Mapping[str, Check] = CHECKS) -> Result:
    """Runs a case. Never raises: an exception of the samples or of the check itself fails the case."""
    check = checks[case.check]
    dtype = torch.float32 if case.dtype == NO_DTYPE else dtype_of(case.dtype)
    device.reset_fallbacks()
    start = time.monotonic()
    try:
        result = summarise(case, check.run(device, check.database()[case.entry], dtype, limits))
    except Exception as error:
        result = Result(case, FAILED, f"the check itself raises {error_text(error)}", failed_samples=1)
    result.seconds = round(time.monotonic() - start, 3)
    result.fallbacks = device.fallbacks()
    return result


def summarise(case: Case, observations: Iterator[Observation]) -> Result:
    """A case's result: failed if any sample failed; not applicable, with the reason, if no sample proves anything."""
    result = Result(case, PASSED)
    vacuous = ""
    for observation in observations:
        if observation.vacuous is not None:
            vacuous = vacuous or observation.vacuous
            continue
        result.samples += 1
        result.tensors += observation.tensors
        result.equal_bits += observation.equal_bits
        if observation.problem is not None:
            result.failed_samples += 1
            if result.failed_samples == 1:
                result.message = observation.problem
                result.extra["sample"] = observation.sample
    if result.failed_samples:
        result.status = FAILED
    elif not result.samples:
        result.status = NOT_APPLICABLE
        result.message = vacuous or "the database has no sample that this check can use"
    return result
