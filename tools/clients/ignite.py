"""ignite: its engines on the device that it finds."""

from __future__ import annotations

import ignite.distributed as idist
import torch
from ignite.engine import create_supervised_evaluator, create_supervised_trainer
from ignite.metrics import MeanSquaredError

from clients.checks import Checks, Ran

checks = Checks("pytorch-ignite")


def batches() -> list[list[torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(4, 8, 3, generator=generator)
    return [[rows, rows.sum(1, keepdim=True)] for rows in inputs]


@checks.check("trains and evaluates on idist.device()")
def train(device: str) -> Ran:
    where = torch.device("cpu") if device == "cpu" else idist.device()
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1).to(where)
    optimizer = torch.optim.SGD(model.parameters(), 1e-2)
    trainer = create_supervised_trainer(model, optimizer, torch.nn.functional.mse_loss, device=where)
    trainer.run(batches(), max_epochs=2)
    evaluator = create_supervised_evaluator(model, {"error": MeanSquaredError(device=where)}, device=where)
    return Ran(model.weight.device, evaluator.run(batches()).metrics["error"])


@checks.check("auto_model moves the model")
def automatic(device: str) -> Ran:
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    model = model if device == "cpu" else idist.auto_model(model)
    inputs = torch.ones(2, 3, device=model.weight.device)
    return Ran(model.weight.device, model(inputs).detach().cpu())
