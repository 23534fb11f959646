"""Captured programs give the results of plain ones, also next to other graphs; the comparison finds a wrong replay."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import tb_compile
import torch
from compile import captured_programs
from tb_compile.captured import NOT_LAUNCHED, Captured
from torch import nn
from torch_backend.conformance.bits import bit_identical


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("first", range(0, 40, 10))
def test_random_programs_give_bit_identical_results(first: int) -> None:
    assert [problem for problem in map(captured_programs.differing, range(first, first + 10)) if problem] == []


def test_a_wrong_replay_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here the graphs read zeros instead of the arguments."""
    right = Captured.launch

    def launch(self: Captured, tensors: Sequence[torch.Tensor]) -> Any:
        return right(self, [torch.zeros_like(tensor) for tensor in tensors])

    monkeypatch.setattr(Captured, "relaunch", lambda *_: NOT_LAUNCHED)
    monkeypatch.setattr(Captured, "launch", launch)
    assert [problem for problem in map(captured_programs.differing, range(3)) if problem]


def test_gradients_of_one_graph_survive_the_launch_of_another() -> None:
    """The gradients are in the memory of their graph. The other graph was captured first and uses much memory."""
    model = nn.Linear(64, 64).to("tb")
    x = torch.randn(64, 64, device="tb")

    def run(x: torch.Tensor, train: bool) -> torch.Tensor:
        if train:
            torch.autograd.backward(model(x).square().sum())
            return x
        with torch.no_grad():
            return torch.stack([torch.full_like(x, float(i)) + x for i in range(12)]).sum()

    step = tb_compile.step(run)
    for _ in range(6):
        step(x, False)
    for _ in range(6):
        model.zero_grad()
        step(x, True)
    gradient = model.weight.grad
    assert gradient is not None
    kept = gradient.clone()
    step(x, False)
    assert step.captures == 2
    assert bit_identical(gradient, kept)
