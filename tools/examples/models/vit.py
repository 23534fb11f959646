"""A vision transformer: patches by a strided convolution, a class token, pre-norm blocks of nn.MultiheadAttention."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from examples.models.case import Case, adamw_foreach

CLASSES = 10


@dataclass(frozen=True)
class VitSettings:
    image: int = 16
    patch: int = 4
    width: int = 16
    heads: int = 2
    blocks: int = 2
    batch: int = 4


class Block(nn.Module):
    def __init__(self, settings: VitSettings) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(settings.width)
        self.attention = nn.MultiheadAttention(settings.width, settings.heads, batch_first=True)
        self.norm2 = nn.LayerNorm(settings.width)
        self.mlp = nn.Sequential(
            nn.Linear(settings.width, 4 * settings.width), nn.GELU(), nn.Linear(4 * settings.width, settings.width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        result: torch.Tensor = x + self.mlp(self.norm2(x))
        return result


class VisionTransformer(nn.Module):
    """Maps images (batch, 3, image, image) to logits (batch, CLASSES)."""

    def __init__(self, settings: VitSettings) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, settings.width, settings.patch, settings.patch)
        self.token = nn.Parameter(torch.zeros(1, 1, settings.width))
        places = (settings.image // settings.patch) ** 2 + 1
        self.position = nn.Parameter(0.02 * torch.randn(1, places, settings.width))
        self.blocks = nn.Sequential(*(Block(settings) for _ in range(settings.blocks)))
        self.norm = nn.LayerNorm(settings.width)
        self.head = nn.Linear(settings.width, CLASSES)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], dim=1) + self.position
        logits: torch.Tensor = self.head(self.norm(self.blocks(x))[:, 0])
        return logits


def vit(settings: VitSettings) -> Case:
    images = torch.randn(settings.batch, 3, settings.image, settings.image)
    targets = torch.randint(CLASSES, (settings.batch,))
    return Case(VisionTransformer(settings), images, targets, functional.cross_entropy, adamw_foreach)
