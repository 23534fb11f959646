"""Replays of captured work."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch_backend.device_module as tb


def replayed(step: Callable[[], list[torch.Tensor]]) -> list[torch.Tensor]:
    """The results of the third replay of the captured `step`."""
    step()
    tb.synchronize()
    graph = tb.Graph()
    with tb.graph(graph):
        found = step()
    for _ in range(3):
        for tensor in found:
            tensor.fill_(float("nan"))
        graph.replay()
    return [tensor.cpu() for tensor in found]
