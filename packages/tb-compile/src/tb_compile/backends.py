"""The backend of `torch.compile` that PyTorch finds by the entry point `torch_dynamo_backends`.

AOTAutograd makes of a function a forward and a backward graph of ATen calls; each becomes a program, which runs without
Python. A graph that cannot be one runs as PyTorch's own Python code, and `tb_compile.graphs()` says why.
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
from torch._functorch.partitioners import default_partition
from torch.utils.checkpoint import CheckpointPolicy

from . import dynamo
from .lowering import Unsupported, lower
from .record import CompiledGraph, Pass, next_number, note


def _compile(
    which: Pass, graph_module: fx.GraphModule, example_inputs: Sequence[Any]
) -> Callable[[list[Any]], Sequence[Any]]:
    """A function of a list of inputs, which it empties."""
    try:
        program = lower(graph_module, f"{which} graph {next_number()}")
    except Unsupported as error:
        note(CompiledGraph(which, None, str(error)))
        boxed: Callable[[list[Any]], Sequence[Any]] = make_boxed_func(graph_module.forward)
        return boxed
    note(CompiledGraph(which, program))

    def run(inputs: list[Any]) -> list[Any]:
        return program.run(inputs)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _partition(joint: fx.GraphModule, joint_inputs: Sequence[Any], **keywords: Any) -> Any:
    """The backward pass gets what the forward pass computed; a checkpoint's layers alone are computed again.

    Of those, what was drawn is kept: it could not be drawn again.
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

    NotImplementedError: a mode other than "default", or options.
    """
    if mode not in (None, "default"):
        raise NotImplementedError(
            f"torch.compile(backend='tb', mode={mode!r}): there is no such mode yet. tb_compile.step makes a device "
            "graph of a whole step, compiled or not"
        )
    if options:
        raise NotImplementedError(f"torch.compile(backend='tb') takes no options, but got {', '.join(options)}")
    dynamo.register()
    compiled: Callable[..., Any] = aot_autograd(
        fw_compiler=functools.partial(_compile, "forward"),
        bw_compiler=functools.partial(_compile, "backward"),
        inference_compiler=functools.partial(_compile, "inference"),
        partition_fn=_partition,
    )(graph_module, example_inputs)
    return compiled
