"""The conformance check `behind_failures` on the CPU, as a device that raises errors at the next wait."""

from typing import Any

import pytest
import torch
from torch_backend.conformance.case import FAILED, PASSED, Case
from torch_backend.conformance.device import Device
from torch_backend.conformance.execution import run_case
from torch_backend.conformance.profiles import Limits
from torch_backend.conformance.samples import Sample

LIMITS = Limits(samples=3, window=32, elements=5_000, repeats=16)


@pytest.mark.parametrize("fault", ["", "runs what is behind", "raises twice", "computes no more"])
def test_work_that_runs_behind_a_failed_call_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class Queue(Device):
        """Keeps the error of a call; with the fault, what follows runs, or the error comes again."""

        error: Exception | None = None

        def synchronize(self) -> None:
            error, self.error = self.error, self.error if fault == "raises twice" else None
            if error is not None:
                raise error

        def usable(self) -> bool:
            self.error = None
            return fault != "computes no more"

    device, right = Queue("cpu"), Sample.call

    def call(sample: Sample, function: Any, where: torch.device, **keywords: Any) -> Any:
        try:
            return right(sample, function, where, **keywords)
        except Exception as error:
            if where is not device.device:
                raise
            device.error = error.with_traceback(None)
            return torch.zeros(2), ()

    monkeypatch.setattr(Sample, "call", call)
    written = torch.Tensor.add_

    def add(tensor: torch.Tensor, other: Any) -> torch.Tensor:
        return tensor if device.error is not None and fault != "runs what is behind" else written(tensor, other)

    monkeypatch.setattr(torch.Tensor, "add_", add)
    result = run_case(Case("behind_failures", "gather", "float32"), device, LIMITS)
    assert result.status == (FAILED if fault else PASSED), result.message
    assert result.samples > 0
