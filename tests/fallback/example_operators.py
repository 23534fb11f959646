"""Custom operators that have a CPU kernel only, so that they fall back on tb."""

from __future__ import annotations

from typing import Any

import torch

_library: Any = torch.library.Library("example", "DEF")  # type: ignore[no-untyped-call]
_library.define("mode(Tensor self, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices)")
_library.impl("mode", lambda self, dim=-1, keepdim=False: torch.mode(self, dim, keepdim), "CPU")


def mode(x: torch.Tensor) -> torch.Tensor:
    """torch.mode(x).values, by an operator for which no device has a kernel."""
    values: torch.Tensor = torch.ops.example.mode(x)[0]
    return values
