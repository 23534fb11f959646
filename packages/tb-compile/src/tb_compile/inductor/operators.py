"""Operators for which tb's own kernels are used. Inductor would generate loops for them that are not vectorised."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._inductor.decomposition import decompositions, fast_random_decomps
from torch._inductor.lowering import fallback_handler, lowerings

KEPT = (torch.ops.aten.max_pool2d_with_indices.default, torch.ops.aten.max_pool2d_with_indices_backward.default)


def keep() -> None:
    """Keeps Inductor from decomposing and lowering these operators if the first tensor is on tb."""
    for operator in KEPT:
        if operator in decompositions:
            decompositions[operator] = _decomposed(decompositions[operator])
        fallback: Any = fallback_handler
        lowerings[operator] = _lowered(lowerings[operator], fallback(operator, add_to_fallback_set=False))
    fast_random_decomps.cache_clear()  # a copy of the decompositions, made when they were first asked for


def _decomposed(stock: Callable[..., Any]) -> Callable[..., Any]:
    def decompose(tensor: torch.Tensor, *arguments: Any, **keywords: Any) -> Any:
        return NotImplemented if tensor.device.type == "tb" else stock(tensor, *arguments, **keywords)

    return decompose


def _lowered(stock: Callable[..., Any], fallback: Callable[..., Any]) -> Callable[..., Any]:
    def lower(tensor: Any, *arguments: Any, **keywords: Any) -> Any:
        return (fallback if tensor.get_device().type == "tb" else stock)(tensor, *arguments, **keywords)

    return lower
