"""Operators that stay calls of tb's own kernels, because generated kernels are slower or cannot have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._inductor import lowering
from torch._inductor.codegen.common import pointwise_overrides_data
from torch._inductor.decomposition import decompositions, fast_random_decomps
from torch._inductor.ir import IRNode
from torch._inductor.lowering import fallback_handler, lowerings

from .device_types import is_supported
from .target import target

aten = torch.ops.aten

# Inductor's loops for them are not vectorised.
ANYWHERE = [aten.max_pool2d_with_indices.default, aten.max_pool2d_with_indices_backward.default]

# Sums by an index, which some devices cannot add atomically; tb's kernels know. What needs functions that
# mathematics.cuh lacks.
ON_DEVICES = [
    aten.embedding_dense_backward.default,
    aten.scatter_add.default,
    aten.digamma.default,
    aten.erfinv.default,
    aten.frexp.Tensor,
    aten.lgamma.default,
    aten.nextafter.default,
]


def keep() -> None:
    """Keeps Inductor from decomposing and lowering these operators if the first tensor is on tb."""
    for operator in ANYWHERE:
        _keep(operator, lambda *_, **__: True)
    for operator in [*ON_DEVICES, *_special_functions()]:
        _keep(operator, lambda *_, **__: _generates_for_devices())
    for operator in [aten.index_put.default, aten.index_put_.default, aten._unsafe_index_put.default]:
        _keep(operator, lambda x, indices, values, accumulate=False: accumulate and _adds_what_no_kernel_can(x))
    accumulating = aten._unsafe_masked_index_put_accumulate.default
    for operator in [accumulating, aten.scatter.reduce, aten.scatter.value_reduce, aten.scatter_reduce.two]:
        _keep(operator, lambda x, *_, **__: _adds_what_no_kernel_can(x))
    for operator in [aten.argmax.default, aten.argmin.default]:
        _keep(operator, _of_several_dimensions)
    fast_random_decomps.cache_clear()  # a copy of the decompositions, made when they were first asked for
    stock = lowering.unsupported_input_tensor

    def unsupported_input_tensor(t: torch.Tensor, node: Any = None) -> bool:
        on_tb = t.device.type == "tb" and _generates_for_devices()
        return bool(stock(t, node)) or (on_tb and not is_supported(t.dtype))

    lowering.unsupported_input_tensor = unsupported_input_tensor


def _generates_for_devices() -> bool:
    return target().place == "device"


def _special_functions() -> list[Any]:
    """The operators whose lowering is a function of PyTorch's own headers."""
    found = []
    for data in pointwise_overrides_data.values():
        packet = getattr(aten, data.name, None)
        if packet is not None and data.name not in ("fma", "mul_rn"):
            found += [getattr(packet, name) for name in packet.overloads() if "out" not in name]
    return found


def _adds_what_no_kernel_can(tensor: Any) -> bool:
    """Whether kernels have no atomic addition to elements of a tensor."""
    addable = [torch.int32] if "float_atomics" in target().lacks else [torch.int32, torch.float32]
    return _generates_for_devices() and tensor.dtype not in addable


def _of_several_dimensions(tensor: Any, dim: Any = None, keepdim: bool = False) -> bool:
    """The place of an extremum in a tensor that is no row: Inductor counts it in the order of the memory."""
    return dim is None and len(tensor.get_size()) > 1 and _generates_for_devices()


def _keep(operator: Any, kept: Callable[..., bool]) -> None:
    if operator in decompositions:
        decompositions[operator] = _decomposed(decompositions[operator], kept)
    handler: Any = fallback_handler
    lowerings[operator] = _lowered(lowerings.get(operator), handler(operator, add_to_fallback_set=False), kept)


def _decomposed(stock: Callable[..., Any], kept: Callable[..., bool]) -> Callable[..., Any]:
    def decompose(*arguments: Any, **keywords: Any) -> Any:
        tensor = next(one for one in arguments if isinstance(one, torch.Tensor))
        keeps = tensor.device.type == "tb" and kept(*arguments, **keywords)
        return NotImplemented if keeps else stock(*arguments, **keywords)

    return decompose


def _lowered(
    stock: Callable[..., Any] | None, fallback: Callable[..., Any], kept: Callable[..., bool]
) -> Callable[..., Any]:
    def lower(*arguments: Any, **keywords: Any) -> Any:
        tensor: Any = next(one for one in arguments if isinstance(one, IRNode))
        keeps = tensor.get_device().type == "tb" and kept(*arguments, **keywords)
        return (fallback if keeps or stock is None else stock)(*arguments, **keywords)

    return lower
