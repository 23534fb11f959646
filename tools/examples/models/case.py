"""A case: one model with one batch, a loss and an optimizer; and its training step, the same on all devices."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map_only

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
Optimizer = Callable[[nn.Module], torch.optim.Optimizer]


def sgd(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def adamw_foreach(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.AdamW(model.parameters(), lr=1e-3, foreach=True)


def adamw_fused(model: nn.Module) -> torch.optim.Optimizer:
    # Captured steps need capturable=True.
    return torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True, capturable=True)


OPTIMIZERS: dict[str, Optimizer] = {"sgd": sgd, "adamw_foreach": adamw_foreach, "adamw_fused": adamw_fused}


@dataclass(frozen=True)
class Case:
    """A model on the CPU and what it is trained with. The makers draw all values from PyTorch's CPU generator."""

    model: nn.Module
    inputs: Any
    """A tensor or a tuple of tensors, given to the model as its one argument."""
    targets: torch.Tensor
    loss: Loss
    optimizer: Optimizer = sgd
    autocast: torch.dtype | None = None
    """Forward and loss run under torch.autocast to this type."""


class Training:
    """A case on a device, to which it moves the case's own model. Two trainings therefore need two cases."""

    def __init__(self, case: Case, device: torch.device) -> None:
        self.case = case
        self.device = device
        self.model = case.model.to(device)
        self.optimizer = case.optimizer(self.model)
        self.inputs = tree_map_only(torch.Tensor, lambda x: x.to(device), case.inputs)
        self.targets = case.targets.to(device)

    def _precision(self) -> contextlib.AbstractContextManager[Any]:
        if self.case.autocast is None:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=self.case.autocast)

    def step(self) -> torch.Tensor:
        """Runs forward, backward and optimizer. Returns the loss before the step, without waiting for the device."""
        self.optimizer.zero_grad(set_to_none=True)
        with self._precision():
            loss = self.case.loss(self.model(self.inputs), self.targets)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.detach()
