"""Operators whose only kernel, of a library of their own, is for the CPU: on tb they fall back."""

from __future__ import annotations

from typing import Any

import torch

_library: Any = torch.library.Library("example", "DEF")  # type: ignore[no-untyped-call]
_library.define("mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)")
_library.impl("mode", lambda self, dim=-1, keepdim=False: torch.mode(self, dim, keepdim), "CPU")


def mode(x: torch.Tensor) -> torch.Tensor:
    """torch.mode(x).values, by a kernel that no device has."""
    values: torch.Tensor = torch.ops.example.mode(x)[0]
    return values
