"""Whole training steps, forward, backward and optimizer, the same code and data for every device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from demo.model import make_model
from demo.settings import VOCABULARY, ModelSettings
from torch import nn
from torch.nn import functional

from bench.interleave import Call, Plan

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
Optimizer = Callable[[nn.Module], torch.optim.Optimizer]


@dataclass(frozen=True)
class Case:
    """A model on the CPU with its inputs, targets, loss and optimizer."""

    model: nn.Module
    inputs: torch.Tensor
    targets: torch.Tensor
    loss: Loss
    optimizer: Optimizer


def _sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.01)


def _adamw(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-3)


def _mlp(width: int, batch: int) -> Case:
    layers: list[nn.Module] = []
    for _ in range(4):
        layers += [nn.Linear(width, width), nn.ReLU()]
    inputs, targets = torch.randn(batch, width), torch.randn(batch, width)
    return Case(nn.Sequential(*layers[:-1]), inputs, targets, functional.mse_loss, _sgd)


def _token_loss(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits.view(-1, VOCABULARY), targets.view(-1))


def _transformer(width: int) -> Case:
    settings = ModelSettings(width=width, heads=4, blocks=4, context=64)
    tokens = torch.randint(VOCABULARY, (8, settings.context + 1))
    return Case(
        make_model(settings, seed=0), tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous(), _token_loss, _adamw
    )


def _convolutional() -> Case:
    model = nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(32 * 8 * 8, 10)),
    )
    return Case(model, torch.randn(32, 3, 32, 32), torch.randint(10, (32,)), functional.cross_entropy, _sgd)


# The plan of each: blocks of about a tenth of a second or one step, whichever is longer.
STEPS: dict[str, tuple[Callable[[], Case], Plan]] = {
    "MLP 4x128 batch 32": (lambda: _mlp(128, 32), Plan(calls=50, rounds=15, wait_inside=True)),
    "MLP 4x1024 batch 256": (lambda: _mlp(1024, 256), Plan(calls=3, rounds=11, wait_inside=True)),
    "transformer d64": (lambda: _transformer(64), Plan(calls=6, rounds=11, wait_inside=True)),
    "transformer d128": (lambda: _transformer(128), Plan(calls=4, rounds=11, wait_inside=True)),
    "transformer d512": (lambda: _transformer(512), Plan(calls=1, rounds=9, wait_inside=True)),
    "CNN 32x32 batch 32": (_convolutional, Plan(calls=10, rounds=11, wait_inside=True)),
}


def training_step(case: Case, device: torch.device) -> Call:
    """A call that does one step of a copy of the case on `device`, inputs already there."""
    model = case.model.to(device)
    optimizer = case.optimizer(model)
    inputs, targets = case.inputs.to(device), case.targets.to(device)

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        case.loss(model(inputs), targets).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step
