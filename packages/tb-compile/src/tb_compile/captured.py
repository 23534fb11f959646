"""One captured step: what it must find, where it reads its arguments, and what it leaves."""

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
    """Those of all groups with their values now. A graph keeps a number, and reads a tensor anew."""
    return [
        (group, name, value)
        for optimizer in optimizers
        for group in optimizer.param_groups
        for name, value in group.items()
        if name != "params"
    ]


@dataclass(frozen=True)
class Parameter:
    """A tensor of a captured step that gets a gradient: where it lies, and its gradient before and after."""

    tensor: torch.Tensor
    address: int
    before: torch.Tensor | None
    after: torch.Tensor | None

    def fits(self) -> bool:
        """Whether the graph can start from what is there now: a gradient that lies elsewhere is copied."""
        gradient, before = self.tensor.grad, self.before
        if gradient is not before:
            if gradient is None or before is None:
                return False
            if gradient.shape != before.shape or gradient.dtype != before.dtype:
                return False
        return self.tensor.data_ptr() == self.address


class Captured:
    """A graph of a step, captured just now, with the tensors that it reads and writes."""

    def __init__(
        self,
        graph: Any,
        arguments: list[torch.Tensor],
        parameters: list[Parameter],
        optimizers: list[torch.optim.Optimizer],
        results: list[Any],
        structure: TreeSpec,
    ) -> None:
        self.parameters, self.structure = parameters, structure
        self.replays = 0
        self._entries = hyperparameters(optimizers)
        self._groups = [(optimizer.param_groups, len(optimizer.param_groups)) for optimizer in optimizers]
        self._results = results
        _core._connect()
        self._graph = StepGraph(
            graph.replay,
            arguments,
            [one.tensor for one in parameters],
            [one.before for one in parameters],
            [one.after for one in parameters],
            self._entries,
            self._groups,
            [leaf for leaf in results if isinstance(leaf, torch.Tensor)],
        )

    def fits(self) -> bool:
        """Whether a launch may follow launch()'s preparations, for arguments of the right form."""
        return (
            all(
                group.get(name) is value or _equal_numbers(group.get(name), value)
                for group, name, value in self._entries
            )
            and all(len(groups) == count for groups, count in self._groups)
            and all(parameter.fits() for parameter in self.parameters)
        )

    def prepare(self) -> None:
        """Copies gradients that lie elsewhere to where the graph reads them."""
        with torch.no_grad():
            for parameter in self.parameters:
                gradient = parameter.tensor.grad
                if gradient is not parameter.before and gradient is not None and parameter.before is not None:
                    parameter.before.copy_(gradient)
                    parameter.tensor.grad = parameter.before

    def launch(self, tensors: Sequence[torch.Tensor]) -> Any:
        """One step with these arguments on the current stream. Results are copies: the next launch writes over them."""
        return self._with_structure(self._graph.launch(tuple(tensors)))

    def relaunch(self, arguments: tuple[Any, ...], stream: int | None) -> Any:
        """As launch(), where nothing has to be prepared and `stream` is the current one's number; else NOT_LAUNCHED."""
        copies = None if stream is None else self._graph.relaunch(arguments, stream)
        return NOT_LAUNCHED if copies is None else self._with_structure(copies)

    def _with_structure(self, copies: list[torch.Tensor]) -> Any:
        self.replays += 1
        if len(copies) == 1 and self.structure.is_leaf():
            return copies[0]
        following = iter(copies)
        results = [next(following) if isinstance(leaf, torch.Tensor) else leaf for leaf in self._results]
        return tree_unflatten(results, self.structure)


def _equal_numbers(one: Any, other: Any) -> bool:
    tensors = isinstance(one, torch.Tensor) or isinstance(other, torch.Tensor)
    return not tensors and bool(one == other)
