"""One captured step: its graph, and the results of a launch in the structure of the function's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import TreeSpec, tree_unflatten

from . import _core
from ._core import StepGraph

Entry = tuple[dict[str, Any], str, Any]
NOT_LAUNCHED = object()


def hyperparameters(optimizers: Iterable[torch.optim.Optimizer]) -> list[Entry]:
    """All groups' hyperparameters with their values. A graph contains numbers but reads tensors at each launch."""
    return [
        (group, name, value)
        for optimizer in optimizers
        for group in optimizer.param_groups
        for name, value in group.items()
        if name != "params"
    ]


@dataclass(frozen=True)
class Parameter:
    """A tensor that gets a gradient in a captured step, and its gradient before and after the step."""

    tensor: torch.Tensor
    before: torch.Tensor | None
    after: torch.Tensor | None


class Captured:
    """A graph of a step, with the tensors that it reads and writes. Made directly after the capture."""

    def __init__(
        self,
        graph: Any,
        arguments: list[torch.Tensor],
        parameters: list[Parameter],
        optimizers: list[torch.optim.Optimizer],
        results: list[Any],
        structure: TreeSpec,
    ) -> None:
        self.structure = structure
        self.replays = 0
        self._results = results
        _core._connect()
        self._graph = StepGraph(
            graph.replay,
            arguments,
            [one.tensor for one in parameters],
            [one.before for one in parameters],
            [one.after for one in parameters],
            hyperparameters(optimizers),
            [(optimizer.param_groups, len(optimizer.param_groups)) for optimizer in optimizers],
            [leaf for leaf in results if isinstance(leaf, torch.Tensor)],
        )

    def fits(self) -> bool:
        """Whether prepare() and launch() may replace a call whose arguments have the right form."""
        return self._graph.fits()

    def prepare(self) -> None:
        """Copies gradients that are other tensors than at the capture to where the graph reads them."""
        self._graph.prepare()

    def launch(self, tensors: Sequence[torch.Tensor]) -> Any:
        """Runs a step with these arguments on the current stream. Returns copies of the graph's results."""
        return self._with_structure(self._graph.launch(tuple(tensors)))

    def relaunch(self, arguments: tuple[Any, ...], stream: int | None) -> Any:
        """launch(), if nothing must be prepared and `stream` is the current stream's number; else NOT_LAUNCHED."""
        copies = None if stream is None else self._graph.relaunch(arguments, stream)
        return NOT_LAUNCHED if copies is None else self._with_structure(copies)

    def _with_structure(self, copies: list[torch.Tensor]) -> Any:
        self.replays += 1
        if len(copies) == 1 and self.structure.is_leaf():
            return copies[0]
        following = iter(copies)
        results = [next(following) if isinstance(leaf, torch.Tensor) else leaf for leaf in self._results]
        return tree_unflatten(results, self.structure)
