"""Gradients are accumulated in the order of stock CPU, in which DistributedDataParallel lays out its buckets.

Recurrent layers that run cell by cell are left out: GRU, RNN, LSTM with projections, and LSTM under autocast. PyTorch
composes them of other operators on devices than on the CPU, so they have another order.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

pytestmark = pytest.mark.usefixtures("no_fallbacks")

Module = Callable[[], nn.Module]


class Residual(nn.Module):
    """Two branches of one input, whose gradients are ready at the same time, and a weight in two places."""

    def __init__(self) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(4, 4), nn.Linear(4, 4, bias=False)
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
        self.second.weight = self.first.weight

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = x + self.second(self.first(self.left(x) + self.right(x)))
        return out


class Attention(nn.Module):
    """Three projections that one function joins."""

    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(4, 4, bias=bias) for bias in (True, False, True))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.scaled_dot_product_attention(self.query(x), self.key(x), self.value(x))


def encoder_layer() -> nn.Module:
    return nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)


# By the number of dimensions of their input.
MATRICES: dict[str, Module] = {
    "linear": lambda: nn.Linear(4, 5),
    "linear without a bias": lambda: nn.Linear(4, 5, bias=False),
    "layers": lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4, bias=False), nn.Linear(4, 2)),
    "branches": Residual,
    "layer norm": lambda: nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 4)),
    "batch norm": lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4)),
}
CUBES: dict[str, Module] = {
    "linear": lambda: nn.Linear(4, 5),
    "linear without a bias": lambda: nn.Linear(4, 5, bias=False),
    "layers": lambda: nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4, bias=False), nn.Linear(4, 2)),
    "branches": Residual,
    "attention": Attention,
    "multi-head attention": encoder_layer,
    "convolution": lambda: nn.Sequential(nn.Conv1d(3, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.Conv1d(4, 2, 1)),
}
RECURRENT: dict[str, Module] = {
    "LSTM": lambda: nn.LSTM(4, 5),
    "LSTM in both directions": lambda: nn.LSTM(4, 5, 2, bidirectional=True),
    "LSTM without biases": lambda: nn.LSTM(4, 5, 2, bias=False),
}
INDICES: dict[str, Module] = {
    "embedding": lambda: nn.Sequential(nn.Embedding(7, 4), nn.LayerNorm(4), nn.Linear(4, 7)),
    "bags": lambda: nn.Sequential(nn.EmbeddingBag(7, 4), nn.Linear(4, 2)),
}


def cases() -> Iterator[Any]:
    """A module, its input, and whether it runs under autocast."""
    for shape, modules in (((2, 4), MATRICES), ((2, 3, 4), CUBES), ((2, 3, 4), RECURRENT)):
        for (name, make), needs, half in itertools.product(modules.items(), (False, True), (False, True)):
            if modules is RECURRENT and half:
                continue
            marks = f"{' with gradient' * needs}{', autocast' * half}"
            yield pytest.param(
                make, torch.ones(shape, requires_grad=needs), half, id=f"{name}, {len(shape)} dimensions{marks}"
            )
    for name, make in INDICES.items():
        yield pytest.param(make, torch.arange(6).view(2, 3), False, id=name)


def order(make: Module, given: Tensor, device: str, half: bool) -> list[str]:
    """The names of the parameters, and "input" if it needs a gradient, in the order in which they get theirs."""
    torch.manual_seed(1)
    module = make().to(device)
    x = given.detach().to(device).requires_grad_(given.requires_grad)
    named = dict(module.named_parameters()) | ({"input": x} if x.requires_grad else {})
    seen: list[str] = []
    tensor: Any  # its type lacks annotations
    for name, tensor in named.items():
        tensor.register_post_accumulate_grad_hook(lambda _, name=name: seen.append(name))
    with torch.autocast(device, torch.bfloat16, enabled=half):
        out = module(x)
    torch.autograd.backward((out if isinstance(out, Tensor) else out[0]).sum())
    assert sorted(seen) == sorted(named)
    return seen


@pytest.mark.parametrize(("make", "given", "half"), list(cases()))
def test_gradients_are_accumulated_in_the_order_of_stock_cpu(make: Module, given: Tensor, half: bool) -> None:
    assert order(make, given, "tb", half) == order(make, given, "cpu", half)
