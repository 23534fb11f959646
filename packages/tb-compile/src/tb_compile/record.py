"""A record of the graphs that this process compiled."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

from ._core import Program

if TYPE_CHECKING:
    from .graphed import GraphedFunction

Pass = Literal["forward", "backward", "inference"]


@dataclass(frozen=True)
class CompiledGraph:
    """What became of one graph: a program, generated kernels, or Python code, for which `reason` has the reason.

    kernels: the number of generated kernels. graphed: its device graphs, in mode "reduce-overhead".
    """

    which: Pass
    program: Program | None = None
    kernels: int | None = None
    reason: str = ""
    graphed: GraphedFunction | None = None

    @property
    def runs(self) -> int:
        """The number of runs of its program, without launches of a device graph; 0 for other code."""
        return 0 if self.program is None else self.program.runs

    def __str__(self) -> str:
        if self.program is not None:
            text = f"a program of {len(self.program.instructions)} instructions"
        elif self.kernels is not None:
            text = f"{self.kernels} generated kernels and what is called between them"
        else:
            text = f"Python code, because of {self.reason}"
        if self.graphed is not None:
            refusal = self.graphed.refusal
            text += (
                f"; no device graph: {refusal}" if refusal else f"; {self.graphed.launches} launches as a device graph"
            )
        return f"{self.which} graph: {text}"


class Counts(NamedTuple):
    """Counts of the graphs that graphs() returns, and of their device graphs."""

    programs: int
    of_kernels: int  # generated ones
    of_python: int  # code that PyTorch runs operator by operator
    captures: int
    launches: int
    refusals: int  # graphs that mode "reduce-overhead" did not make device graphs of


_lock = threading.Lock()
_graphs: list[CompiledGraph] = []
_count = 0


def next_number() -> int:
    """A number for the next graph of this process, from 0."""
    global _count
    with _lock:
        _count += 1
        return _count - 1


def note(graph: CompiledGraph) -> None:
    """Adds a graph to the record."""
    with _lock:
        _graphs.append(graph)


def graphs() -> list[CompiledGraph]:
    """All graphs that this process compiled since the start or the last reset(), in their order."""
    with _lock:
        return list(_graphs)


def counts() -> Counts:
    """How many of the graphs that graphs() gives became programs, kernels or Python code, and device graphs of them."""
    known = graphs()
    graphed = [graph.graphed for graph in known if graph.graphed]
    return Counts(
        programs=sum(graph.program is not None for graph in known),
        of_kernels=sum(graph.kernels is not None for graph in known),
        of_python=sum(bool(graph.reason) for graph in known),
        captures=sum(one.captures for one in graphed),
        launches=sum(one.launches for one in graphed),
        refusals=sum(bool(one.refusal) for one in graphed),
    )


def reset() -> None:
    """Empties the record. Compiled functions are kept; torch.compiler.reset() drops those."""
    with _lock:
        _graphs.clear()
