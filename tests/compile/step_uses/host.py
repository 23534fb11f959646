"""What a step does on the host: counters, lists, files of its own, random numbers, waits, events."""

# Some of PyTorch's functions have no types.
# mypy: disable-error-code="no-untyped-call, no-any-return, func-returns-value, union-attr, operator, unused-ignore"

from __future__ import annotations

import collections
import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as F

from . import CALLS, Seen, Wrap, batch, look, mlp, use

COUNT = 0
SCALE = 1.0
weight = 0


class Counter:
    number = 0
    scale = torch.ones((), device="cpu")

    def __init__(self) -> None:
        self.own = 0
        self.history: list[float] = []
        self.table: collections.defaultdict[str, int] = collections.defaultdict(int)
        self.recent: collections.deque[int] = collections.deque(maxlen=3)
        self.names: set[int] = set()


def _bump_global() -> None:
    global COUNT
    COUNT += 1


EFFECTS: dict[str, tuple[Callable[[Counter], Any], str]] = {
    "an attribute counts": (lambda c: setattr(c, "own", c.own + 1), "counter.own"),
    "an attribute of the class counts": (lambda c: setattr(Counter, "number", Counter.number + 1), "Counter.number"),
    "a list gets numbers": (lambda c: c.history.append(len(c.history)), "counter.history"),
    "a dictionary counts": (lambda c: c.table.__setitem__("a", c.table["a"] + 1), "counter.table"),
    "a dictionary gets keys": (lambda c: c.table.__setitem__(str(len(c.table)), 1), "counter.table"),
    "a queue moves": (lambda c: c.recent.append(len(c.recent) and c.recent[-1] + 1), "counter.recent"),
    "a set grows": (lambda c: c.names.add(len(c.names)), "counter.names"),
    "a global counts": (lambda c: _bump_global(), "COUNT"),
    "nothing": (lambda c: None, ""),
}

for _name, (_effect, _refused) in EFFECTS.items():

    def _program(wrap: Wrap, effect: Any = _effect) -> Iterator[Seen]:
        global COUNT
        COUNT = Counter.number = 0
        counter = Counter()

        @wrap
        def step(x: torch.Tensor) -> torch.Tensor:
            effect(counter)
            return x * (1 + counter.own + COUNT + Counter.number + len(counter.history) + sum(counter.table.values()))

        for i in range(CALLS):
            result = step(batch(i))
            yield look(result, counter=vars(counter), numbers=[COUNT, Counter.number])

    use(_refused, name=f"on the host: {_name}")(_program)


def _read(change: Callable[[Any, int], Any], read: Callable[[Any], Any]) -> Callable[[Wrap], Iterator[Seen]]:
    """The host changes something between the calls, which the step reads."""

    def program(wrap: Wrap) -> Iterator[Seen]:
        global SCALE
        SCALE = 1.0
        counter = Counter()
        Counter.scale.fill_(1)
        step = wrap(lambda x: x * read(counter))
        for i in range(CALLS * 2):
            change(counter, i)
            yield look(step(batch(i)))

    return program


def _set_scale(value: float) -> None:
    global SCALE
    SCALE = value


