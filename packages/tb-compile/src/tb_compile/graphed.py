"""Compiled functions as device graphs: mode="reduce-overhead" of torch.compile."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from . import _core
from ._core import GraphedCallable

# The number of graphs of one function, one for each choice of its numbers (sizes that change).
_MOST_GRAPHS = 8


class GraphedFunction:
    """A function of a list, which it empties, whose calls become launches of device graphs. Thread-safe.

    function: takes a list of tensors of one device and numbers; returns tensors, numbers and None.
    numbers: the indices of the inputs that are numbers. There is a graph for each choice of them, at most 8 at once.
    written: the indices of the inputs to which the function writes.
    """

    def __init__(
        self, function: Callable[[list[Any]], Sequence[Any]], numbers: Sequence[int], written: Sequence[int]
    ) -> None:
        _core._connect()
        self._function, self._numbers, self._written = function, tuple(numbers), list(written)
        self._graphs: OrderedDict[tuple[Any, ...], GraphedCallable] = OrderedDict()
        self._lock = threading.Lock()
        self._boxed_call = True  # for AOTAutograd: the function takes a list

    def __call__(self, inputs: list[Any]) -> Sequence[Any]:
        if not self._lock.acquire(blocking=False):
            return self._function(inputs)  # another thread uses the graphs
        try:
            graph = self._graph(tuple(inputs[i] for i in self._numbers))
            results = graph.launch(inputs)
            return self._run(graph, inputs) if results is None else results
        finally:
            self._lock.release()

    def _graph(self, key: tuple[Any, ...]) -> GraphedCallable:
        graph = self._graphs.get(key)
        if graph is None:
            graph = self._graphs[key] = GraphedCallable(self._written)
            if len(self._graphs) > _MOST_GRAPHS:
                self._graphs.popitem(last=False)
        elif self._numbers:
            self._graphs.move_to_end(key)
        return graph

    def _run(self, graph: GraphedCallable, inputs: list[Any]) -> Sequence[Any]:
        try:
            own = graph.begin(inputs)
            if own is not None:
                return graph.end(list(self._function(own)), inputs)
        except Exception as error:  # the call below raises it again if the function itself fails
            graph.fail(str(error).split("\n")[0])
        except BaseException:
            graph.fail("interrupted")
            raise
        return self._function(inputs)

    @property
    def captures(self) -> int:
        """The number of captures."""
        return sum(graph.captures for graph in self._graphs.values())

    @property
    def launches(self) -> int:
        """The number of calls that were a launch of a graph."""
        return sum(graph.launches for graph in self._graphs.values())

    @property
    def refusal(self) -> str:
        """Why there is no graph; empty if there is one or may be one."""
        return next((graph.refusal for graph in self._graphs.values() if graph.refusal), "")
