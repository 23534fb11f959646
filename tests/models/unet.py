"""A U-Net of two levels, which makes an image of an image."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

GROUPS = 4


class Block(nn.Module):
    """Two 3x3 convolutions, each after group normalisation and SiLU."""

    def __init__(self, channels: int, out_channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.GroupNorm(GROUPS, channels), nn.SiLU(), nn.Conv2d(channels, out_channels, 3, padding=1)),
            *(nn.GroupNorm(GROUPS, out_channels), nn.SiLU(), nn.Conv2d(out_channels, out_channels, 3, padding=1)),
        )

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.layers(x)
        return result


class Unet(nn.Module):
    """Halves the image twice by strided convolutions, and doubles it by bilinear and by nearest upsampling."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.ModuleList([Block(width, width), Block(2 * width, 2 * width)])
        self.shrink = nn.ModuleList(
            nn.Conv2d(channels, 2 * channels, 3, stride=2, padding=1) for channels in (width, 2 * width)
        )
        self.middle = Block(4 * width, 4 * width)
        self.grow = nn.ModuleList(
            [nn.Upsample(scale_factor=2, mode="nearest"), nn.Upsample(scale_factor=2, mode="bilinear")]
        )
        self.up = nn.ModuleList([Block(3 * width, width), Block(6 * width, 2 * width)])
        self.last = nn.Conv2d(width, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        kept = []
        for block, shrink in zip(self.down, self.shrink, strict=True):
            kept.append(block(x))
            x = shrink(kept[-1])
        x = self.middle(x)
        for block, grow, before in reversed(list(zip(self.up, self.grow, kept, strict=True))):
            x = block(torch.cat([grow(x), before], dim=1))
        result: Tensor = self.last(x)
        return result


def unet() -> tuple[nn.Module, tuple[Tensor, Tensor], Callable[[Tensor, Tensor], Tensor]]:
    """The model on the CPU, a batch of inputs and targets, and the loss of outputs and targets.

    All values are drawn from PyTorch's CPU generator.
    """
    images, noise = torch.randn(2, 3, 12, 12), torch.randn(2, 3, 12, 12)
    return Unet(8), (images + noise, noise), functional.mse_loss
