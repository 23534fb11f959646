"""Every family of models trains compiled, and as a captured step, with the losses of plain steps on tb."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import tb_compile
import torch
from examples.models.case import OPTIMIZERS, Training
from training.families import FAMILIES, SEED

STEPS = 20

Way = Callable[[Training], Callable[[], torch.Tensor]]


def compiled(training: Training, mode: str = "default") -> Callable[[], torch.Tensor]:
    # Dynamo does not compile nn.LSTM.
    whole = not any(isinstance(module, torch.nn.LSTM) for module in training.model.modules())
    training.model = torch.compile(training.model, backend="tb", fullgraph=whole, mode=mode)  # type: ignore[assignment]
    return training.step


def as_device_graphs(training: Training) -> Callable[[], torch.Tensor]:
    return compiled(training, "reduce-overhead")


def captured(training: Training) -> Callable[[], torch.Tensor]:
    return tb_compile.step(training.step)


def both(training: Training) -> Callable[[], torch.Tensor]:
    return tb_compile.step(compiled(training))


pytestmark = pytest.mark.usefixtures("fresh_compiler")


def losses(family: str, way: Way | None) -> list[float]:
    torch.manual_seed(SEED)
    case = replace(FAMILIES[family](), optimizer=OPTIMIZERS["adamw_fused"])
    training = Training(case, torch.device("tb"))
    step = training.step if way is None else way(training)
    torch.manual_seed(SEED)
    found = [loss.item() for loss in [step() for _ in range(STEPS)]]
    if isinstance(step, tb_compile.Step):
        assert step.replays == STEPS - step.warm_up, step.refusal
    return found


@pytest.mark.parametrize("way", [compiled, as_device_graphs, captured, both])
@pytest.mark.parametrize("family", FAMILIES)
def test_the_losses_are_those_of_plain_steps(family: str, way: Way) -> None:
    plain = losses(family, None)
    assert losses(family, way) == pytest.approx(plain, rel=1e-5, abs=0)
    if way is not captured and family != "lstm":
        assert [graph.reason for graph in tb_compile.graphs() if graph.program is None] == []
        assert any(graph.runs for graph in tb_compile.graphs())
    if way is as_device_graphs:
        assert [str(graph) for graph in tb_compile.graphs() if not (graph.graphed and graph.graphed.launches)] == []
