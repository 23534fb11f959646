"""What a step does with its arguments: writes, views, shared memory, numbers, objects; and what it returns."""

# Some of PyTorch's functions have no types.
# mypy: disable-error-code="no-untyped-call, no-any-return, func-returns-value, union-attr, operator, unused-ignore"

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

from . import CALLS, Seen, Wrap, batch, look, mlp, use


def _calls(
    function: Callable[..., Any], arguments: Callable[[int], tuple[Any, ...]], refused: str = "", *, name: str
) -> None:
    """A use without state: `function`, called with `arguments(i)`, all of which are looked at afterwards."""

    def program(wrap: Wrap) -> Iterator[Seen]:
        step = wrap(function)
        kept: list[Any] = []
        for i in range(CALLS):
            given = arguments(i)
            result = step(*given)
            kept.append(result)
            yield look(result, given=given, kept=list(kept))

    use(refused, name=name)(program)


DATA = torch.arange(400.0).reshape(100, 4)


def whole() -> torch.Tensor:
    return DATA.clone().to("tb")


def add_to(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(y)
    return x.sum()


_calls(add_to, lambda i: (batch(i), batch(i + 1)), name="an argument is written")
_calls(lambda x: x.mul_(2), lambda i: (batch(i),), name="an argument is written and returned")
_calls(lambda x: x[0].fill_(7), lambda i: (batch(i),), name="a part of an argument is written")
_calls(lambda x: x.t().mul_(3), lambda i: (batch(i),), name="a transposed argument is written")
_calls(lambda x: x.data.add_(1), lambda i: (batch(i),), name="an argument is written through data")
_calls(lambda x: x[1:3], lambda i: (batch(i),), name="a view of an argument is returned")
_calls(lambda x, y: (x, y, x + y), lambda i: (batch(i), batch(i + 1)), name="arguments are returned")
_calls(lambda x: (x * 2).unbind(), lambda i: (batch(i, 2),), name="results share memory")
_calls(lambda x: {"a": [x + 1, (x, None)], "b": 3}, lambda i: (batch(i),), name="results are nested")
_calls(lambda x: x + 1, lambda i: (whole()[i * 4 : i * 4 + 4],), name="slices of a data set")
_calls(lambda x: x.add_(1), lambda i: (whole()[i * 4 : i * 4 + 4],), name="slices of a data set are written")
_calls(lambda x: x.add_(1), lambda i: (whole()[:, i % 3 : i % 3 + 2],), name="columns of a tensor are written")
_calls(lambda x: x * 2, lambda i: (batch(i, 1).expand(5, 4),), name="an expanded argument")
_calls(lambda x: x * 2, lambda i: (batch(i).t(),), name="a transposed argument")
_calls(lambda x: x * 2, lambda i: (torch.view_as_complex(batch(i)[:, :2]).conj(),), name="a conjugate argument")
_calls(lambda x: x * 2, lambda i: (batch(i, 0),), name="an empty argument")
_calls(lambda x: x * 2, lambda i: (batch(i)[0, 0],), name="an argument without dimensions")
_calls(lambda x, y: x.add_(y), lambda i: (lambda x: (x, x))(batch(i)), name="one tensor twice")
_calls(lambda x, y: (x.add_(1), y * 2)[1], lambda i: (lambda x: (x, x.t()))(batch(i, 4)), name="a tensor and its view")
_calls(
    lambda x, y: (x.add_(1), y * 2)[1],
    lambda i: (lambda x: (x[i % 2 * 2 :][:4], x[1:3]))(batch(i, 8)),
    name="tensors that overlap, differently from call to call",
)
_calls(
    lambda x, y: (x.fill_(1), y.sum())[1],
    lambda i: (lambda x: (x, x) if i % 2 else (x, batch(i)))(batch(i)),
    name="tensors that are one and two in turn",
)
_calls(lambda x, s: x * s, lambda i: (batch(i), i % 2), name="a number that takes two values")
_calls(lambda x, s: x / s, lambda i: (batch(i), 0.0 if i % 2 else -0.0), name="zeros of both signs")
_calls(lambda x, s: x * s, lambda i: (batch(i), True if i % 2 else 1), name="true and one")
_calls(lambda x, s: x.sum() * s, lambda i: (batch(i), float("nan")), name="a number that is no number")
_calls(lambda x, s: x * s["a"] + s["b"][0], lambda i: (batch(i), {"a": 2, "b": [batch(i)]}), name="nested arguments")
_calls(lambda x: x * 2, lambda i: (batch(i, 2 + i % 3),), name="three shapes")
_calls(lambda x: x * 2, lambda i: (batch(i).to([torch.float32, torch.float64][i % 2]),), name="two dtypes")
_calls(lambda x: x.to("tb") * 2, lambda i: (batch(i).cpu(),), "tensor on cpu", name="an argument on the host")
_calls(lambda x: x.sum().item(), lambda i: (batch(i),), "_local_scalar_dense", name="a number is returned")
_calls(lambda x: x.cpu(), lambda i: (batch(i),), "copy_", name="a tensor on the host is returned")
_calls(lambda x: x.to_sparse(), lambda i: (F.relu(batch(i)),), "aten::_to_sparse", name="a sparse tensor is returned")
_calls(lambda x: x.shape[0], lambda i: (batch(i),), name="a shape is returned")


@dataclass
class Output:
    loss: torch.Tensor


@use("Output")
def an_object_with_a_tensor_is_returned(wrap: Wrap) -> Iterator[Seen]:
    step = wrap(lambda x: Output(x * 2))
    kept = []
    for i in range(CALLS):
        kept.append(step(batch(i)))
        yield look([one.loss for one in kept])


@use()
def one_buffer_is_given_at_each_call(wrap: Wrap) -> Iterator[Seen]:
    """A cache of keys: written at a place, and read."""
    cache, x = torch.zeros(CALLS, 4, device="tb"), torch.zeros(4, device="tb")
    place = torch.zeros(1, dtype=torch.long, device="tb")

    @wrap
    def decode(cache: torch.Tensor, x: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
        cache.index_copy_(0, place, x[None])
        return torch.softmax(cache @ x, 0) @ cache

    for i in range(CALLS):
        x.copy_(batch(i)[0])
        place.fill_(i)
        yield look(decode(cache, x, place), cache=cache)


@use()
def the_buffer_is_another_one_halfway(wrap: Wrap) -> Iterator[Seen]:
    caches = [torch.zeros(4, device="tb") for _ in range(2)]
    step = wrap(lambda cache, x: cache.mul_(0.5).add_(x[0]).sum())
    for i in range(CALLS * 2):
        result = step(caches[i >= CALLS], batch(i))
        yield look(result, caches=caches)


@use()
def a_running_mean_is_an_argument(wrap: Wrap) -> Iterator[Seen]:
    mean = torch.zeros(4, device="tb")
    step = wrap(lambda x, mean: mean.lerp_(x.mean(0), 0.1))
    for i in range(CALLS):
        result = step(batch(i), mean)
        yield look(result, mean=mean)


@use("the memory of the arguments")
def state_is_an_argument_too(wrap: Wrap) -> Iterator[Seen]:
    """The argument is sometimes a buffer that the step also reads by its name."""
    buffer = torch.ones(4, device="tb")
    other = torch.ones(4, device="tb") * 5

    @wrap
    def step(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return buffer * 2

    for i in range(CALLS):
        result = step(buffer if i % 4 else other)
        yield look(result, buffer=buffer, other=other)


@use()
def a_view_of_a_parameter_is_an_argument(wrap: Wrap) -> Iterator[Seen]:
    net = mlp()
    weight = net[0].weight  # type: ignore[index]

    @wrap
    def step(part: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        part.mul_(0.9)
        result: torch.Tensor = net(x).sum()
        return result

    for i in range(CALLS):
        result = step(weight.detach()[:2], batch(i))
        yield look(result, net)


@use("wants a gradient")
def an_argument_wants_a_gradient(wrap: Wrap) -> Iterator[Seen]:
    step = wrap(lambda x: x.square().sum().backward())
    for i in range(CALLS):
        x = batch(i).requires_grad_()
        step(x)
        yield look(x.grad)


@use()
def an_argument_gets_a_gradient_inside(wrap: Wrap) -> Iterator[Seen]:
    """As for saliency maps, and for gradient penalties."""

    @wrap
    def step(x: torch.Tensor) -> torch.Tensor:
        x = x.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(x.pow(3).sum(), x, create_graph=True)
        return gradient.square().mean()

    for i in range(CALLS):
        yield look(step(batch(i)))


@use()
def keywords(wrap: Wrap) -> Iterator[Seen]:
    step = wrap(lambda x, *, factor, bias=None: x * factor + (0 if bias is None else bias))
    for i in range(CALLS):
        yield look(step(batch(i), factor=2, bias=batch(i + 1) if i % 2 else None))


@use()
def objects_as_arguments(wrap: Wrap) -> Iterator[Seen]:
    nets = [mlp(), mlp()]
    optimizers = [torch.optim.SGD(net.parameters(), lr=0.1) for net in nets]

    @wrap
    def train(net: torch.nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss: torch.Tensor = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    for i in range(CALLS * 2):
        yield look(train(nets[i % 2], optimizers[i % 2], batch(i)), *nets)


@use("has no hash")
def a_set_as_argument(wrap: Wrap) -> Iterator[Seen]:
    step = wrap(lambda x, keys: x * len(keys))
    for i in range(CALLS):
        yield look(step(batch(i), set(range(i % 2))))


@use()
def a_partial(wrap: Wrap) -> Iterator[Seen]:
    weight = torch.ones(4, 2, device="tb")
    step = wrap(functools.partial(lambda w, x, scale: (x @ w) * scale, weight, scale=2))
    for i in range(CALLS):
        weight.add_(1)
        yield look(step(batch(i)))


@use("")
def a_partial_of_a_step(wrap: Wrap) -> Iterator[Seen]:
    step = functools.partial(wrap(lambda scale, x: x * scale), 3)
    for i in range(CALLS):
        yield look(step(batch(i)))
