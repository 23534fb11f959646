"""The backend of `torch.compile` that PyTorch finds by the entry point `torch_dynamo_backends`.

AOTAutograd splits a function into a forward and a backward graph of ATen calls. Each becomes a program, which runs
without Python. If that is not possible, the graph runs as PyTorch's own Python code, and `tb_compile.graphs()` has the
reason. AOTAutograd's cache keeps the graphs for other processes.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from functorch.compile import make_boxed_func  # type: ignore[import-untyped]
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.schemas import SerializableAOTDispatchCompiler
from torch._functorch.partitioners import default_partition
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils.checkpoint import CheckpointPolicy

from . import dynamo
from .cached_graph import CachedGraph, Lower, caching
from .flex_attention import in_plain_operators
from .graphed import GraphedFunction
from .lowering import Unsupported, lower
from .record import CompiledGraph, Pass, next_number, note


def wants_graphs(backend: str, mode: str | None) -> bool:
    """Whether a mode of torch.compile asks for device graphs. ValueError: there is no such mode."""
    if mode in (None, "default", "max-autotune-no-cudagraphs"):
        return False
    if mode in ("reduce-overhead", "max-autotune"):
        return True
    raise ValueError(
        f"torch.compile(backend={backend!r}, mode={mode!r}): there is no such mode; device graphs: 'reduce-overhead'"
    )


def _is_nested(example: Any) -> bool:
    """Whether a size is that of a jagged dimension, which stands for several numbers."""
    hint = example.node.hint if isinstance(example, torch.SymInt) else None
    return isinstance(hint, torch.SymInt) and hint.node.is_nested_int()


def _lower(
    with_graphs: bool, graph_module: fx.GraphModule, which: Pass, example_inputs: Sequence[Any]
) -> Callable[[list[Any]], Sequence[Any]]:
    """A function of a list of inputs, which it empties."""
    in_plain_operators(graph_module)
    try:
        program = lower(graph_module, f"{which} graph {next_number()}")
    except Unsupported as error:
        note(CompiledGraph(which, reason=str(error)))
        boxed: Callable[[list[Any]], Sequence[Any]] = make_boxed_func(graph_module.forward)
        return boxed

    numbers = [i for i, example in enumerate(example_inputs) if not isinstance(example, torch.Tensor)]

    def run(inputs: list[Any]) -> list[Any]:
        return program.run(inputs)

    run._boxed_call = True  # type: ignore[attr-defined]
    if numbers and any(_is_nested(example_inputs[i]) for i in numbers):
        note(CompiledGraph(which, reason="an input is the ragged size of a nested tensor, which is no number"))
        python: Callable[[list[Any]], Sequence[Any]] = make_boxed_func(graph_module.forward)
        return python
    if not with_graphs:
        note(CompiledGraph(which, program))
        return run
    graphed = GraphedFunction(run, numbers, program.written_inputs)
    note(CompiledGraph(which, program, graphed=graphed))
    return graphed


def _compiler(which: Pass, lower: Lower) -> SerializableAOTDispatchCompiler:
    """What AOTAutograd calls with the graph of a pass; it keeps what this returns."""

    def compile_graph(graph_module: fx.GraphModule, example_inputs: Sequence[Any]) -> CachedGraph:
        return CachedGraph(graph_module, which, example_inputs, lower)

    return SerializableAOTDispatchCompiler(CachedGraph, compile_graph)


def _has_a_key(example: Any) -> bool:
    """Whether the cache's key can tell an input from others. PyTorch warns if its class does not say how."""
    return not is_traceable_wrapper_subclass(example) or hasattr(example, "_stable_hash_for_caching")


def _partition(joint: fx.GraphModule, joint_inputs: Sequence[Any], **keywords: Any) -> Any:
    """The forward pass saves its results for the backward pass; only a checkpoint's layers are computed again.

    Random numbers in a checkpoint are saved, since they could not be drawn again.
    """
    for node in joint.graph.nodes:
        if isinstance(node.target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in node.target.tags:
            for kept in (node, *(user for user in node.users if user.target is operator.getitem)):
                kept.meta["recompute"] = CheckpointPolicy.MUST_SAVE
    return default_partition(joint, joint_inputs, **keywords)


def tb(
    graph_module: fx.GraphModule,
    example_inputs: Sequence[torch.Tensor],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    """`torch.compile(function, backend="tb")`: a program for the forward pass and one for the backward pass.

    mode: "reduce-overhead" launches them as device graphs once calls repeat. ValueError: there is no such mode.
    NotImplementedError: options.
    """
    with_graphs = wants_graphs("tb", mode)
    if options:
        raise NotImplementedError(f"torch.compile(backend='tb') takes no options, but got {', '.join(options)}")
    dynamo.register()
    lower_graph = functools.partial(_lower, with_graphs)
    passes: tuple[Pass, ...] = ("forward", "backward", "inference")
    compilers: dict[Pass, Any] = {which: _compiler(which, lower_graph) for which in passes}
    if not all(map(_has_a_key, example_inputs)):
        compilers = {which: compiler.compiler_fn for which, compiler in compilers.items()}
    with caching(lower_graph):
        compiled: Callable[..., Any] = aot_autograd(
            fw_compiler=compilers["forward"],
            bw_compiler=compilers["backward"],
            inference_compiler=compilers["inference"],
            partition_fn=_partition,
        )(graph_module, example_inputs)
    return compiled
