"""What is seen of a step while its function runs: the optimizers, and the sources of random numbers on the host."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakSet

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook


@contextmanager
def observed_optimizers(
    known: WeakSet[torch.optim.Optimizer], interrupt: Callable[[str], None] | None = None
) -> Iterator[None]:
    """Context manager: adds the optimizers that make a step inside to `known`.

    interrupt: called with the reason before one that counts its steps on the host, which no launch repeats.
    """

    def see(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        known.add(optimizer)
        for group in optimizer.param_groups:
            if interrupt and "capturable" in group and not (group["capturable"] or group.get("fused")):
                name = type(optimizer).__name__
                interrupt(f"{name}.step() counts its steps on the host. Make it {name}(..., capturable=True)")
                return

    hook = register_optimizer_step_pre_hook(see)
    try:
        yield
    finally:
        hook.remove()


class HostRandomness:
    """The states of the random number generators of the host."""

    def __init__(self, generators: dict[str, torch.Generator]) -> None:
        self._states: dict[str, Any] = {"random": random.getstate(), "torch": torch.get_rng_state()}
        if "numpy" in sys.modules:
            name, keys, *rest = sys.modules["numpy"].random.get_state()
            self._states["numpy.random"] = (name, keys.tobytes(), *rest)
        for path, generator in generators.items():
            if generator.device.type != "tb":
                self._states[path] = generator.get_state()

    def change(self, later: HostRandomness) -> str:
        """The name of a generator that has drawn numbers in between; "" if none has."""
        for name, state in self._states.items():
            now = later._states.get(name, state)
            same = torch.equal(state, now) if isinstance(state, torch.Tensor) else state == now
            if not same:
                return name
        return ""
