"""Fake tensors of symbolic sizes in a step, as torch.compile makes them, have no memory that a graph could read."""

from __future__ import annotations

import pytest
import tb_compile
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv


def test_a_step_that_computes_with_fake_tensors_is_seen_whole_and_in_silence(capfd: pytest.CaptureFixture[str]) -> None:
    with FakeTensorMode(shape_env=ShapeEnv()) as mode:
        assert mode.shape_env is not None
        fake = torch.empty(mode.shape_env.create_unbacked_symint(), 4, device="tb")
    weight = torch.ones(4, device="tb")

    def scale(x: torch.Tensor) -> torch.Tensor:
        with mode:
            torch.relu(fake)
        return weight.mul_(2) * x

    step = tb_compile.step(scale)
    found = [step(torch.full((4,), float(i), device="tb"))[0].item() for i in range(6)]
    assert found == [i * 2.0 ** (i + 1) for i in range(6)]
    assert "cannot be seen" not in step.refusal  # the mode's own counters may change
    assert "RecordFunction" not in capfd.readouterr().err
