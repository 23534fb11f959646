"""Runs random programs as captured steps and compares them with plain runs: captured_programs.py COUNT

Each program has an input of a random shape, some layers and operators in a random order, and half of the programs have
a backward pass. A program is called with several values and, in between, with another shape.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

import tb_compile
import torch
import torch.nn.functional as F
from torch_backend.conformance.bits import bit_difference

Operation = Callable[[torch.Tensor], torch.Tensor]


def _operations(source: random.Random, width: int) -> list[Operation]:
    """Operations that take a tensor [rows, width] and return one of the same shape."""
    weight = torch.randn(width, width, device="tb", requires_grad=True)
    bias = torch.randn(width, device="tb", requires_grad=True)
    number, index = source.uniform(0.1, 2), source.randrange(width)
    known: list[Operation] = [
        lambda x: F.linear(x, weight, bias),
        lambda x: x @ weight,
        lambda x: F.layer_norm(x, (width,), bias, bias),
        lambda x: torch.relu(x) * number,
        lambda x: F.gelu(x) - x.mean(1, keepdim=True),
        lambda x: x.softmax(1),
        lambda x: torch.cat([x[:, index:], x[:, :index]], 1),
        lambda x: x.t().contiguous().t() + bias,
        lambda x: torch.where(x > number, x, -x),
        lambda x: x.clone().mul_(number).add_(bias),
        lambda x: x / (x.abs().amax(1, keepdim=True) + 1),
        lambda x: F.dropout(x, 0.3),
        lambda x: x[torch.arange(x.shape[0] - 1, -1, -1, device="tb")],
        lambda x: x.cumsum(1).tanh(),
        lambda x: x + torch.rand_like(x),
        lambda x: x.double().exp().clamp(max=4).float(),
    ]
    return [source.choice(known) for _ in range(source.randrange(1, 7))]


def differing(seed: int) -> str | None:
    """How the captured and the plain program of a seed differ; None: they agree."""
    source = random.Random(seed)
    torch.manual_seed(seed)
    width = source.choice([1, 3, 8, 33])
    operations, backward = _operations(source, width), source.random() < 0.5
    accumulated = torch.zeros(width, device="tb")

    def program(x: torch.Tensor) -> list[torch.Tensor]:
        for operation in operations:
            x = operation(x)
        results = [x, x.sum(0)]
        if backward and x.requires_grad:
            leaves = [cell.cell_contents for op in operations for cell in op.__closure__ or ()]
            wanting = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
            found = torch.autograd.grad(x.square().sum(), wanting, allow_unused=True)
            results += [gradient for gradient in found if gradient is not None]
        with torch.no_grad():
            accumulated.add_(x.detach().mean(0))
        return [result.detach() for result in results]

    shapes = [(source.choice([1, 2, 5, 17]), width) for _ in range(2)]
    inputs = [torch.randn(shapes[int(i % 3 == 2)], device="tb") for i in range(9)]
    found = []
    for run in (program, tb_compile.step(program, warm_up=1)):
        accumulated.zero_()
        torch.manual_seed(seed)
        found.append([[result.cpu() for result in run(x)] + [accumulated.cpu().clone()] for x in inputs])
    if isinstance(run, tb_compile.Step) and not run.replays:
        return f"seed {seed}: no graph was captured: {run.refusal}"
    for call, (plain, captured) in enumerate(zip(*found, strict=True)):
        for place, (one, other) in enumerate(zip(plain, captured, strict=True)):
            if difference := bit_difference(one, other):
                return f"seed {seed}: result {place} of call {call}: {difference}"
    return None


def main() -> int:
    count = int(sys.argv[1])
    torch.set_num_threads(1)
    problems = [problem for problem in map(differing, range(count)) if problem]
    print("\n".join([*problems, f"{len(problems)} of {count} programs differ"]))
    return 1 if problems or not count else 0


if __name__ == "__main__":
    sys.exit(main())
