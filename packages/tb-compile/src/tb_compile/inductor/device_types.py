"""PyTorch's dtypes in the language of device kernels, and literals of them."""

from __future__ import annotations

import math

import torch

from .target import target

# As element_type.cpp of tb-ops has them.
STORED = {
    torch.bool: "bool",
    torch.uint8: "unsigned char",
    torch.int8: "signed char",
    torch.int16: "short",
    torch.int32: "int",
    torch.int64: "Long",
    torch.float16: "Half",
    torch.bfloat16: "Bfloat",
    torch.float32: "float",
    torch.float64: "double",
}
_NARROW = (torch.float16, torch.bfloat16)


def is_supported(dtype: torch.dtype) -> bool:
    """Whether kernels have elements of this dtype."""
    return dtype in STORED and (dtype != torch.float64 or "float64" not in target().lacks)


def computed(dtype: torch.dtype) -> torch.dtype:
    """The dtype that computes with elements of another: 16-bit floats are computed as 32-bit ones."""
    return torch.float32 if dtype in _NARROW or not is_supported(dtype) else dtype


def type_of(dtype: torch.dtype) -> str:
    """The type of variables of a dtype."""
    return STORED[computed(dtype)]


def literal(value: float, dtype: torch.dtype) -> str:
    """A number of a dtype. Digits are those that give the same float again."""
    dtype = computed(dtype)
    name = STORED[dtype]
    if dtype == torch.bool:
        return "true" if value else "false"
    if not dtype.is_floating_point:
        integer = int(value)
        if integer == -(2**63):
            return "Limits<Long>::lowest()"
        return f"{integer}ll" if dtype == torch.int64 else f"static_cast<{name}>({integer})"
    value = float(value)
    if math.isnan(value):
        return f"not_a_number<{name}>()"
    if math.isinf(value):
        return f"Limits<{name}>::{'highest' if value > 0 else 'lowest'}()"
    if dtype == torch.float64:
        return repr(value)
    rounded = torch.tensor(value, dtype=torch.float64, device="cpu").to(torch.float32).item()
    return literal(rounded, dtype) if math.isinf(rounded) else f"{value!r}f"
