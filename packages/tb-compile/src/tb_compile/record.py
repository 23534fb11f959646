"""What became of the graphs that this process compiled."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Literal

from ._core import Program

Pass = Literal["forward", "backward", "inference"]


@dataclass(frozen=True)
class CompiledGraph:
    """What became of one graph. `program` is None where it runs as Python code, and `reason` says why."""

    which: Pass
    program: Program | None
    reason: str = ""

    @property
    def runs(self) -> int:
        """How often its program ran; Python code is not counted."""
        return 0 if self.program is None else self.program.runs


_lock = threading.Lock()
_graphs: list[CompiledGraph] = []
_count = 0


def next_number() -> int:
    """Of the graphs of this process, from 0."""
    global _count
    with _lock:
        _count += 1
        return _count - 1


def note(graph: CompiledGraph) -> None:
    """Adds a graph to those of graphs()."""
    with _lock:
        _graphs.append(graph)


def graphs() -> list[CompiledGraph]:
    """All graphs that this process compiled since the start or the last reset(), in their order."""
    with _lock:
        return list(_graphs)


def reset() -> None:
    """Forgets what graphs() gives. Compiled functions stay as they are: torch.compiler.reset() forgets those."""
    with _lock:
        _graphs.clear()
