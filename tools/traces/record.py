"""Writes the trace of some training steps on tb, with work on two streams: python -m traces.record FILE."""

from __future__ import annotations

import sys
from typing import Any

import torch
from examples.models.case import Training
from examples.models.mlp import MlpSettings, mlp
from torch.profiler import profile, record_function, schedule

STEPS = 4


def main(file: str) -> None:
    tb: Any = torch.tb  # type: ignore[attr-defined]
    torch.manual_seed(0)
    training, side = Training(mlp(MlpSettings(width=64, batch=32)), torch.device("tb")), tb.Stream()
    x = torch.ones(4096, device="tb")

    def step() -> None:
        with record_function("training"):
            training.step()
        with tb.stream(side):
            x.mul_(1.0)

    with profile(
        schedule=schedule(wait=0, warmup=1, active=STEPS, repeat=1),
        on_trace_ready=lambda made: made.export_chrome_trace(file),
        record_shapes=True,
        with_stack=True,
        profile_memory=True,
    ) as made:
        for _ in range(STEPS + 1):
            step()
            made.step()


if __name__ == "__main__":
    main(sys.argv[1])
