"""Every optimizer of PyTorch with several models; learning rates, schedulers, clipping, accumulation, loss scaling."""

# Some of PyTorch's functions have no types.
# mypy: disable-error-code="no-untyped-call, no-any-return, func-returns-value, union-attr, operator, unused-ignore"

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import lr_scheduler

from . import CALLS, Seen, Wrap, batch, look, mlp, seeded, use

Make = Callable[[Any], torch.optim.Optimizer]
OPTIM = torch.optim

OPTIMIZERS: dict[str, tuple[Make, str]] = {
    "SGD": (lambda p: OPTIM.SGD(p, lr=0.05), ""),
    "SGD momentum": (lambda p: OPTIM.SGD(p, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01), ""),
    "Adam": (lambda p: OPTIM.Adam(p, lr=0.01, capturable=True, amsgrad=True), ""),
    "AdamW": (lambda p: OPTIM.AdamW(p, lr=0.01, capturable=True), ""),
    "AdamW fused": (lambda p: OPTIM.AdamW(p, lr=0.01, fused=True), ""),
    "AdamW on the host": (lambda p: OPTIM.AdamW(p, lr=0.01), "AdamW.step() counts its steps on the host"),
    "NAdam": (lambda p: OPTIM.NAdam(p, lr=0.01, capturable=True), ""),
    "RAdam": (lambda p: OPTIM.RAdam(p, lr=0.01, capturable=True), ""),
    "Adamax": (lambda p: OPTIM.Adamax(p, lr=0.01, capturable=True), ""),
    "Adadelta": (lambda p: OPTIM.Adadelta(p, lr=0.5, capturable=True), ""),
    "RMSprop": (lambda p: OPTIM.RMSprop(p, lr=0.01, capturable=True, momentum=0.5), ""),
    "ASGD": (lambda p: OPTIM.ASGD(p, lr=0.01, capturable=True), ""),
    "Rprop": (lambda p: OPTIM.Rprop(p, lr=0.01, capturable=True), ""),
    "Adagrad fused": (lambda p: OPTIM.Adagrad(p, lr=0.05, fused=True), ""),
    "Adagrad": (lambda p: OPTIM.Adagrad(p, lr=0.05), "on the host"),
    "Adafactor": (lambda p: OPTIM.Adafactor(p, lr=0.01), "_local_scalar_dense"),
    "LBFGS": (lambda p: OPTIM.LBFGS(p, lr=0.1, max_iter=2), ""),
}


