"""What a step changes besides its arguments, observed while the function runs."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook


class Gradients:
    """The gradients of all tensors on tb that have or may get one, at the time of the construction.

    The garbage collector finds the tensors. Hooks of modules would make PyTorch compile compiled modules again.
    """

    def __init__(self) -> None:
        self._before = {id(leaf): (leaf, leaf.grad, _version(leaf.grad)) for leaf in self._leaves()}

    @staticmethod
    def _leaves() -> Iterator[torch.Tensor]:
        for one in gc.get_objects():
            kind = type(one)  # does not read __class__, which may run code
            tensor = kind is torch.Tensor or issubclass(kind, torch.nn.Parameter)
            if tensor and one.is_leaf and one.requires_grad and one.device.type == "tb":
                yield one

    def changed(self) -> list[torch.Tensor]:
        """The tensors whose gradient is another one, or was written to."""
        return [
            leaf
            for leaf, gradient, version in self._before.values()
            if leaf.grad is not gradient or _version(gradient) != version
        ]

    def before(self, leaf: torch.Tensor) -> torch.Tensor | None:
        return self._before[id(leaf)][1] if id(leaf) in self._before else None


def _version(tensor: torch.Tensor | None) -> int:
    return -1 if tensor is None else tensor._version


class StepState:
    """What a step changes besides its arguments: gradients, and what its optimizers do with them."""

    def __init__(self, changed: Callable[[], None]) -> None:
        self.parameters: dict[int, torch.Tensor] = {}
        self.optimizers: dict[int, torch.optim.Optimizer] = {}
        self._changed = changed
        self._hooks: list[Any] = []

    @contextmanager
    def observe(self) -> Iterator[Gradients]:
        """Context manager: optimizers that run inside, and tensors whose gradients change, belong to the step."""

        def see(optimizer: torch.optim.Optimizer, *_: Any) -> None:
            for group in optimizer.param_groups:
                self.parameters.update((id(parameter), parameter) for parameter in group["params"])
            if id(optimizer) not in self.optimizers:
                self.optimizers[id(optimizer)] = optimizer
                # load_state_dict() makes a new state, at other addresses.
                hook = optimizer.register_load_state_dict_post_hook(lambda _: self._changed())
                self._hooks.append(hook)

        gradients = Gradients()
        hook = register_optimizer_step_pre_hook(see)
        try:
            yield gradients
            self.parameters.update((id(leaf), leaf) for leaf in gradients.changed())
        finally:
            hook.remove()

    def forget(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self.parameters.clear()
        self.optimizers.clear()
