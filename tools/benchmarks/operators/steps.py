"""Whole training steps, forward, backward and optimizer, the same code and data for every device."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from examples.demo.settings import ModelSettings
from examples.models.case import Case, Training
from examples.models.convolutional import ImageSettings, plain, resnet18
from examples.models.gpt import gpt
from examples.models.lstm import LstmSettings, lstm
from examples.models.mlp import MlpSettings, mlp
from examples.models.vit import VitSettings, vit

from benchmarks.interleave import Call, Plan


def _plain_sgd(model: torch.nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.01)


def _mlp(width: int, batch: int) -> Case:
    return replace(mlp(MlpSettings(width=width, batch=batch)), optimizer=_plain_sgd)


def _transformer(width: int) -> Case:
    return gpt(ModelSettings(width=width, heads=4, blocks=4, context=64), batch=8)


def _plan(calls: int, rounds: int) -> Plan:
    """A plan with a pause before each block, in which the other subject's threads become idle."""
    return Plan(calls=calls, rounds=rounds, wait_inside=True, pause=0.03)


# Blocks take about a tenth of a second, or one step if that is longer.
STEPS: dict[str, tuple[Callable[[], Case], Plan]] = {
    "MLP 4x128 batch 32": (lambda: _mlp(128, 32), _plan(300, 15)),
    "MLP 4x1024 batch 256": (lambda: _mlp(1024, 256), _plan(3, 11)),
    "transformer d64": (lambda: _transformer(64), _plan(6, 11)),
    "transformer d128": (lambda: _transformer(128), _plan(4, 11)),
    "transformer d512": (lambda: _transformer(512), _plan(1, 9)),
    "LSTM 2x128": (
        lambda: lstm(LstmSettings(vocabulary=256, width=128, context=32, batch=16)),
        _plan(4, 11),
    ),
    "CNN 32x32 batch 32": (
        lambda: replace(plain(ImageSettings(image=32, batch=32, width=16)), optimizer=_plain_sgd),
        _plan(10, 11),
    ),
    "ResNet-18 64x64 batch 8": (
        lambda: resnet18(ImageSettings(image=64, batch=8, width=64)),
        _plan(1, 9),
    ),
    "ViT d192 32x32 batch 16": (
        lambda: vit(VitSettings(image=32, patch=4, width=192, heads=3, blocks=6, batch=16)),
        _plan(1, 9),
    ),
}


def training_step(case: Case, device: torch.device) -> Call:
    """A call that does one step of the case on `device`, inputs already there."""
    return Training(case, device).step
