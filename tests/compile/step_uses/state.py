"""State that a step changes or only reads, and state that others move between its calls."""

# Some of PyTorch's functions have no types.
# mypy: disable-error-code="no-untyped-call, no-any-return, func-returns-value, union-attr, operator, unused-ignore"

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import nn

from . import CALLS, Seen, Wrap, batch, look, mlp, use


class Stateful(nn.Module):
    """change: what a call does to the state."""

    h: torch.Tensor
    running: torch.Tensor

    def __init__(self, change: Callable[[Any, torch.Tensor], None]) -> None:
        super().__init__()
        self.h = torch.zeros(4, device="tb")
        self.register_buffer("running", torch.zeros(4))
        self.weight = nn.Parameter(torch.ones(4))
        self.seen: list[torch.Tensor] = [torch.zeros(4, device="tb")]
        self.by_name = {"a": torch.zeros(4, device="tb")}
        self.change = change

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.change(self, x.mean(0))
        return (x * self.weight + self.running + self.h + self.seen[-1] + self.by_name["a"]).sum()


def _assign(name: str, value: Callable[[Any, torch.Tensor], Any]) -> Callable[[Any, torch.Tensor], None]:
    return lambda self, m: setattr(self, name, value(self, m))


CHANGES: dict[str, tuple[Callable[[Any, torch.Tensor], Any], str]] = {
    "an attribute is assigned": (_assign("h", lambda self, m: self.h * 0.9 + m), ".h"),
    "a buffer is assigned": (_assign("running", lambda self, m: self.running * 0.9 + m), ".running"),
    "an attribute is assigned the argument": (_assign("last", lambda self, m: m), "last"),
    "an attribute is written": (lambda self, m: self.h.mul_(0.9).add_(m), ""),
    "a buffer is written": (lambda self, m: self.running.copy_(self.running * 0.9 + m), ""),
    "an item is assigned": (lambda self, m: self.seen.__setitem__(0, self.seen[0] + m), ".seen[0]"),
    "a list grows": (lambda self, m: self.seen.append(m), ".seen"),
    "a dictionary's item is assigned": (lambda self, m: self.by_name.update(a=self.by_name["a"] + m), "['a']"),
    "a dictionary's item is written": (lambda self, m: self.by_name["a"].add_(m), ""),
    "data of a buffer is assigned": (lambda self, m: setattr(self.running, "data", self.running + m), ".running"),
    "data of a parameter is assigned": (
        lambda self, m: setattr(self.weight, "data", self.weight.data * 0.9),
        ".weight",
    ),
    "a parameter is written": (lambda self, m: self.weight.data.mul_(0.9), ""),
    "a buffer is set to another storage": (lambda self, m: self.running.set_(self.running + m), ".running"),
}

for _name, (_change, _refused) in CHANGES.items():

    def _program(wrap: Wrap, change: Any = _change) -> Iterator[Seen]:
        net = Stateful(change).to("tb")

        @wrap
        def step(x: torch.Tensor) -> torch.Tensor:
            with torch.no_grad():
                found: torch.Tensor = net(x)
                return found

        for i in range(CALLS):
            yield look(
                step(batch(i)), net, h=net.h, seen=net.seen, by_name=net.by_name, last=getattr(net, "last", None)
            )

    use(_refused, name=_name)(_program)


class Signum(torch.optim.Optimizer):
    """in_place: whether its momentum is written or assigned."""

    def __init__(self, parameters: Any, in_place: bool) -> None:
        super().__init__(parameters, {})
        self.in_place = in_place

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if "m" not in state:
                    state["m"] = p.grad.clone()
                elif self.in_place:
                    state["m"].mul_(0.9).add_(p.grad)
                else:
                    state["m"] = 0.9 * state["m"] + p.grad
                p.sub_(state["m"].tanh(), alpha=0.1)