class Residual(nn.Module):
    """Batch normalisation, dropout and a skip connection."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 2)
        self.norm, self.drop = nn.BatchNorm1d(4), nn.Dropout(0.3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.second(x + self.drop(F.relu(self.norm(self.first(x)))))
        return found


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.head = nn.Linear(4, 8), nn.Linear(8, 2)
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.head(self.layer(self.embed(x).unsqueeze(0)))[0]
        return found


def residual() -> nn.Module:
    seeded()
    return Residual().to("tb")


def attention() -> nn.Module:
    seeded()
    return Attention().to("tb")


MODELS: dict[str, Callable[[], nn.Module]] = {"MLP": mlp, "residual": residual, "attention": attention}


def _training(model: Callable[[], nn.Module], make: Make) -> Callable[[Wrap], Iterator[Seen]]:
    def program(wrap: Wrap) -> Iterator[Seen]:
        net = model()
        optimizer = make(net.parameters())

        @wrap
        def train(x: torch.Tensor) -> torch.Tensor:
            def closure() -> torch.Tensor:
                optimizer.zero_grad()
                loss = net(x).square().mean()
                loss.backward()
                return loss

            if isinstance(optimizer, OPTIM.LBFGS):
                return optimizer.step(closure)  # type: ignore[return-value]
            loss = closure()
            optimizer.step()
            return loss

        for i in range(CALLS):
            yield look(train(batch(i)), net, optimizers=[optimizer])

    return program


for _name, (_make, _refused) in OPTIMIZERS.items():
    for _kind, _model in MODELS.items():
        _why = "aten::_local_scalar_dense" if _name == "LBFGS" else _refused
        use(_why, name=f"{_name}, {_kind}")(_training(_model, _make))


SCHEDULERS: dict[str, Callable[[Any], Any]] = {
    "StepLR": lambda o: lr_scheduler.StepLR(o, 3, 0.5),
    "ExponentialLR": lambda o: lr_scheduler.ExponentialLR(o, 0.9),
    "CosineAnnealingLR": lambda o: lr_scheduler.CosineAnnealingLR(o, 20),
    "OneCycleLR": lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=40),
    "LambdaLR": lambda o: lr_scheduler.LambdaLR(o, lambda i: 1 / (1 + i)),
}


def _scheduled(kind: str, inside: bool, tensor: str) -> Callable[[Wrap], Iterator[Seen]]:
    def program(wrap: Wrap) -> Iterator[Seen]:
        net = mlp()
        rate: Any = torch.tensor(0.01, device=tensor) if tensor else 0.01
        optimizer = OPTIM.Adam(net.parameters(), lr=rate, capturable=True)
        scheduler = SCHEDULERS[kind](optimizer)

        @wrap
        def train(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss: torch.Tensor = net(x).square().mean()
            loss.backward()
            optimizer.step()
            if inside:
                scheduler.step()
            return loss

        for i in range(CALLS):
            loss = train(batch(i))
            if not inside:
                scheduler.step()
            yield look(
                loss, net, optimizers=[optimizer], scheduler=scheduler.state_dict(), rate=scheduler.get_last_lr()
            )

    return program


for _kind in SCHEDULERS:
    use("scheduler", name=f"{_kind} inside")(_scheduled(_kind, True, ""))
for _kind in ("ExponentialLR", "CosineAnnealingLR"):
    use("lr", name=f"{_kind} outside, a number")(_scheduled(_kind, False, ""))
    use("lr", name=f"{_kind} outside, a tensor of the host")(_scheduled(_kind, False, "cpu"))
    use("", name=f"{_kind} outside, a tensor of tb")(_scheduled(_kind, False, "tb"))
    use("scheduler", name=f"{_kind} inside, a tensor of tb")(_scheduled(_kind, True, "tb"))
use("", name="StepLR outside")(_scheduled("StepLR", False, ""))


@use()
def clipping(wrap: Wrap) -> Iterator[Seen]:
    net = mlp()
    optimizer = OPTIM.SGD(net.parameters(), lr=0.1)

    @wrap
    def train(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        optimizer.step()
        return loss, norm

    for i in range(CALLS):
        yield look(train(batch(i)), net, optimizers=[optimizer])


def _accumulating(count: str) -> Callable[[Wrap], Iterator[Seen]]:
    def program(wrap: Wrap) -> Iterator[Seen]:
        net = mlp()
        optimizer = OPTIM.SGD(net.parameters(), lr=0.1)
        number = 0

        @wrap
        def train(x: torch.Tensor, last: bool) -> torch.Tensor:
            nonlocal number
            loss: torch.Tensor = net(x).square().mean() / 3
            loss.backward()
            if count == "inside":
                number += 1
            if last if count == "argument" else number % 3 == 2:
                optimizer.step()
                optimizer.zero_grad()
            return loss

        for i in range(CALLS * 2):
            if count == "outside":
                number = i
            yield look(train(batch(i), count == "argument" and i % 3 == 2), net, optimizers=[optimizer])

    return program


use("", name="accumulation by an argument")(_accumulating("argument"))
use("number", name="accumulation by a counter inside")(_accumulating("inside"))
use("number", name="accumulation by a counter outside")(_accumulating("outside"))


def _scaled(kind: str, clip: bool, overflow: bool) -> Callable[[Wrap], Iterator[Seen]]:
    def program(wrap: Wrap) -> Iterator[Seen]:
        net = mlp()
        optimizer = OPTIM.SGD(net.parameters(), lr=0.01)
        made: Any = torch.amp.GradScaler("tb", init_scale=64.0, growth_interval=3)
        if kind == "tb":
            made = torch.tb.amp.GradScaler(init_scale=64.0, growth_interval=3)  # type: ignore[attr-defined]

        @wrap
        def train(x: torch.Tensor) -> torch.Tensor:
            optimizer.zero_grad()
            loss: torch.Tensor = net(x).square().mean()
            made.scale(loss).backward()
            if clip:
                made.unscale_(optimizer)
                nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            made.step(optimizer)
            made.update()
            return loss

        for i in range(CALLS):
            x = batch(i) * (float("inf") if overflow and i % 5 == 4 else 1)
            yield look(train(x), net, optimizers=[optimizer], scaler=made.state_dict())

    return program


for _clip in (False, True):
    _text = ", clipping" if _clip else ""
    use("_local_scalar_dense", name=f"torch.amp.GradScaler{_text}")(_scaled("torch", _clip, False))
    use("_local_scalar_dense", name=f"torch.amp.GradScaler{_text}, overflow")(_scaled("torch", _clip, True))
    use("", name=f"torch.tb.amp.GradScaler{_text}")(_scaled("tb", _clip, False))
    use("", name=f"torch.tb.amp.GradScaler{_text}, overflow")(_scaled("tb", _clip, True))


def _cleared(where: str) -> Callable[[Wrap], Iterator[Seen]]:
    """Where gradients are set to None, or to zero, or never."""

    def program(wrap: Wrap) -> Iterator[Seen]:
        net = mlp()
        optimizer = OPTIM.SGD(net.parameters(), lr=0.05, momentum=0.9)
        kept: list[torch.Tensor] = []

        @wrap
        def train(x: torch.Tensor) -> torch.Tensor:
            if where == "inside, to zero":
                optimizer.zero_grad(set_to_none=False)
            if where == "inside, before" or where.startswith("kept"):
                optimizer.zero_grad()
            if where == "inside, the step first":
                optimizer.step()
                optimizer.zero_grad()
            loss: torch.Tensor = net(x).square().mean()
            loss.backward()
            if where != "inside, the step first":
                optimizer.step()
            if where == "inside, after":
                optimizer.zero_grad()
            return loss

        for i in range(CALLS):
            if where == "outside, before":
                optimizer.zero_grad()
            loss = train(batch(i))
            gradient = next(net.parameters()).grad
            if gradient is not None and where.startswith("kept"):
                kept.append(gradient if where == "kept" else gradient[0])
            yield look(loss, net, optimizers=[optimizer], kept=list(kept))
            if where == "outside, after":
                optimizer.zero_grad()

    return program


for _where in (
    *("inside, to zero", "inside, before", "inside, after", "inside, the step first"),
    *("outside, before", "outside, after", "never", "kept", "kept as a view"),
):
    use("", name=f"gradients cleared {_where}")(_cleared(_where))
