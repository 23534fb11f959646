"""The check `errors`: error inputs raise the exception type that the CPU raises."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from torch_backend.conformance.case import Observation
from torch_backend.conformance.checks.forward import caller
from torch_backend.conformance.device import Device
from torch_backend.conformance.device_copies import tensors_in
from torch_backend.conformance.outcome import agree, attempt, error_text
from torch_backend.conformance.profiles import Limits
from torch_backend.conformance.randomness import CPU
from torch_backend.conformance.samples import from_sample_input, seed_everything


def errors(device: Device, op: Any, dtype: torch.dtype, limits: Limits) -> Iterator[Observation]:
    """Every error input of the database, made on the CPU and copied; then those that mix the device with the CPU."""
    seed_everything(limits.seed)
    for error_input in op.error_inputs("cpu", set_seed=False):
        sample = from_sample_input(error_input.sample_input)
        expected = attempt(CPU, caller(op.op, sample, CPU))
        actual = attempt(device, caller(op.op, sample, device))
        # If the CPU accepts the call, the device must accept it too. Values are not compared.
        observation = agree(expected, actual, device, values=False, errors_count=True)
        observation.sample = sample.describe()
        yield observation
    if device.device.type != "cpu":
        yield from _mixed_devices(device, op, limits)


def _mixed_devices(device: Device, op: Any, limits: Limits) -> Iterator[Observation]:
    """Error inputs that mix the device with the CPU; the database has the type that they must raise."""
    seed_everything(limits.seed)
    for error_input in op.error_inputs(str(device.device), set_seed=False):
        sample = error_input.sample_input
        values = (sample.input, sample.args, sample.kwargs)
        if {tensor.device.type for tensor in tensors_in(values)} != {"cpu", device.device.type}:
            continue
        positional = [sample.input, *sample.args]
        actual = attempt(device, lambda p=positional, k=sample.kwargs: op.op(*p, **k))  # type: ignore[misc]
        observation = Observation(sample=f"on two devices, {sample.summary()[:300]}")
        if actual.error is None:
            observation.problem = f"does not raise; the database expects {error_input.error_type.__name__}"
        elif not isinstance(actual.error, error_input.error_type):
            observation.problem = f"raises {error_text(actual.error)}; expected {error_input.error_type.__name__}"
        yield observation
