"""Programs for the CPU. Each prints what it computes, the same in every run; none mentions tb.

A public function without arguments, in a module that MODULES names, is a program.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable

MODULES = ("compilers", "processes", "tensors", "training")


def programs() -> dict[str, Callable[[], None]]:
    """All programs by their names."""
    found: dict[str, Callable[[], None]] = {}
    for name in MODULES:
        module = importlib.import_module(f"{__name__}.{name}")
        for function_name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == module.__name__ and not inspect.signature(function).parameters:
                found[f"{name}.{function_name}"] = function
    return found
