"""A multi-layer perceptron: linear layers of one width with ReLU between them, and squared error."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from examples.models.case import Case


@dataclass(frozen=True)
class MlpSettings:
    width: int = 16
    layers: int = 4
    batch: int = 8


def mlp(settings: MlpSettings) -> Case:
    layers: list[nn.Module] = []
    for _ in range(settings.layers):
        layers += [nn.Linear(settings.width, settings.width), nn.ReLU()]
    inputs, targets = (torch.randn(settings.batch, settings.width) for _ in range(2))
    return Case(nn.Sequential(*layers[:-1]), inputs, targets, functional.mse_loss)