READS: dict[str, tuple[Callable[[Any, int], Any], Callable[[Any], Any]]] = {
    "an attribute": (lambda c, i: setattr(c, "own", i // 6), lambda c: c.own),
    "a list": (lambda c, i: c.history.append(1.0) if i % 8 == 0 else None, lambda c: len(c.history)),
    "an item of a list": (lambda c, i: setattr(c, "history", [i // 6]), lambda c: c.history[0]),
    "a dictionary": (lambda c, i: c.table.update(a=i // 6), lambda c: c.table["a"]),
    "a global": (lambda c, i: _set_scale(i // 6), lambda c: SCALE),
    "an attribute of the class": (lambda c, i: setattr(Counter, "number", i // 6), lambda c: Counter.number),
    "the sign of zero": (lambda c, i: setattr(c, "own", -0.0 if i >= 6 else 0.0), lambda c: c.own),
    "a tensor of the host": (lambda c, i: Counter.scale.fill_(i // 6), lambda c: Counter.scale),
    "another tensor of the host": (lambda c, i: setattr(c, "t", torch.tensor(float(i // 6))), lambda c: c.t),
}
NEW_EACH_TIME = {"an item of a list": "counter.history", "another tensor of the host": "counter.t"}
for _name, (_change, _look) in READS.items():
    use(NEW_EACH_TIME.get(_name, ""), name=f"the host changes {_name}")(_read(_change, _look))
use("own", name="the host changes an attribute at each call")(_read(lambda c, i: setattr(c, "own", i), lambda c: c.own))
use("", name="the host changes what the step does not read")(
    _read(lambda c, i: (setattr(c, "own", i), c.history.append(i)), lambda c: 2)
)


@use()
def a_global_has_the_name_of_an_attribute(wrap: Wrap) -> Iterator[Seen]:
    global weight
    net = mlp()
    step = wrap(lambda x: x @ net[0].weight.t())  # type: ignore[index,union-attr,operator]
    for weight in range(CALLS):
        yield look(step(batch(weight)))


@use("it")
def an_iterator_is_read(wrap: Wrap) -> Iterator[Seen]:
    it = itertools.count()
    step = wrap(lambda x: x * next(it))
    for i in range(CALLS):
        yield look(step(batch(i)))


@use("stream_of_numbers")
def a_generator_is_read(wrap: Wrap) -> Iterator[Seen]:
    stream_of_numbers = (number for number in range(100))
    step = wrap(lambda x: x * next(stream_of_numbers))
    for i in range(CALLS):
        yield look(step(batch(i)))


@use("batches")
def an_iterator_of_tensors_is_read(wrap: Wrap) -> Iterator[Seen]:
    batches = iter([batch(i) for i in range(CALLS)])
    step = wrap(lambda: next(batches) * 2)
    for _ in range(CALLS):
        yield look(step())


# ---- random numbers ------------------------------------------------------------------------------------------------

OWN = "a generator of its own"
RANDOM: dict[str, tuple[Callable[[torch.Tensor], torch.Tensor], str]] = {
    "dropout": (lambda x: F.dropout(x, 0.5), ""),
    "rand_like": (lambda x: x + torch.rand_like(x), ""),
    "seeded before the draw": (lambda x: (torch.manual_seed(3), F.dropout(x, 0.5))[1], "seeded"),
    "seeded after the draw": (lambda x: (F.dropout(x, 0.5), torch.manual_seed(3))[0], "seeded"),
    "seeded without a draw": (lambda x: (torch.manual_seed(3), x * 2)[1], "seeded"),
    "random.random": (lambda x: x * random.random(), "random"),
    "torch.rand of the host": (lambda x: x * torch.rand(()), "on the host (torch)"),
    OWN: (lambda x: x + torch.rand(4, device="tb", generator=torch.Generator("tb").manual_seed(1)), "generator"),
    "fork_rng": (lambda x: _forked(x), ""),
}


def _forked(x: torch.Tensor) -> torch.Tensor:
    with torch.random.fork_rng(devices=[0], device_type="tb"):
        y = F.dropout(x, 0.5)
    return y + torch.rand_like(y)


for _name, (_draw, _refused) in RANDOM.items():

    def _random(wrap: Wrap, draw: Any = _draw) -> Iterator[Seen]:
        torch.manual_seed(9)
        random.seed(9)
        step = wrap(draw)
        for i in range(CALLS):
            if i == 8:
                torch.manual_seed(11)
            result = step(batch(i))
            yield look(result, after=torch.rand(2, device="tb"), host=random.random())

    use(_refused, name=f"random numbers: {_name}")(_random)


@use()
def a_generator_that_the_step_reaches(wrap: Wrap) -> Iterator[Seen]:
    generator = torch.Generator("tb").manual_seed(4)
    step = wrap(lambda x: x + torch.rand(4, device="tb", generator=generator))
    for i in range(CALLS):
        if i == 7:
            generator.manual_seed(5)
        result = step(batch(i))
        yield look(result, state=generator.get_state())


# ---- waits and events ----------------------------------------------------------------------------------------------

WAITS: dict[str, tuple[Callable[[torch.Tensor], Any], str]] = {
    "item": (lambda x: x.sum().item(), "_local_scalar_dense"),
    "a branch on a value": (lambda x: x * 2 if x.sum() > 0 else x - 1, "_local_scalar_dense"),
    "nonzero": (lambda x: x.nonzero(), "nonzero"),
    "a mask": (lambda x: x[x > 0], "captur"),
    "tolist": (lambda x: sum(x[0].tolist()), "copy_"),
    "cpu": (lambda x: (x.cpu() * 2).to("tb"), "copy_"),
    "repr": (lambda x: (repr(x), x * 2)[1], "captur"),
    "synchronize": (lambda x: (x * 2, torch.tb.synchronize())[0], "device_synchronize"),  # type: ignore[attr-defined]
    "a tensor from the host": (lambda x: x * torch.tensor([1.0, 2, 3, 4]).to("tb"), "copy_"),
    "a tensor from numbers": (lambda x: x * torch.tensor([1.0, 2, 3, 4], device="tb"), "copy_"),
    "a wait in the backward pass": (lambda x: _hooked(x), "_local_scalar_dense"),
}


def _hooked(x: torch.Tensor) -> torch.Tensor:
    x = x.detach().requires_grad_()
    y = x * 2
    y.register_hook(lambda gradient: gradient * gradient.sum().item())
    y.square().sum().backward()
    assert x.grad is not None
    return x.grad


for _name, (_wait, _refused) in WAITS.items():

    def _waiting(wrap: Wrap, wait: Any = _wait) -> Iterator[Seen]:
        total = torch.zeros(4, device="tb")

        @wrap
        def step(x: torch.Tensor) -> Any:
            total.add_(x.mean(0))
            result = wait(x + total)
            total.mul_(0.5)
            return result

        for i in range(CALLS):
            result = step(batch(i))
            yield look(result, total=total)

    use(_refused, name=f"waits: {_name}")(_waiting)


@use("event")
def an_event_is_recorded(wrap: Wrap) -> Iterator[Seen]:
    begin, end = (torch.Event("tb", enable_timing=True) for _ in range(2))

    @wrap
    def step(x: torch.Tensor) -> torch.Tensor:
        begin.record()
        y = x @ x.t()
        end.record()
        return y

    for i in range(CALLS):
        result = step(batch(i))
        end.synchronize()
        yield look(result, measured=begin.elapsed_time(end) >= 0)


@use()
def another_stream_inside(wrap: Wrap) -> Iterator[Seen]:
    side = torch.Stream(device="tb")

    @wrap
    def step(x: torch.Tensor) -> torch.Tensor:
        current = torch.accelerator.current_stream()
        side.wait_stream(current)
        with side:
            y = x * 2
        current.wait_stream(side)
        y.record_stream(current)
        return y + 1

    for i in range(CALLS):
        yield look(step(batch(i)))


@use("captur")
def another_stream_inside_and_a_wait(wrap: Wrap) -> Iterator[Seen]:
    side = torch.Stream(device="tb")

    @wrap
    def step(x: torch.Tensor) -> torch.Tensor:
        current = torch.accelerator.current_stream()
        side.wait_stream(current)
        with side:
            y = x * 2
            number = y.sum().item()
        current.wait_stream(side)
        return y * number

    for i in range(CALLS):
        yield look(step(batch(i)))
