"""A small image classifier with every kind of layer that such networks have."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

CLASSES = 10


def cnn() -> tuple[nn.Module, tuple[Tensor, Tensor], Callable[[Tensor, Tensor], Tensor]]:
    """The model on the CPU, a batch of inputs and targets, and the loss of outputs and targets.

    All values are drawn from PyTorch's CPU generator.
    """
    model = nn.Sequential(
        *(nn.Conv2d(3, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(3, 2, 1)),
        *(nn.Conv2d(16, 16, 3, padding=1, groups=16, bias=False), nn.Conv2d(16, 32, 1), nn.BatchNorm2d(32), nn.ReLU()),
        *(nn.Conv2d(32, 32, 3, stride=2, groups=2), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten()),
        nn.Linear(128, CLASSES),
    )
    batch = torch.randn(8, 3, 16, 16), torch.randint(CLASSES, (8,))
    return model, batch, functional.cross_entropy
