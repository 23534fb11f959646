"""torch.tb.make_graphed_callables: parts of a training step whose forward and backward passes are device graphs."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch.utils._pytree import PyTreeSpec, tree_flatten, tree_unflatten

from torch_backend.device_module.devices import synchronize
from torch_backend.device_module.graphs import Graph, Pool, graph, graph_pool_handle
from torch_backend.device_module.streams import Stream, current_stream, stream

Tensors = tuple[torch.Tensor, ...]
Gradients = tuple[torch.Tensor | None, ...]


@dataclass
class _Part:
    """One callable: its graphs and the tensors that they read and write."""

    call: Callable[..., Any]
    arguments: tuple[Any, ...]
    inputs: Tensors  # the arguments' tensors, then the parameters
    structure: PyTreeSpec  # of the arguments
    given: int  # of the inputs, how many are arguments
    forward: Graph
    backward: Graph
    outputs: Tensors = ()
    output_structure: PyTreeSpec | None = None
    output_gradients: Gradients = ()
    input_gradients: Gradients = ()

    def run(self) -> Tensors:
        outputs, self.output_structure = tree_flatten(self.call(*self.arguments))
        if not all(isinstance(output, torch.Tensor) for output in outputs):
            raise TypeError("make_graphed_callables: a callable may return nothing but tensors")
        return tuple(outputs)

    def gradients(self, outputs: Tensors, gradients: Gradients, allow_unused: bool) -> Gradients:
        """The gradients of the inputs that require one, in their order."""
        wanting = [
            (output, gradient) for output, gradient in zip(outputs, gradients, strict=True) if output.requires_grad
        ]
        inputs = [tensor for tensor in self.inputs if tensor.requires_grad]
        if not wanting or not inputs:
            return ()
        heads, tails = zip(*wanting, strict=True)
        return torch.autograd.grad(heads, inputs, grad_outputs=tails, allow_unused=allow_unused)


def make_graphed_callables(
    callables: Any,
    sample_args: tuple[Any, ...] | tuple[tuple[Any, ...], ...],
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Pool | None = None,
) -> Any:
    """Returns modules or functions whose forward and backward passes are graphs; modules are changed in place.

    callables: one callable, or a tuple in the order in which each step will call them. sample_args: for each callable a
    tuple of arguments with tensors (which may be nested) of the shapes, types and requires_grad of all later calls.
    num_warmup_iters: calls before the capture. allow_unused_input: inputs that do not affect the results get no
    gradient instead of an error. pool: as for graph().

    The returned objects take and return tensors. A module runs its graph only in the mode, train() or eval(), of its
    capture. TypeError: an argument or result is not a tensor. ValueError: the number of tuples differs from that of
    callables. RuntimeError: modules with hooks or with buffers that require gradients, and what graph() raises. Follows
    torch.cuda.make_graphed_callables.
    """
    single = not isinstance(callables, tuple)
    calls: Sequence[Any] = (callables,) if single else callables
    samples = cast("tuple[tuple[Any, ...], ...]", (sample_args,) if single else sample_args)
    if len(calls) != len(samples):
        raise ValueError(f"{len(calls)} callables, but arguments for {len(samples)}: give a tuple for each")
    parts = [_part(call, arguments) for call, arguments in zip(calls, samples, strict=True)]
    _warm_up(parts, num_warmup_iters, allow_unused_input)
    _capture(parts, pool if pool is not None else graph_pool_handle(), allow_unused_input)
    graphed = tuple(_install(part) for part in parts)
    return graphed[0] if single else graphed


def _part(call: Any, arguments: tuple[Any, ...]) -> _Part:
    parameters: Tensors = ()
    if isinstance(call, torch.nn.Module):
        if call._backward_hooks or call._forward_hooks or call._forward_pre_hooks:
            raise RuntimeError("make_graphed_callables: register a module's hooks on what it returns, not before")
        if any(buffer.requires_grad for buffer in call.buffers()):
            raise RuntimeError("make_graphed_callables: a module's buffers may not want gradients; its parameters may")
        parameters = tuple(call.parameters())
    flat, structure = tree_flatten(arguments)
    if not all(isinstance(argument, torch.Tensor) for argument in flat):
        raise TypeError("make_graphed_callables: sample_args may hold nothing but tensors")
    return _Part(call, arguments, (*flat, *parameters), structure, len(flat), Graph(), Graph())


def _warm_up(parts: Sequence[_Part], count: int, allow_unused: bool) -> None:
    aside = Stream()
    synchronize()
    with stream(aside):
        for part in parts:
            for _ in range(count):
                outputs = part.run()
                part.gradients(outputs, tuple(torch.empty_like(output) for output in outputs), allow_unused)
    current_stream().wait_stream(aside)
    synchronize()


def _capture(parts: Sequence[_Part], pool: Pool, allow_unused: bool) -> None:
    """Captures the forward passes, then the backward passes from the last to the first, as they will be replayed."""
    for part in parts:
        with graph(part.forward, pool=pool):
            part.outputs = part.run()
    for part in reversed(parts):
        part.output_gradients = tuple(
            torch.empty_like(output) if output.requires_grad else None for output in part.outputs
        )
        found: Iterator[torch.Tensor | None] = iter(())
        if any(gradient is not None for gradient in part.output_gradients):
            with graph(part.backward, pool=pool):
                found = iter(part.gradients(part.outputs, part.output_gradients, allow_unused))
        part.input_gradients = tuple(next(found, None) if tensor.requires_grad else None for tensor in part.inputs)
        part.outputs = tuple(output.detach().requires_grad_(output.requires_grad) for output in part.outputs)


def _install(part: _Part) -> Any:
    class Replayed(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, *inputs: torch.Tensor) -> Tensors:
            for own, given in zip(part.inputs[: part.given], inputs, strict=False):
                if own.data_ptr() != given.data_ptr():
                    own.copy_(given)
            part.forward.replay()
            outputs = tuple(output.detach() for output in part.outputs)
            pairs = zip(outputs, part.outputs, strict=True)
            context.mark_non_differentiable(*(output for output, own in pairs if not own.requires_grad))
            return outputs

        @staticmethod
        def backward(context: Any, *gradients: torch.Tensor) -> Gradients:
            for own, given in zip(part.output_gradients, gradients, strict=True):
                if own is not None and own.data_ptr() != given.data_ptr():
                    own.copy_(given)
            part.backward.replay()
            # Autograd may keep a gradient as .grad, which the next replay must not overwrite, so they are copied.
            return tuple(None if gradient is None else gradient.clone() for gradient in part.input_gradients)

    def replayed(*arguments: Any) -> Any:
        flat, structure = tree_flatten(arguments)
        if structure != part.structure:
            raise TypeError("the arguments are nested in another way than those of the capture")
        outputs = Replayed.apply(*flat, *part.inputs[part.given :])  # type: ignore[no-untyped-call]
        return tree_unflatten(list(outputs), cast("PyTreeSpec", part.output_structure))

    if not isinstance(part.call, torch.nn.Module):
        return replayed
    module, original, training = part.call, part.call.forward, part.call.training

    def forward(*arguments: Any) -> Any:
        return (replayed if module.training == training else original)(*arguments)

    module.forward = forward
    return module
