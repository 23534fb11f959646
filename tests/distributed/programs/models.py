"""Small models, their batches and their training loop, for the programs that train."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor

STEPS = 6
FEATURES = 64
CLASSES = 10


def mlp(width: int = FEATURES) -> nn.Module:
    """Maps (batch, 64) to logits (batch, 10)."""
    torch.manual_seed(1)
    layers = [layer for _ in range(4) for layer in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(width, CLASSES))


class Block(nn.Module):
    """A residual MLP with a norm before it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.act, self.down = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(self.act(self.up(self.norm(x))))


class Blocks(nn.Module):
    """Maps (batch, 64) to logits (batch, 10) through some blocks, which wrappers shard one by one."""

    def __init__(self, width: int = 32, depth: int = 3) -> None:
        super().__init__()
        torch.manual_seed(2)
        self.emb, self.blocks = nn.Linear(FEATURES, width), nn.ModuleList([Block(width) for _ in range(depth)])
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.emb(x)
        for block in self.blocks:
            x = block(x)
        logits: torch.Tensor = self.head(x)
        return logits


def batch(step: int, device: str, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs (16, 64) and classes (16,) of a step and a rank."""
    random = torch.Generator().manual_seed(1000 * step + rank)
    inputs = torch.randn(16, FEATURES, generator=random)
    return inputs.to(device), torch.randint(0, CLASSES, (16,), generator=random).to(device)


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """On the CPU, and not distributed."""
    tensor = tensor.detach()
    return (tensor.full_tensor() if isinstance(tensor, DTensor) else tensor).cpu()


def train(
    model: nn.Module,
    device: str,
    rank: int,
    optimizer: Any = None,
    sync: Callable[[int], contextlib.AbstractContextManager[Any]] | None = None,
    foreach: bool | None = None,
) -> list[torch.Tensor]:
    """Some steps. Returns the losses and the parameters."""
    optimizer = optimizer or torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=foreach)
    losses = []
    for step in range(STEPS):
        x, y = batch(step, device, rank)
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        with sync(step) if sync else contextlib.nullcontext():
            loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.detach())
    return [torch.stack(losses).cpu(), *map(whole, model.parameters())]
