"""One captured step: its graph, what it depends on, and the results of a launch in the structure of the function's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._pytree import TreeSpec, tree_unflatten

from ._core import StepArguments, StepCapture, StepGradients, StepGraph, Watch
from .host_state import HostState

NOT_LAUNCHED = object()
# A tensor of the host up to this size is compared before each launch.
_MOST_BYTES = 1 << 16


class Captured:
    """A graph of a step. Made directly after the captured call, whose work has run.

    arguments, gradients: those of the call. state: what the function reaches on the host, after it. results: leaves of
    what the function returned, without autograd, in its structure.
    """

    def __init__(
        self,
        capture: StepCapture,
        arguments: StepArguments,
        gradients: StepGradients,
        state: HostState,
        results: list[Any],
        structure: TreeSpec,
    ) -> None:
        self.structure = structure
        self.replays = 0
        self.bound: set[int] = set()  # positions of arguments that are read where the caller has them
        self._results = results
        watch = Watch()
        self._kept = state.watch(watch)
        observation = capture.observation
        seen: set[int] = set()
        for name, tensor in state.tensors.items():
            if tensor.device.type == "tb" and id(tensor) not in seen and observation.has_used(tensor):
                seen.add(id(tensor))
                watch.add_tensor(tensor, name)
                hooks = tensor._backward_hooks
                if isinstance(hooks, dict):
                    self._kept.append(hooks)
                    watch.add_items(hooks, f"the hooks of {name}")
        self._kept.append(host := observation.host_tensors())
        for tensor in host:
            if tensor.nbytes <= _MOST_BYTES:
                watch.add_values(tensor, state.name_of(tensor) or "a tensor of the host that the step reads")
        tensors = [leaf for leaf in results if isinstance(leaf, torch.Tensor)]
        written = observation.written_tensors()
        self.written = {name: tensor for name, tensor in state.tensors.items() if observation.has_written(tensor)}
        self.leaves = gradients.tensors()
        self._graph = StepGraph(capture, arguments, watch, gradients, tensors, written)
        observation.release_tensors()

    def difference(self, tensors: Sequence[torch.Tensor]) -> str:
        """What differs from the captured call, if launch() cannot replace one with these arguments; "" if it can."""
        return self._graph.difference(list(tensors))

    def launch(self, tensors: Sequence[torch.Tensor]) -> Any:
        """Runs a step with these arguments on the current stream, and returns its results."""
        self.replays += 1
        return self._with_structure(self._graph.launch(list(tensors)))

    def relaunch(self, arguments: tuple[Any, ...], stream: int | None) -> Any:
        """launch(), if there is no difference and `stream` is the current stream's number; else NOT_LAUNCHED."""
        results = None if stream is None else self._graph.relaunch(arguments, stream)
        if results is None:
            return NOT_LAUNCHED
        self.replays += 1
        return self._with_structure(results)

    def results(self, tensors: Sequence[torch.Tensor]) -> Any:
        """The results of the captured call, for its arguments."""
        return self._with_structure(self._graph.results(list(tensors)))

    def _with_structure(self, tensors: list[torch.Tensor]) -> Any:
        if len(tensors) == 1 and self.structure.is_leaf():
            return tensors[0]
        following = iter(tensors)
        results = [next(following) if isinstance(leaf, torch.Tensor) else leaf for leaf in self._results]
        return tree_unflatten(results, self.structure)
