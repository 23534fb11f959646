"""Image classifiers: a plain convolutional network, and one of the shape of ResNet-18."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from examples.models.case import Case

CLASSES = 10


@dataclass(frozen=True)
class ImageSettings:
    """Square colour images of random numbers."""

    image: int = 16
    batch: int = 4
    width: int = 8
    """Channels after the first convolution."""


def _case(model: nn.Module, settings: ImageSettings) -> Case:
    images = torch.randn(settings.batch, 3, settings.image, settings.image)
    return Case(model, images, torch.randint(CLASSES, (settings.batch,)), functional.cross_entropy)


def plain(settings: ImageSettings) -> Case:
    width = settings.width
    model = nn.Sequential(
        *(nn.Conv2d(3, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(2 * width * (settings.image // 4) ** 2, CLASSES)),
    )
    return _case(model, settings)


class Residual(nn.Module):
    """Two 3x3 convolutions added to their input. If the shapes differ, a 1x1 convolution converts the input first."""

    def __init__(self, channels: int, out_channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, out_channels, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(out_channels)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels != out_channels:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels, out_channels, 1, stride, bias=False), nn.BatchNorm2d(out_channels)
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.relu(self.norm1(self.conv1(x)), inplace=True)
        return functional.relu(self.norm2(self.conv2(y)) + self.shortcut(x), inplace=True)


def resnet18(settings: ImageSettings) -> Case:
    """Four stages of two residual blocks, each stage after the first of half the image and twice the channels."""
    width = settings.width
    layers: list[nn.Module] = [
        *(nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)),
        nn.MaxPool2d(3, stride=2, padding=1),
    ]
    channels = width
    for stage in range(4):
        for block in range(2):
            stride = 2 if stage > 0 and block == 0 else 1
            layers.append(Residual(channels, width << stage, stride))
            channels = width << stage
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES)]
    return _case(nn.Sequential(*layers), settings)
