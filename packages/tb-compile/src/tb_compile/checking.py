"""Launches of a captured step beside the plain step, from the same state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

from .captured import Captured


class _Memory:
    """Values of tensors, by their names, and the gradients of some."""

    def __init__(self, tensors: dict[str, torch.Tensor], leaves: list[torch.Tensor]) -> None:
        self._tensors, self._leaves = tensors, leaves
        self._gradients = [leaf.grad for leaf in leaves]
        self.values = {name: tensor.detach().clone() for name, tensor in tensors.items()}
        names = {id(tensor): name for name, tensor in tensors.items()}
        for i, gradient in enumerate(self._gradients):
            if gradient is not None:
                name = names.get(id(leaves[i]), f"a parameter of shape {tuple(leaves[i].shape)}")
                self.values[f"the gradient of {name}"] = gradient.detach().clone()
        self._generator = torch.tb.get_rng_state()  # type: ignore[attr-defined]

    def restore(self) -> None:
        gradients = (value for name, value in self.values.items() if name.startswith("the gradient of "))
        with torch.no_grad():
            for name, tensor in self._tensors.items():
                tensor.copy_(self.values[name])
            for leaf, gradient in zip(self._leaves, self._gradients, strict=True):
                if gradient is not None:
                    gradient.copy_(next(gradients))
                leaf.grad = gradient
        torch.tb.set_rng_state(self._generator)  # type: ignore[attr-defined]


def check_launch(captured: Captured, tensors: list[torch.Tensor], plain: Callable[[], Any]) -> Any:
    """Launches the graph, goes back to the state before, and runs `plain`, whose result is returned.

    RuntimeError: a result, a gradient, a parameter, the optimizer's state or an argument differs.
    """
    state = dict(captured.written)
    state |= {f"argument {i}": tensor for i, tensor in enumerate(tensors)}
    leaves = captured.leaves
    before = _Memory(state, leaves)
    launched = [leaf.clone() for leaf in tree_flatten(captured.launch(tensors))[0] if isinstance(leaf, torch.Tensor)]
    after = _Memory(state, leaves)
    before.restore()
    result = plain()
    right = _Memory(state, leaves)
    results = [leaf for leaf in tree_flatten(result)[0] if isinstance(leaf, torch.Tensor)]
    if len(results) != len(launched):
        raise RuntimeError(f"step(check=True): a launch returns {len(launched)} tensors, the plain step {len(results)}")
    pairs = [(f"result {i}", one, other) for i, (one, other) in enumerate(zip(launched, results, strict=True))]
    for name in right.values.keys() ^ after.values.keys():
        raise RuntimeError(f"step(check=True): {name} is there after a launch or after the plain step, not after both")
    pairs += [(name, after.values[name], value) for name, value in right.values.items()]
    for name, one, other in pairs:
        try:
            torch.testing.assert_close(one, other, equal_nan=True)
        except AssertionError as error:
            raise RuntimeError(
                f"step(check=True): {name} differs after a launch and after the plain step, which has run. Something "
                f"that decides is not seen, such as a number in an extension or a file. {error}"
            ) from None
    return result
