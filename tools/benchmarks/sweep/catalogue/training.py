"""Optimizers' steps, and loops that read a number in each step."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.interleave import Call
from benchmarks.sweep.operator import Inputs, Make, operators

PARAMETERS = 4
OBSERVATION, ACTIONS = 64, 4


def _parameters(inputs: Inputs) -> list[nn.Parameter]:
    """Parameters with gradients."""
    parameters = [nn.Parameter(inputs.normal(inputs.rows(PARAMETERS))) for _ in range(PARAMETERS)]
    for parameter in parameters:
        parameter.grad = inputs.normal(parameter.numel())
    return parameters


def _step(optimizer: Callable[[list[nn.Parameter]], torch.optim.Optimizer]) -> Make:
    def make(inputs: Inputs) -> Call:
        parameters = _parameters(inputs)
        step = optimizer(parameters).step

        def call() -> list[nn.Parameter]:
            step()
            return parameters

        return call

    return make


def _clipped(inputs: Inputs) -> Call:
    parameters = _parameters(inputs)

    def call() -> list[Tensor | None]:
        norm = nn.utils.clip_grad_norm_(parameters, 1.0)
        return [norm, *(parameter.grad for parameter in parameters)]

    return call


OPTIMIZERS: dict[str, Make] = {
    "SGD": _step(lambda parameters: torch.optim.SGD(parameters, lr=1e-3)),
    "SGD with momentum": _step(lambda parameters: torch.optim.SGD(parameters, lr=1e-3, momentum=0.9)),
    "Adam": _step(lambda parameters: torch.optim.Adam(parameters, lr=1e-3)),
    "AdamW": _step(lambda parameters: torch.optim.AdamW(parameters, lr=1e-3)),
    "AdamW fused": _step(lambda parameters: torch.optim.AdamW(parameters, lr=1e-3, fused=True)),
    "RMSprop": _step(lambda parameters: torch.optim.RMSprop(parameters, lr=1e-3)),
    "Adagrad": _step(lambda parameters: torch.optim.Adagrad(parameters, lr=1e-3)),
    "clip_grad_norm": _clipped,
}


def _sum_item(inputs: Inputs) -> Call:
    x = inputs.normal()
    return lambda: x.mul(2).sum().item()


def _any_item(inputs: Inputs) -> Call:
    x = inputs.normal()
    return lambda: (x > 5).any().item()


def _act(inputs: Inputs) -> Call:
    """An agent's step: observations come from the host, and the actions go back to it."""
    observations = inputs.normal(inputs.rows(OBSERVATION), OBSERVATION).cpu()
    layers = [nn.Linear(OBSERVATION, 64), nn.ReLU(), nn.Linear(64, ACTIONS)]
    policy = nn.Sequential(*layers).to(inputs.device).requires_grad_(False)
    device = inputs.device
    return lambda: policy(observations.to(device)).argmax(1).cpu()


LOOPS: dict[str, Make] = {
    "x.mul(2).sum().item()": _sum_item,
    "(x > 5).any().item()": _any_item,
    "observe, MLP, argmax(1).cpu()": _act,
}

OPERATORS = [*operators("optimizers", OPTIMIZERS), *operators("loops", LOOPS)]
