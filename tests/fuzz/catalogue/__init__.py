"""All operations that a program may do, with how often."""

from __future__ import annotations

from . import combining, elementwise, indexing, layers, making, reductions, refusals, views
from .operation import OPERATIONS, Operation

__all__ = [
    "OPERATIONS",
    "Operation",
    "combining",
    "elementwise",
    "indexing",
    "layers",
    "making",
    "reductions",
    "refusals",
    "views",
]
