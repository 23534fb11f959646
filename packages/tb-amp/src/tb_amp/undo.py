"""Undoes a step of an optimizer on the device, without waiting for it."""

from enum import Enum
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten


class Change(Enum):
    """What a step changed, from the cheapest to the most expensive to undo."""

    VALUES = 1  # only values of tensors on the device
    STRUCTURE = 2  # it made or removed state, as a first step does
    HOST = 3  # numbers or CPU tensors


class Undo:
    """A copy of what a step of an optimizer may change: parameters, state, and options of groups."""

    def __init__(self, optimizer: torch.optim.Optimizer, device_type: str) -> None:
        self._optimizer = optimizer
        self._device_type = device_type
        self._keys = list(optimizer.state)
        self._leaves, self._structure = self._flatten()
        with torch.no_grad():
            self._copies = [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in self._leaves]

    def _flatten(self) -> tuple[list[Any], Any]:
        parameters = [group["params"] for group in self._optimizer.param_groups]
        options = [{k: v for k, v in group.items() if k != "params"} for group in self._optimizer.param_groups]
        return tree_flatten([parameters, options, list(self._optimizer.state.values())])

    def change(self) -> Change:
        """What has changed since the copy was made. Does not read a tensor of the device."""
        leaves, structure = self._flatten()
        if structure != self._structure or list(map(id, self._optimizer.state)) != list(map(id, self._keys)):
            return Change.STRUCTURE
        kinds = map(self._change_of, self._copies, leaves)
        return max(kinds, key=lambda kind: kind.value, default=Change.VALUES)

    def _change_of(self, copy: Any, now: Any) -> Change:
        if isinstance(copy, torch.Tensor) and isinstance(now, torch.Tensor):
            if now.shape != copy.shape or now.dtype != copy.dtype or now.device != copy.device:
                return Change.STRUCTURE
            if now.device.type == self._device_type:
                return Change.VALUES
            return Change.VALUES if torch.equal(now, copy) else Change.HOST
        return Change.VALUES if now is copy or (type(now) is type(copy) and now == copy) else Change.HOST

    @torch.no_grad()
    def where(self, condition: torch.Tensor) -> None:
        """Undoes a step that changed VALUES if `condition`, a bool tensor with one element on the device, is true."""
        conditions = {condition.device: condition}
        for copy, now in zip(self._copies, self._flatten()[0], strict=True):
            if isinstance(now, torch.Tensor) and now.device.type == self._device_type:
                if now.device not in conditions:
                    conditions[now.device] = condition.to(now.device, non_blocking=True)
                now.copy_(torch.where(conditions[now.device], copy, now))

    @torch.no_grad()
    def everything(self) -> None:
        """Undoes all changes of the step."""
        for leaf, copy in zip(self._leaves, self._copies, strict=True):
            if isinstance(leaf, torch.Tensor):
                leaf.copy_(copy)
        parameters, options, states = tree_unflatten(self._leaves, self._structure)
        for group, those, saved in zip(self._optimizer.param_groups, parameters, options, strict=True):
            group.clear()
            group.update({"params": those, **saved})
        self._optimizer.state.clear()
        self._optimizer.state.update(zip(self._keys, states, strict=True))
