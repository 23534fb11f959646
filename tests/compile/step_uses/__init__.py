"""Uses of tb_compile.step, each compared call by call with the plain step.

A use is a generator: it builds its models from a seed, wraps its step with the function that it gets, and after each
call
yields all that a user could look at. The test runs it with the plain step and with tb_compile.step.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

CALLS = 12

Wrap = Callable[..., Any]
Seen = dict[str, Any]
Program = Callable[[Wrap], Iterator[Seen]]


@dataclass(frozen=True)
class Use:
    """refused: what the refusal must contain, by which a user finds the place in his code; "" for a use that must be
    captured. tolerance: 0 compares bit by bit."""

    name: str
    program: Program
    refused: str = ""
    tolerance: float = 0.0


USES: dict[str, Use] = {}


def use(refused: str = "", *, name: str = "", tolerance: float = 0.0) -> Callable[[Program], Program]:
    """Decorator: adds a use to the table."""

    def add(program: Program) -> Program:
        key = name or program.__name__.replace("_", " ")
        assert key not in USES, key
        USES[key] = Use(key, program, refused, tolerance)
        return program

    return add


def seeded() -> None:
    torch.manual_seed(0)
    random.seed(0)


def mlp(width: int = 8) -> nn.Module:
    seeded()
    return nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, 2)).to("tb")


def residual_block() -> nn.Module:
    seeded()
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Dropout(0.3), nn.Linear(4, 2)).to("tb")


def batch(i: int, rows: int = 6, columns: int = 4) -> torch.Tensor:
    generator = torch.Generator().manual_seed(100 + i)
    return torch.randn(rows, columns, generator=generator).to("tb")


def plain(value: Any) -> Any:
    """A copy of a value whose tensors are on the host, with None for what is no number, container or tensor."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().clone()
    if isinstance(value, dict):
        return {
            str(i) if isinstance(key, torch.Tensor) else key: plain(one) for i, (key, one) in enumerate(value.items())
        }
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    return value if isinstance(value, (int, float, str, bool, bytes)) else None


def look(result: Any = None, *modules: nn.Module, optimizers: Any = (), **more: Any) -> Seen:
    """All that a user could look at after a call."""
    seen: Seen = {"result": plain(result)}
    for i, module in enumerate(modules):
        seen[f"module {i}"] = plain(module.state_dict())
        seen[f"gradients {i}"] = [plain(parameter.grad) for parameter in module.parameters()]
        seen[f"flags {i}"] = [parameter.requires_grad for parameter in module.parameters()]
    for i, optimizer in enumerate(optimizers):
        seen[f"optimizer {i}"] = plain(optimizer.state_dict())
    seen["random state"] = plain(torch.tb.get_rng_state())  # type: ignore[attr-defined]
    seen["host's random state"] = plain(torch.get_rng_state())
    seen |= {name: plain(value) for name, value in more.items()}
    return seen
