"""All operations of programs, with their weights."""

from __future__ import annotations

from . import combining, elementwise, indexing, layers, layouts, making, reductions, refusals, views
from .operation import OPERATIONS, Operation

__all__ = [
    "OPERATIONS",
    "Operation",
    "combining",
    "elementwise",
    "indexing",
    "layers",
    "layouts",
    "making",
    "reductions",
    "refusals",
    "views",
]
