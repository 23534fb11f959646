"""Captures a training step on the device tb and replays it: python -m opencl.graphs.

The status is 1 if a loss differs from stock CPU's by more than 1e-5 of it, or if a failing check of a captured kernel
is no IndexError. The figures are the times of an eager step and of a replay: the medians of interleaved ones.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

WARM_UP, STEPS, ROUNDS = 3, 20, 20
TOLERANCE = 1e-5


class Training:
    """A small model with its optimizer, and the tensors from which a step reads its batch."""

    def __init__(self, device: str) -> None:
        torch.manual_seed(3)
        self.model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 8)).to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), fused=True, capturable=device != "cpu")
        self.x, self.y = torch.zeros(32, 64, device=device), torch.zeros(32, 8, device=device)

    def fill(self, number: int) -> None:
        torch.manual_seed(number)
        self.x.copy_(torch.randn(32, 64))
        self.y.copy_(torch.randn(32, 8))

    def step(self) -> torch.Tensor:
        self.optimizer.zero_grad(set_to_none=True)
        loss = functional.mse_loss(self.model(self.x), self.y)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.detach()


def losses(training: Training, step: Callable[[], torch.Tensor], numbers: range) -> list[float]:
    found = []
    for number in numbers:
        training.fill(number)
        found.append(step().item())
    return found


def seconds(step: Callable[[], object]) -> float:
    start = time.perf_counter()
    step()
    torch.accelerator.synchronize()
    return time.perf_counter() - start


def fails_as_eagerly() -> bool:
    """Whether an index out of range in a captured kernel is an IndexError, and the next launch is right."""
    table, index = torch.randn(5, 3, device="tb"), torch.tensor([1, 4], device="tb")
    functional.embedding(index, table)
    graph = torch.tb.Graph()  # type: ignore[attr-defined]
    with torch.tb.graph(graph):  # type: ignore[attr-defined]
        rows = functional.embedding(index, table)
    index.copy_(torch.tensor([1, 9]))
    graph.replay()
    try:
        torch.accelerator.synchronize()
        return False
    except IndexError:
        pass
    index.copy_(torch.tensor([0, 2]))
    graph.replay()
    return torch.equal(rows.cpu(), table.cpu()[[0, 2]])


def main() -> int:
    stock, device = Training("cpu"), Training("tb")
    expected = losses(stock, stock.step, range(STEPS))
    found = losses(device, device.step, range(WARM_UP))
    graph = torch.tb.Graph()  # type: ignore[attr-defined]
    with torch.tb.graph(graph):  # type: ignore[attr-defined]
        loss = device.step()

    def replay() -> torch.Tensor:
        graph.replay()
        return loss

    found += losses(device, replay, range(WARM_UP, STEPS))
    worst = max(abs(a - b) / a for a, b in zip(expected, found, strict=True))
    fails = fails_as_eagerly()
    times = [(seconds(device.step), seconds(replay)) for _ in range(ROUNDS)]
    eager, replayed = (statistics.median(each) * 1e3 for each in zip(*times, strict=True))
    print(f"worst difference {worst:.1e}, checks fail as eagerly: {fails}")
    print(f"a step: {eager:.2f} ms, a replay: {replayed:.2f} ms")
    return 0 if worst <= TOLERANCE and fails else 1


if __name__ == "__main__":
    sys.exit(main())
