"""Runs random steps that write to arguments and state as captured steps, and compares them with plain runs:
captured_state_programs.py COUNT

Each step works on some arguments, on views of them, and on a module's state, which it writes in place or assigns;
between
the calls somebody moves parameters, freezes them, changes modes, writes to state or passes other memory. All that a
user
could look at is compared after each call.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import tb_compile
import torch
from torch import nn
from torch_backend.conformance.bits import bit_difference

CALLS = 14
Change = Callable[["Module", list[torch.Tensor]], Any]


class Module(nn.Module):
    h: torch.Tensor
    running: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.frozen = nn.Linear(4, 4), nn.Linear(4, 4).requires_grad_(False)
        self.register_buffer("running", torch.ones(4))
        self.norm, self.drop = nn.BatchNorm1d(4), nn.Dropout(0.2)
        self.h = torch.zeros(4, device="tb")
        self.store = {"a": torch.zeros(4, device="tb")}
        self.factor = 1.0


def _set(name: str, value: Callable[[Any], Any]) -> Change:
    return lambda m, a: setattr(m, name, value(m))


INSIDE: dict[str, Change] = {
    "write an argument": lambda m, a: a[0].add_(1),
    "write a view of an argument": lambda m, a: a[0][1:3].mul_(0.5),
    "write a transposed view": lambda m, a: a[-1].t().add_(m.running[:, None]),
    "write through data": lambda m, a: a[0].data.sub_(0.25),
    "copy between arguments": lambda m, a: a[0].copy_(a[-1] * 0.5),
    "write a buffer": lambda m, a: m.running.mul_(0.9).add_(a[0].mean(0)),
    "write an item": lambda m, a: m.store["a"].add_(a[0].sum(0)),
    "write a parameter": lambda m, a: m.layer.weight.data.mul_(0.99),
    "assign an attribute": _set("h", lambda m: m.h * 0.5 + 1),
    "assign a buffer": _set("running", lambda m: m.running * 0.5 + 1),
    "assign an item": lambda m, a: m.store.update(a=m.store["a"] + a[0].mean(0)),
    "count": _set("factor", lambda m: m.factor + 1),
}
BETWEEN: dict[str, Change] = {
    "nothing": lambda m, a: None,
    "data of a parameter": lambda m, a: setattr(m.layer.weight, "data", m.layer.weight.data * 0.5),
    "data of a frozen one": lambda m, a: setattr(m.frozen.weight, "data", m.frozen.weight.data * 0.5),
    "a new parameter": lambda m, a: setattr(m.layer, "bias", nn.Parameter(m.layer.bias.detach() + 1)),
    "double and float": lambda m, a: m.double().float(),
    "a new buffer": lambda m, a: setattr(m, "running", m.running + 1),
    "write a buffer": lambda m, a: m.running.add_(1),
    "eval and train": lambda m, a: m.train(not m.training),
    "unfreeze": lambda m, a: m.frozen.requires_grad_(not m.frozen.weight.requires_grad),
    "a number": lambda m, a: setattr(m, "factor", m.factor + 0.5),
    "a new item": lambda m, a: m.store.update(a=m.store["a"] + 1),
    "no gradients": lambda m, a: m.zero_grad(),
    "seed": lambda m, a: torch.manual_seed(3),
    "memory": lambda m, a: [torch.full((64,), 7.0, device="tb") for _ in range(20)],
}


def _arguments(source: random.Random) -> Callable[[int], list[torch.Tensor]]:
    """Makes the arguments of each call: separate ones, one twice, views of one, or the same objects at each call."""
    kind = source.choice(["separate", "twice", "views", "same", "slices"])
    kept = [torch.randn(4, 4).to("tb") for _ in range(2)]
    data = torch.randn(4 * CALLS, 4).to("tb")

    def make(i: int) -> list[torch.Tensor]:
        if kind == "same":
            return kept
        if kind == "slices":
            return [data[4 * i : 4 * i + 4], kept[0]]
        x = torch.randn(4, 4).to("tb")
        return {"separate": [x, torch.randn(4, 4).to("tb")], "twice": [x, x], "views": [x, x.t()]}[kind]

    return make


def _run(seed: int, wrap: Callable[..., Any]) -> tuple[list[list[torch.Tensor]], Any]:
    source = random.Random(seed)
    torch.manual_seed(seed)
    module = Module().to("tb")
    inside = [INSIDE[name] for name in source.sample(sorted(INSIDE), source.randrange(1, 4))]
    between = [source.choice(sorted(BETWEEN)) if source.random() < 0.3 else "nothing" for _ in range(CALLS)]
    clears, trains, rate = source.random() < 0.7, source.random() < 0.7, source.choice([0.1, 0.01])
    make = _arguments(source)

    @wrap
    def step(*arguments: torch.Tensor) -> list[torch.Tensor]:
        if clears:
            module.zero_grad()
        x = module.drop(module.norm(module.layer(arguments[0]))) * module.factor + module.frozen(arguments[-1])
        loss = (x + module.running + module.h + module.store["a"]).square().mean()
        if trains:
            loss.backward()
            with torch.no_grad():
                for parameter in module.parameters():
                    if parameter.grad is not None:
                        parameter.sub_(parameter.grad, alpha=rate)
        with torch.no_grad():
            for change in inside:
                change(module, list(arguments))
        return [loss, arguments[0][0]]

    seen = []
    for i in range(CALLS):
        BETWEEN[between[i]](module, [])
        arguments = make(i)
        results = step(*arguments)
        gradients = [p.grad for p in module.parameters() if p.grad is not None]
        state = [*module.state_dict().values(), module.h, module.store["a"]]
        drawn = torch.rand(2, device="tb")
        seen.append([one.detach().cpu().clone() for one in [*results, *arguments, *gradients, *state, drawn]])
        seen[-1].append(torch.tensor(module.factor))
    return seen, step


def differing(seed: int) -> str | None:
    """How the captured and the plain step of a seed differ; None: they agree."""
    plain, _ = _run(seed, lambda function: function)
    captured, step = _run(seed, lambda function: tb_compile.step(function, warm_up=2))
    for call, (one, other) in enumerate(zip(plain, captured, strict=True)):
        if len(one) != len(other):
            return f"seed {seed}: call {call} leaves {len(one)} and {len(other)} tensors; {step.refusal}"
        for place, (right, found) in enumerate(zip(one, other, strict=True)):
            if difference := bit_difference(right, found):
                return f"seed {seed}: tensor {place} after call {call}: {difference}; {step.replays} launches"
    if not step.replays and not step.refusal:
        return f"seed {seed}: no launch, and no reason"
    return None


def main() -> int:
    count = int(sys.argv[1])
    torch.set_num_threads(1)
    problems = [problem for problem in map(differing, range(count)) if problem]
    print("\n".join([*problems, f"{len(problems)} of {count} steps differ"]))
    return 1 if problems or not count else 0


if __name__ == "__main__":
    sys.exit(main())
