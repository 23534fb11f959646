"""A convolutional autoencoder under autocast to bfloat16.

It has only operators for which tb's autocast rules (which are CUDA's) and the CPU's are the same: no layer norm, which
the CPU computes in bfloat16.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional

from examples.models.case import Case, adamw_foreach


@dataclass(frozen=True)
class AutoencoderSettings:
    image: int = 16
    width: int = 8
    code: int = 12
    """Numbers that an image is pressed into."""
    batch: int = 4


def autoencoder(settings: AutoencoderSettings) -> Case:
    width, small = settings.width, settings.image // 4
    inside = 2 * width * small * small
    encoder = [
        *(nn.Conv2d(3, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.GELU()),
        *(nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.BatchNorm2d(2 * width), nn.GELU()),
        *(nn.Flatten(), nn.Linear(inside, settings.code)),
    ]
    decoder = [
        *(nn.Linear(settings.code, inside), nn.GELU(), nn.Unflatten(1, (2 * width, small, small))),
        *(nn.ConvTranspose2d(2 * width, width, 4, stride=2, padding=1), nn.BatchNorm2d(width), nn.GELU()),
        *(nn.ConvTranspose2d(width, 3, 4, stride=2, padding=1), nn.Sigmoid()),
    ]
    images = torch.rand(settings.batch, 3, settings.image, settings.image)
    model = nn.Sequential(*encoder, *decoder)
    return Case(model, images, images, functional.mse_loss, adamw_foreach, autocast=torch.bfloat16)
