"""A workload that fragments memory, in a process of its own; JSON on the last line.

python -m benchmarks.gpu.parts.workload DEVICE native|tb [--quick]. A transformer is trained on sequences of random
length, and copies of results of random length are kept for a random number of steps, so that blocks that live for a
step alternate with long-lived blocks of many sizes. `tb` first installs tb-allocator as PyTorch's CUDA allocator.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True)
class Sizes:
    width: int = 1024
    layers: int = 6
    shortest: int = 64
    longest: int = 2048
    tokens: int = 16384
    """Tokens of a batch. Shorter sequences come in larger batches."""
    kept: int = 48
    """The largest number of steps for which a result is kept."""
    steps: int = 200
    warm_up: int = 20


QUICK = Sizes(width=16, layers=1, shortest=4, longest=16, tokens=64, kept=3, steps=4, warm_up=1)


class Workload:
    """The same lengths, batches and lifetimes for every device and allocator."""

    def __init__(self, device: torch.device, sizes: Sizes) -> None:
        torch.manual_seed(0)
        self.device, self.sizes, self.random = device, sizes, random.Random(0)
        layers = [
            nn.TransformerEncoderLayer(sizes.width, 4, 4 * sizes.width, dropout=0.0, batch_first=True)
            for _ in range(sizes.layers)
        ]
        self.model = nn.Sequential(*layers).to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.kept: dict[int, list[torch.Tensor]] = {}

    def step(self, number: int) -> None:
        length = self.random.randint(self.sizes.shortest, self.sizes.longest)
        batch = max(1, self.sizes.tokens // length)
        result = self.model(torch.randn(batch, length, self.sizes.width, device=self.device))
        result.square().mean().backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        until = number + self.random.randint(1, self.sizes.kept)
        self.kept.setdefault(until, []).append(result.detach()[:1].clone())
        self.kept.pop(number, None)


def peak_reserved(device: torch.device, allocator: str) -> int:
    """The peak of reserved bytes, from the allocator's own statistics."""
    if allocator == "tb":
        import tb_allocator

        return tb_allocator.max_memory_reserved(device.index or 0)
    return int(torch.get_device_module(device).max_memory_reserved())


def run(device: torch.device, allocator: str, sizes: Sizes) -> dict[str, Any]:
    module = torch.get_device_module(device)

    def free() -> int:
        return int(module.mem_get_info()[0])

    if allocator == "tb" and device.type == "cuda":
        import tb_allocator.torch

        tb_allocator.torch.install()
    module.synchronize()
    before = free()
    work = Workload(device, sizes)
    times = []
    for number in range(sizes.steps):
        started = time.perf_counter()
        work.step(number)
        module.synchronize()
        if number >= sizes.warm_up:
            times.append((time.perf_counter() - started) * 1e3)
    return {
        "step_ms": statistics.median(times),
        "slowest_ms": max(times),
        "peak_reserved": peak_reserved(device, allocator),
        "taken": before - free(),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("device", type=torch.device)
    parser.add_argument("allocator", choices=("native", "tb"))
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    print(json.dumps(run(asked.device, asked.allocator, QUICK if asked.quick else Sizes())))
    return 0


if __name__ == "__main__":
    sys.exit(main())
