"""What PyTorch demands of nodes of autograd and of differentiable operators, each demand as a way to compute gradients.

A way gets a function and its arguments, on any device, and returns the gradients of the sum of the squared result. All
ways return the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo.compiled_autograd import _enable
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

Function = Callable[..., torch.Tensor]
Tensors = Sequence[torch.Tensor]
Way = Callable[[Function, Tensors], Tensors]


class Observer(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees each call and makes it."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        return func(*args, **(kwargs or {}))


def loss(function: Function) -> Function:
    return lambda *arguments: function(*arguments).square().sum()


def plain(function: Function, arguments: Tensors) -> Tensors:
    return torch.autograd.grad(loss(function)(*arguments), arguments)


def _accumulated(function: Function, arguments: Tensors, compiler: Callable[..., object]) -> Tensors:
    for argument in arguments:
        argument.grad = None
    out = loss(function)(*arguments)
    with _enable(compiler):
        torch.autograd.backward(out)
    found = [argument.grad for argument in arguments]
    for argument in arguments:
        argument.grad = None
    return [gradient for gradient in found if gradient is not None]


def compiled_autograd(function: Function, arguments: Tensors) -> Tensors:
    torch._dynamo.reset()
    return _accumulated(function, arguments, lambda graph: torch.compile(graph, backend="aot_eager"))


def compiled_autograd_with_symbolic_sizes(function: Function, arguments: Tensors) -> Tensors:
    torch._dynamo.reset()
    return _accumulated(function, arguments, lambda graph: torch.compile(graph, backend="aot_eager", dynamic=True))


def compiled_autograd_of_hooked_tensors(function: Function, arguments: Tensors) -> Tensors:
    torch._dynamo.reset()
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x * 1, lambda x: x):
        return _accumulated(function, arguments, lambda graph: torch.compile(graph, backend="aot_eager"))


def checkpointed(function: Function, arguments: Tensors) -> Tensors:
    out = checkpoint(loss(function), *arguments, use_reentrant=False)  # its second forward pass stops early
    assert isinstance(out, torch.Tensor)
    return torch.autograd.grad(out, arguments)


def checkpointed_and_observed_in_the_backward_pass(function: Function, arguments: Tensors) -> Tensors:
    out = checkpoint(loss(function), *arguments, use_reentrant=False)
    assert isinstance(out, torch.Tensor)
    with FlopCounterMode(display=False):
        return torch.autograd.grad(out, arguments)


def observed_in_the_backward_pass(function: Function, arguments: Tensors) -> Tensors:
    out = loss(function)(*arguments)
    with Observer():  # type: ignore[no-untyped-call]
        return torch.autograd.grad(out, arguments)


def saved_on_the_cpu(function: Function, arguments: Tensors) -> Tensors:
    with torch.autograd.graph.save_on_cpu():
        out = loss(function)(*arguments)
    return torch.autograd.grad(out, arguments)


def arguments_changed_before_the_backward_pass(function: Function, arguments: Tensors) -> Tensors:
    before = [argument.detach().clone() for argument in arguments]
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        out = loss(function)(*arguments)
        with torch.no_grad():
            for argument in arguments:
                argument.zero_()
        found = torch.autograd.grad(out, arguments)
    with torch.no_grad():
        for argument, values in zip(arguments, before, strict=True):
            argument.copy_(values)
    return found


def batched_backward_pass(function: Function, arguments: Tensors) -> Tensors:
    out = function(*arguments)
    given = torch.stack([6 * out.detach(), 2 * out.detach()])
    return [found[1] for found in torch.autograd.grad(out, arguments, given, is_grads_batched=True)]


def anomaly_mode(function: Function, arguments: Tensors) -> Tensors:
    with torch.autograd.detect_anomaly(check_nan=True):
        return plain(function, arguments)


def second_backward_pass(function: Function, arguments: Tensors) -> Tensors:
    out = loss(function)(*arguments)
    torch.autograd.grad(out, arguments, retain_graph=True)
    found = torch.autograd.grad(out, arguments)
    try:
        torch.autograd.grad(out, arguments)
    except RuntimeError as error:
        assert "backward through the graph a second time" in str(error)  # noqa: PT017 - a way works without pytest
        return found
    raise AssertionError("a third backward pass did not raise")


def transform_grad(function: Function, arguments: Tensors) -> Tensors:
    values = [argument.detach() for argument in arguments]
    return torch.func.grad(loss(function), argnums=tuple(range(len(values))))(*values)  # type: ignore[no-any-return]


def transform_vjp(function: Function, arguments: Tensors) -> Tensors:
    found: Any = torch.func.vjp(function, *(argument.detach() for argument in arguments))
    out, pull_back = found
    return pull_back(2 * out)  # type: ignore[no-any-return]


def transform_vmap_of_grad(function: Function, arguments: Tensors) -> Tensors:
    values = [torch.stack([argument.detach(), argument.detach() + 1]) for argument in arguments]
    grad = torch.func.grad(loss(function), argnums=tuple(range(len(values))))
    return [found[0] for found in torch.func.vmap(grad)(*values)]


def transform_jacrev(function: Function, arguments: Tensors) -> Tensors:
    values = [argument.detach() for argument in arguments]
    out = function(*values)
    jacobians = torch.func.jacrev(function, argnums=tuple(range(len(values))))(*values)
    return [torch.tensordot(2 * out, jacobian, out.dim()) for jacobian in jacobians]


def compiled(function: Function, arguments: Tensors) -> Tensors:
    torch._dynamo.reset()
    return plain(torch.compile(function, backend="aot_eager", fullgraph=True), arguments)


WAYS: list[Way] = [
    *(compiled_autograd, compiled_autograd_with_symbolic_sizes, compiled_autograd_of_hooked_tensors),
    *(checkpointed, checkpointed_and_observed_in_the_backward_pass, observed_in_the_backward_pass, saved_on_the_cpu),
    *(arguments_changed_before_the_backward_pass, batched_backward_pass, anomaly_mode, second_backward_pass),
    *(transform_grad, transform_vjp, transform_vmap_of_grad, transform_jacrev, compiled),
]


def flops(function: Function, arguments: Tensors) -> tuple[int, int]:
    """The floating-point operations of both passes, as FlopCounterMode and the profiler count them.

    Of the profiler those of matrix products only: whether autograd adds gradients in place, which is not counted,
    depends
    on who else holds them.
    """
    with FlopCounterMode(display=False) as counter:
        plain(function, arguments)
    with torch.profiler.profile(with_flops=True) as profile:
        plain(function, arguments)
    products = [
        event.flops for event in profile.key_averages() if event.key in ("aten::mm", "aten::addmm", "aten::bmm")
    ]
    return counter.get_total_flops(), sum(products)


def saved_tensors(function: Function, arguments: Tensors) -> list[tuple[tuple[int, ...], torch.dtype]]:
    """Shape and dtype of what hooks on saved tensors get, in order."""
    packed = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        packed.append((tuple(tensor.shape), tensor.dtype))
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        loss(function)(*arguments)
    return packed
