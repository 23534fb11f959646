"""Explains what torch.compile(backend="tb") makes of a function, and where graphs break."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .record import CompiledGraph, graphs


@dataclass(frozen=True)
class GraphBreak:
    """A place where PyTorch's compiler ended a graph: the reason, and the line, such as 'model.py:7 in forward'."""

    reason: str
    place: str


@dataclass(frozen=True)
class Explanation:
    """The graphs of one call and the breaks between them. Its text has a line for each."""

    graphs: tuple[CompiledGraph, ...]
    breaks: tuple[GraphBreak, ...]

    def __str__(self) -> str:
        lines = [str(graph) for graph in self.graphs]
        lines += [f"graph break at {one.place}: {one.reason}" for one in self.breaks]
        return "\n".join(lines or ["nothing was compiled"])


def explain(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Explanation:
    """Compiles `function` for these arguments and explains the result. Calls the function twice.

    It also runs a backward pass from the sum of the results, so that there are backward graphs; this accumulates
    gradients in `.grad` of the leaves. All code compiled before is dropped (torch.compiler.reset()).
    """
    from torch import _dynamo

    dynamo: Any = _dynamo
    torch.compiler.reset()
    found = dynamo.explain(function)(*arguments, **keywords)  # calls the function, with PyTorch's own backend
    torch.compiler.reset()
    before = len(graphs())
    results = torch.compile(function, backend="tb")(*arguments, **keywords)
    wanting = [
        leaf
        for leaf in torch.utils._pytree.tree_leaves(results)
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad
    ]
    if wanting:
        torch.autograd.backward([leaf.sum() for leaf in wanting])
    return Explanation(tuple(graphs()[before:]), tuple(_break(one) for one in found.break_reasons))


def _break(reason: Any) -> GraphBreak:
    frame = reason.user_stack[-1] if reason.user_stack else None
    place = f"{frame.filename}:{frame.lineno} in {frame.name}" if frame else "an unknown line"
    return GraphBreak(str(reason.reason).strip().splitlines()[0], place)
