"""A denoiser of the shape of a U-Net: group norm, attention at the bottom, three kinds of upsampling, times."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional

from examples.models.case import Case, adamw_foreach

GROUPS = 4


@dataclass(frozen=True)
class UnetSettings:
    image: int = 16
    width: int = 8
    """Channels at full size, a multiple of GROUPS. Each of the three lower levels has twice as many as the last."""
    batch: int = 2


class Noised(NamedTuple):
    images: torch.Tensor
    """(batch, 3, image, image)."""
    times: torch.Tensor
    """float32 (batch,), from 0 to 1."""


class Residual(nn.Module):
    """Two 3x3 convolutions, each after group norm and SiLU. The time is added between them, the input at the end."""

    def __init__(self, channels: int, out_channels: int, time: int) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(GROUPS, channels)
        self.conv1 = nn.Conv2d(channels, out_channels, 3, padding=1)
        self.time = nn.Linear(time, out_channels)
        self.norm2 = nn.GroupNorm(GROUPS, out_channels)
        self.conv2 = nn.Conv2d(out_channels, out_channels, 3, padding=1)
        self.shortcut = nn.Conv2d(channels, out_channels, 1)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        y = self.conv1(functional.silu(self.norm1(x)))
        y = y + self.time(time)[:, :, None, None]
        result: torch.Tensor = self.conv2(functional.silu(self.norm2(y))) + self.shortcut(x)
        return result


class Attention(nn.Module):
    """Attention between all pixels, with one head."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(GROUPS, channels)
        self.qkv = nn.Conv2d(channels, 3 * channels, 1)
        self.out = nn.Conv2d(channels, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm(x)).flatten(2).transpose(1, 2).unsqueeze(1).chunk(3, dim=-1)
        y = functional.scaled_dot_product_attention(q, k, v)
        result: torch.Tensor = x + self.out(y.squeeze(1).transpose(1, 2).reshape_as(x))
        return result


class Unet(nn.Module):
    """Maps noised images to the noise in them, (batch, 3, image, image)."""

    def __init__(self, settings: UnetSettings) -> None:
        super().__init__()
        sizes = [settings.width << level for level in range(4)]
        self.width = settings.width
        time = 4 * settings.width
        self.time = nn.Sequential(nn.Linear(settings.width, time), nn.SiLU(), nn.Linear(time, time))
        self.first = nn.Conv2d(3, sizes[0], 3, padding=1)
        self.down = nn.ModuleList(Residual(size, size, time) for size in sizes[:3])
        self.shrink = nn.ModuleList(
            nn.Conv2d(size, larger, 3, stride=2, padding=1) for size, larger in itertools.pairwise(sizes)
        )
        self.middle = Residual(sizes[3], sizes[3], time)
        self.attention = Attention(sizes[3])
        self.grow = nn.ModuleList(
            [
                nn.Sequential(nn.Conv2d(sizes[1], sizes[0], 1), nn.Upsample(scale_factor=2, mode="nearest")),
                nn.Sequential(nn.Conv2d(sizes[2], sizes[1], 1), nn.Upsample(scale_factor=2, mode="bilinear")),
                nn.ConvTranspose2d(sizes[3], sizes[2], 4, stride=2, padding=1),
            ]
        )
        self.up = nn.ModuleList(Residual(2 * size, size, time) for size in sizes[:3])
        self.last = nn.Conv2d(sizes[0], 3, 3, padding=1)

    def embed(self, times: torch.Tensor) -> torch.Tensor:
        """An MLP of the times' sines and cosines at width / 2 frequencies from 1 to 1000."""
        half = self.width // 2
        frequencies = torch.exp(math.log(1000) * torch.arange(half, device=times.device) / half)
        angles = times[:, None] * frequencies
        result: torch.Tensor = self.time(torch.cat([angles.sin(), angles.cos()], dim=1))
        return result

    def forward(self, noised: Noised) -> torch.Tensor:
        time = self.embed(noised.times)
        x = self.first(noised.images)
        kept = []
        for block, shrink in zip(self.down, self.shrink, strict=True):
            x = block(x, time)
            kept.append(x)
            x = shrink(x)
        x = self.attention(self.middle(x, time))
        for block, grow, before in reversed(list(zip(self.up, self.grow, kept, strict=True))):
            x = block(torch.cat([grow(x), before], dim=1), time)
        result: torch.Tensor = self.last(x)
        return result


def unet(settings: UnetSettings) -> Case:
    images, noise = (torch.randn(settings.batch, 3, settings.image, settings.image) for _ in range(2))
    inputs = Noised(images + noise, torch.rand(settings.batch))
    return Case(Unet(settings), inputs, noise, functional.mse_loss, adamw_foreach)
