"""Calls a function after the first import of a module of another package, without importing the module."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any


class _Loader:
    """The module's own loader, and a call after it has run."""

    def __init__(self, loader: Any, function: Callable[[], None]) -> None:
        self._loader, self._function = loader, function

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        created: ModuleType | None = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        # Code that reads the module's loader later, such as inspect and importlib.resources, finds the original.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        self._function()


class _Finder:
    """An entry of sys.meta_path in front of those that find modules."""

    def __init__(self) -> None:
        self.waiting: dict[str, Callable[[], None]] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        function = self.waiting.pop(name, None)
        if function is None:
            return None
        spec = importlib.util.find_spec(name)  # calls this finder too, from which the name was removed
        if spec is None or spec.loader is None:
            self.waiting[name] = function
            return None
        loader: Any = _Loader(spec.loader, function)
        spec.loader = loader
        return spec


_finder = _Finder()


def after_import(name: str, function: Callable[[], None]) -> None:
    """Calls `function` once, after the first import of the module; at once if it is imported already.

    `function` must not raise: its exception would be one of the import.
    """
    if name in sys.modules:
        function()
        return
    _finder.waiting[name] = function
    if _finder not in sys.meta_path:
        finder: Any = _finder
        sys.meta_path.insert(0, finder)
