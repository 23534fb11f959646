"""The checks `compiled` and `fused`: code that torch.compile makes for the device, as one graph, agrees with the CPU.

`compiled` uses the backend with the device's name, or PyTorch's default if there is none. `fused` uses PyTorch's
default. An operator that PyTorch does not compile for the CPU either proves nothing about the device.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import torch

from torch_backend.conformance.case import Observation
from torch_backend.conformance.checks.forward import caller, compare_calls
from torch_backend.conformance.device import Device
from torch_backend.conformance.outcome import attempt, error_text
from torch_backend.conformance.profiles import Limits
from torch_backend.conformance.randomness import CPU
from torch_backend.conformance.samples import samples


def _compiled(op: Any, backend: str) -> Callable[..., Any]:
    """A newly compiled call. Dynamo stores compiled code with the function, up to a limit, so it is reset first."""
    torch.compiler.reset()

    def call(*positional: Any, **keywords: Any) -> Any:
        return op.op(*positional, **keywords)

    compiled: Callable[..., Any] = torch.compile(call, backend=backend, fullgraph=True)
    return compiled


def compiled(device: Device, op: Any, dtype: torch.dtype, limits: Limits) -> Iterator[Observation]:
    """One sample: values, dtypes, shapes and device of the results, and the arguments after the call."""
    named = device.device.type in torch.compiler.list_backends()
    return _compare(device, op, dtype, limits, device.device.type if named else "inductor", "aot_eager")


def fused(device: Device, op: Any, dtype: torch.dtype, limits: Limits) -> Iterator[Observation]:
    """As `compiled`, with PyTorch's default backend."""
    return _compare(device, op, dtype, limits, "inductor", "inductor")


def _compare(
    device: Device, op: Any, dtype: torch.dtype, limits: Limits, backend: str, on_cpu: str
) -> Iterator[Observation]:
    """Compares the compiled call with the CPU. on_cpu: the backend that shows whether PyTorch compiles it there."""
    logging.getLogger("torch").setLevel(logging.ERROR)  # tracing warns on the CPU too
    for sample in samples(op, dtype, limits)[:1]:
        traced = attempt(CPU, caller(_compiled(op, on_cpu), sample, CPU))
        if traced.error is not None:
            yield Observation(sample=sample.describe(), vacuous=f"on the CPU too: {error_text(traced.error)}")
            continue
        observation = compare_calls(
            caller(op.op, sample, CPU),
            caller(_compiled(op, backend), sample, device),
            device,
            uninitialised=op.has_nondeterministic_output,
            repeats=limits.repeats,
            statistics=False,
        )
        observation.sample = sample.describe()
        yield observation
    torch.compiler.reset()
