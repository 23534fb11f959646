"""The check `dtypes`: a dtype that the database does not list for an operator raises as on the CPU.

A device may accept more dtypes than the CPU; then there is nothing to compare its results with.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from torch_backend.conformance.case import Observation
from torch_backend.conformance.checks.forward import caller, compare_calls
from torch_backend.conformance.device import Device
from torch_backend.conformance.outcome import DOES_NOT_RAISE
from torch_backend.conformance.profiles import Limits
from torch_backend.conformance.randomness import CPU
from torch_backend.conformance.samples import samples


def dtypes(device: Device, op: Any, dtype: torch.dtype, limits: Limits) -> Iterator[Observation]:
    """The first samples. A dtype for which the database makes no samples proves nothing."""
    try:
        chosen = samples(op, dtype, limits)[:4]
    except Exception as error:
        yield Observation(vacuous=f"the database makes no samples of this dtype: {type(error).__name__}")
        return
    for sample in chosen:
        observation = compare_calls(
            caller(op.op, sample, CPU),
            caller(op.op, sample, device),
            device,
            uninitialised=op.has_nondeterministic_output,
            repeats=limits.repeats,
            statistics=False,
            errors_count=True,
        )
        if observation.problem is not None and observation.problem.startswith(DOES_NOT_RAISE):
            observation = Observation(vacuous="the device takes a dtype that the CPU refuses")
        observation.sample = sample.describe()
        yield observation
