"""What torch.compile(backend="tb") makes of a function, and why not more."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from .record import CompiledGraph, graphs


@dataclass(frozen=True)
class GraphBreak:
    """Where PyTorch's compiler ended a graph: the reason, and the line, as 'model.py:7 in forward'."""

    reason: str
    place: str


@dataclass(frozen=True)
class Explanation:
    """The graphs of one call and the breaks between them. As text, a line each."""

    graphs: tuple[CompiledGraph, ...]
    breaks: tuple[GraphBreak, ...]

    def __str__(self) -> str:
        lines = [str(graph) for graph in self.graphs]
        lines += [f"graph break at {one.place}: {one.reason}" for one in self.breaks]
        return "\n".join(lines or ["nothing was compiled"])


def explain(function: Callable[..., Any], *arguments: Any, **keywords: Any) -> Explanation:
    """Compiles `function` anew for these arguments and says what became of it. Calls it twice.

    Gradients of the results are taken too, of their sum, so that backward graphs are there; they go to `.grad` of the
    leaves as after any backward pass. What was compiled before is forgotten (torch.compiler.reset()).
    """
    from torch import _dynamo

    dynamo: Any = _dynamo
    torch.compiler.reset()
    found = dynamo.explain(function)(*arguments, **keywords)  # calls it, by PyTorch's own backend
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