def _own_optimizer(in_place: bool) -> Callable[[Wrap], Iterator[Seen]]:
    def program(wrap: Wrap) -> Iterator[Seen]:
        net = mlp()
        optimizer = Signum(net.parameters(), in_place)

        @wrap
        def train(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss: torch.Tensor = net(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        for i in range(CALLS):
            yield look(train(batch(i)), net, optimizers=[optimizer])

    return program


use("['m']", name="an optimizer that assigns")(_own_optimizer(False))
use("", name="an optimizer that writes")(_own_optimizer(True))


def _average(kind: str) -> Callable[[Wrap], Iterator[Seen]]:
    def program(wrap: Wrap) -> Iterator[Seen]:
        net = mlp()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        ema: dict[str, torch.Tensor] = {name: p.detach().clone() for name, p in net.named_parameters()}
        averaged = torch.optim.swa_utils.AveragedModel(net)

        @wrap
        def train(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss: torch.Tensor = net(x).square().mean()
            loss.backward()
            optimizer.step()
            if kind == "AveragedModel":
                averaged.update_parameters(net)
            for name, p in net.named_parameters() if kind != "AveragedModel" else ():
                if kind == "assigned":
                    ema[name] = 0.9 * ema[name] + 0.1 * p.detach()
                else:
                    ema[name].lerp_(p.detach(), 0.1)
            return loss

        for i in range(CALLS):
            yield look(train(batch(i)), net, averaged, ema=ema)

    return program


use("ema['0.weight']", name="an average that is assigned")(_average("assigned"))
use("", name="an average that is written")(_average("written"))
use("copy_", name="AveragedModel")(_average("AveragedModel"))


# ---- what others do between the calls ------------------------------------------------------------------------------


def _halve(net: Any) -> None:
    for parameter in net.parameters():
        parameter.data = parameter.data * 0.5


def _assign_parameter(net: Any) -> None:
    net[0].weight = nn.Parameter(net[0].weight.detach() * 0.5)


def _load(net: Any) -> None:
    net.load_state_dict({k: v * 0.5 for k, v in net.state_dict().items()}, assign=True)


def _load_in_place(net: Any) -> None:
    net.load_state_dict({k: v * 0.5 for k, v in net.state_dict().items()})


def _swap(net: Any) -> None:
    torch.utils.swap_tensors(net[0].weight, nn.Parameter(net[0].weight.detach() * 0.5))


def _table(net: Any) -> None:
    net[0]._parameters["weight"] = nn.Parameter(net[0].weight.detach() * 0.5)


def _layer(net: Any) -> None:
    torch.manual_seed(5)
    net[0] = nn.Linear(4, 8).to("tb")


def _move(net: Any) -> None:
    net.cpu()
    net.to("tb")


MOVES: dict[str, Callable[[Any], Any]] = {
    "data is assigned": _halve,
    "a new parameter": _assign_parameter,
    "load_state_dict(assign=True)": _load,
    "load_state_dict": _load_in_place,
    "double().float()": lambda net: net.double().float(),
    "to the host and back": _move,
    "swap_tensors": _swap,
    "an entry of _parameters": _table,
    "a layer is exchanged": _layer,
    "written in place": lambda net: [p.data.mul_(0.5) for p in net.parameters()],
    "share_memory of views": lambda net: setattr(net[0].weight, "data", net[0].weight.data.t().contiguous().t()),
}


def _moving(move: Callable[[Any], Any], role: str) -> Callable[[Wrap], Iterator[Seen]]:
    """role: of the model that moves: it is trained, it is frozen, or it teaches another one."""

    def program(wrap: Wrap) -> Iterator[Seen]:
        net = mlp()
        moving = net if role == "trained" else copy.deepcopy(net)
        if role != "trained":
            moving.requires_grad_(False)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

        @wrap
        def train(x: torch.Tensor) -> torch.Tensor:
            net.zero_grad()
            target = moving(x) if role == "teacher" else 0
            loss: torch.Tensor = ((net(x) + (moving(x) if role == "frozen" else 0)) - target).square().mean()
            loss.backward()
            if role != "trained":
                optimizer.step()
            return loss

        spare = []
        for i in range(CALLS * 2):
            if i in (6, 7, 15):
                move(moving)
                spare += [torch.full((8, 4), 1000.0, device="tb") for _ in range(8)]  # where the memory may have been
            yield look(train(batch(i)), net, moving)

    return program


for _name, _move_it in MOVES.items():
    for _role in ("trained", "frozen", "teacher"):
        use("", name=f"{_role}, {_name}")(_moving(_move_it, _role))


@use()
def state_of_the_optimizer_is_loaded(wrap: Wrap) -> Iterator[Seen]:
    net = mlp()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01, capturable=True)

    @wrap
    def train(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    saved: Any = None
    for i in range(CALLS * 2):
        if i == 5:
            saved = copy.deepcopy(optimizer.state_dict())
        if i == 11:
            optimizer.load_state_dict(saved)
        if i == 17:
            optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2, device="tb"))]})
        yield look(train(batch(i)), net, optimizers=[optimizer])


@use()
def an_activation_is_checkpointed(wrap: Wrap) -> Iterator[Seen]:
    from torch.utils.checkpoint import checkpoint

    net = mlp()
    drop = nn.Dropout(0.5)

    @wrap
    def train(x: torch.Tensor) -> torch.Tensor:
        net.zero_grad()
        loss: torch.Tensor = checkpoint(lambda x: drop(net(x)), x, use_reentrant=False).square().mean()
        loss.backward()
        return loss

    for i in range(CALLS):
        yield look(train(batch(i)), net)


@use()
def two_models_and_a_penalty(wrap: Wrap) -> Iterator[Seen]:
    generator, critic = mlp(), mlp()
    optimizers = [torch.optim.AdamW(net.parameters(), lr=0.01, capturable=True) for net in (generator, critic)]

    @wrap
    def train(x: torch.Tensor) -> list[torch.Tensor]:
        losses = []
        fake = torch.cat([generator(x), generator(x)], 1)
        for network, sign in ((critic, 1), (generator, -1)):
            optimizer = optimizers[sign < 0]
            optimizer.zero_grad()
            mixed = (x + fake.detach()).requires_grad_()
            (slope,) = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
            loss = sign * (critic(fake).mean() - critic(x).mean()) + slope.square().mean()
            loss.backward(retain_graph=True, inputs=list(network.parameters()))
            optimizer.step()
            fake = torch.cat([generator(x), generator(x)], 1)
            losses.append(loss)
        return losses

    for i in range(CALLS):
        yield look(train(batch(i)), generator, critic, optimizers=optimizers)


@use()
def weights_are_tied(wrap: Wrap) -> Iterator[Seen]:
    net = mlp(4)
    net[2] = nn.Linear(4, 4, bias=False).to("tb")  # type: ignore[operator]
    net[2].weight = net[0].weight  # type: ignore[index,union-attr]
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    @wrap
    def train(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    for i in range(CALLS):
        yield look(train(batch(i)), net)
