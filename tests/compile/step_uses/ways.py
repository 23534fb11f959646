"""The modes of PyTorch and of modules under which a step runs, and the ways to write a step."""

# Some of PyTorch's functions have no types.
# mypy: disable-error-code="no-untyped-call, no-any-return, func-returns-value, union-attr, operator, unused-ignore"

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from . import CALLS, Seen, Wrap, batch, look, mlp, residual_block, use
from .host import Counter

# ---- modes ---------------------------------------------------------------------------------------------------------


def _toggled(toggle: Callable[[Any, int], Any]) -> Callable[[Wrap], Iterator[Seen]]:
    def program(wrap: Wrap) -> Iterator[Seen]:
        net = residual_block()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

        @wrap
        def train(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss: torch.Tensor = net(x).square().mean()
            if loss.requires_grad:
                loss.backward()
                optimizer.step()
            return loss

        for i in range(CALLS * 2):
            toggle(net, i)
            yield look(train(batch(i)), net, optimizers=[optimizer])

    return program


def _hook(net: Any, i: int) -> None:
    if i == 6:
        net[0].weight.register_hook(lambda gradient: gradient * 0)
    if i == 12:
        net[0].register_forward_hook(lambda module, arguments, output: output * 2)
    if i == 18:
        net[0].weight.register_hook(lambda gradient: gradient + 1)


TOGGLES: dict[str, Callable[[Any, int], Any]] = {
    "eval and train": lambda net, i: net.train(i // 4 % 2 == 0),
    "a layer's mode": lambda net, i: net[1].train(i // 4 % 2 == 0),
    "requires_grad_ of a layer": lambda net, i: net[0].requires_grad_(i // 4 % 2 == 0),
    "hooks": _hook,
    "the probability of dropout": lambda net, i: setattr(net[3], "p", 0.1 + i // 6 * 0.1),
    "the momentum of normalisation": lambda net, i: setattr(net[1], "momentum", 0.1 + i // 6 * 0.1),
    "a method of the object": lambda net, i: (
        setattr(net[2], "forward", lambda x: x * 3)
        if i == 6
        else net[2].__dict__.pop("forward", None)
        if i == 12
        else 0
    ),
    "gradients disabled": lambda net, i: torch.set_grad_enabled(i // 4 % 2 == 0),
}


for _name, _toggle in TOGGLES.items():

    def _mode(wrap: Wrap, toggle: Any = _toggle) -> Iterator[Seen]:
        try:
            yield from _toggled(toggle)(wrap)
        finally:
            torch.set_grad_enabled(True)

    use("", name=f"modes: {_name}")(_mode)


def _autocast(where: str) -> Callable[[Wrap], Iterator[Seen]]:
    def program(wrap: Wrap) -> Iterator[Seen]:
        net = mlp()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

        @wrap
        def train(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            with torch.autocast(
                "tb",
                torch.bfloat16,
                enabled=where in ("inside", "an evaluation before", "an evaluation with gradients before"),
            ):
                loss: torch.Tensor = net(x).float().square().mean()
            loss.backward()
            optimizer.step()
            return loss

        for i in range(CALLS):
            if where == "in one block with an evaluation":
                with torch.autocast("tb", torch.bfloat16):
                    net(batch(i)).sum().item()
                    yield look(train(batch(i)), net)
                continue
            if where == "an evaluation before":
                with torch.autocast("tb", torch.bfloat16), torch.no_grad():
                    net(batch(i))
            if where == "an evaluation with gradients before":
                with torch.autocast("tb", torch.bfloat16):
                    net(batch(i)).sum()
            with torch.autocast("tb", torch.bfloat16, enabled=where == "around"):
                loss = train(batch(i))
            yield look(loss, net)

    return program


for _where in ("around", "inside", "an evaluation before", "an evaluation with gradients before"):
    use("", name=f"autocast, {_where}")(_autocast(_where))
use("autocast has cast", name="autocast, in one block with an evaluation")(_autocast("in one block with an evaluation"))


@use()
def inference_mode(wrap: Wrap) -> Iterator[Seen]:
    net = mlp()
    step = wrap(net)
    for i in range(CALLS):
        with torch.inference_mode(i % 4 > 1):
            yield look(step(batch(i)), net)


# ---- ways to write a step ------------------------------------------------------------------------------------------


@use()
def a_module_itself(wrap: Wrap) -> Iterator[Seen]:
    net = residual_block()
    step = wrap(net)
    with torch.no_grad():
        for i in range(CALLS * 2):
            if i == 10:
                net.eval()
            yield look(step(batch(i)), net)


@use()
def methods_of_two_objects(wrap: Wrap) -> Iterator[Seen]:
    class Trainer:
        def __init__(self, factor: float) -> None:
            self.net = mlp()
            self.factor = factor
            self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

        @wrap
        def train(self, x: torch.Tensor) -> torch.Tensor:
            self.optimizer.zero_grad()
            loss: torch.Tensor = (self.net(x) * self.factor).square().mean()
            loss.backward()
            self.optimizer.step()
            return loss

    trainers = [Trainer(1.0), Trainer(2.0)]
    for i in range(CALLS):
        yield look([trainer.train(batch(i)) for trainer in trainers], *(trainer.net for trainer in trainers))


@use("self.steps")
def a_method_that_counts(wrap: Wrap) -> Iterator[Seen]:
    class Trainer:
        def __init__(self) -> None:
            self.steps = 0

        @wrap
        def train(self, x: torch.Tensor) -> torch.Tensor:
            self.steps += 1
            return x * self.steps

    trainer = Trainer()
    for i in range(CALLS):
        yield look(trainer.train(batch(i)), steps=trainer.steps)


@use()
def a_bound_method(wrap: Wrap) -> Iterator[Seen]:
    net = mlp()
    step = wrap(net.forward)
    for i in range(CALLS):
        if i == 8:
            net[0].weight.data = net[0].weight.data * 2  # type: ignore[index,union-attr]
        yield look(step(batch(i)))


@use()
def weak_proxies_are_reached(wrap: Wrap) -> Iterator[Seen]:
    """As a profiler has one of its module; the object of the second one is gone."""
    net = mlp()
    proxies = {"module": weakref.proxy(net), "gone": weakref.proxy(Counter())}
    step = wrap(lambda x: net(x) * len(proxies))
    for i in range(CALLS):
        yield look(step(batch(i)), net)


@use()
def frozen_by_the_collector(wrap: Wrap) -> Iterator[Seen]:
    net = mlp()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    @wrap
    def forward_and_backward(x: torch.Tensor) -> torch.Tensor:
        net.zero_grad()
        loss: torch.Tensor = net(x).square().mean()
        loss.backward()
        return loss

    gc.freeze()
    try:
        for i in range(CALLS):
            loss = forward_and_backward(batch(i))
            optimizer.step()
            yield look(loss, net)
    finally:
        gc.unfreeze()


@use()
def called_from_several_threads(wrap: Wrap) -> Iterator[Seen]:
    net = mlp()

    @wrap
    def step(x: torch.Tensor) -> torch.Tensor:
        net.zero_grad()
        loss: torch.Tensor = net(x).square().mean()
        loss.backward()
        return loss

    for i in range(CALLS):
        found: list[torch.Tensor] = []
        thread = threading.Thread(target=lambda i=i, found=found: found.append(step(batch(i))))
        thread.start()
        thread.join()
        torch.tb.synchronize()  # type: ignore[attr-defined]
        yield look(found, net)


@use(tolerance=1e-5)
def torch_compile_inside(wrap: Wrap) -> Iterator[Seen]:
    net = mlp()
    compiled = torch.compile(net, backend="tb")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    @wrap
    def train(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = compiled(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    for i in range(CALLS):
        yield look(train(batch(i)), net)


@use()
def a_step_in_a_step(wrap: Wrap) -> Iterator[Seen]:
    inner = wrap(lambda x: x * 2)
    outer = wrap(lambda x: inner(x) + 1)
    for i in range(CALLS):
        yield look(outer(batch(i)))


@use()
def a_graph_launched_between(wrap: Wrap) -> Iterator[Seen]:
    step = wrap(nn.Softmax(0))
    for i in range(CALLS):
        first = step(batch(i))
        second = step(batch(i + 1))
        yield look([first, second])
