"""Calls functions when a module of another package is imported, without importing the module."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any


class _Loader:
    """The module's own loader, and calls after it has run."""

    def __init__(self, loader: Any, name: str, functions: list[Callable[[], None]]) -> None:
        self._loader, self._name, self._functions = loader, name, functions

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        created: ModuleType | None = self._loader.create_module(spec)
        return created

    def exec_module(self, module: ModuleType) -> None:
        # Code that reads the module's loader later, such as inspect and importlib.resources, finds the original.
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        try:
            self._loader.exec_module(module)
        except BaseException:
            _finder.after[self._name] = self._functions  # a later import may succeed
            raise
        for function in self._functions:
            function()


class _Finder:
    """An entry of sys.meta_path in front of those that find modules."""

    def __init__(self) -> None:
        self.before: dict[str, list[Callable[[], None]]] = {}
        self.after: dict[str, list[Callable[[], None]]] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        for function in self.before.pop(name, ()):
            function()
        functions = self.after.pop(name, None)
        if functions is None:
            return None
        spec = importlib.util.find_spec(name)  # calls this finder too, from which the name was removed
        if spec is None or spec.loader is None:
            self.after[name] = functions
            return None
        loader: Any = _Loader(spec.loader, name, functions)
        spec.loader = loader
        return spec


_finder = _Finder()


def after_import(name: str, function: Callable[[], None]) -> None:
    """Calls `function` once, after the first import of the module; at once if it is imported already.

    If the module imports torch, it may be in the middle of its own import now. Then the call comes before the first
    access to the module after that import has ended, which is before others can take names from the module.

    `function` must not raise: its exception would be one of the import.
    """
    module = sys.modules.get(name)
    if module is None:
        _finder.after.setdefault(name, []).append(function)
        _install()
    elif _is_unfinished(module):
        _call_when_finished(module, function)
    else:
        function()


def before_import(name: str, function: Callable[[], None]) -> None:
    """Calls `function` once, when the first import of the module begins; at once if it has begun already.

    `function` must not raise: its exception would be one of the import.
    """
    if name in sys.modules:
        function()
    else:
        _finder.before.setdefault(name, []).append(function)
        _install()


def _install() -> None:
    if _finder not in sys.meta_path:
        finder: Any = _finder
        sys.meta_path.insert(0, finder)


def _is_unfinished(module: ModuleType) -> bool:
    return bool(getattr(vars(module).get("__spec__"), "_initializing", False))


def _call_when_finished(module: ModuleType, function: Callable[[], None]) -> None:
    """Gives the module a class whose next lookup of an attribute, after the module's import, calls the function.

    The module's own code reads its variables without a lookup of this kind.
    """
    kind: Any = type(module)

    class Unfinished(kind):  # type: ignore[misc]
        def __getattribute__(self, name: str) -> object:
            if not getattr(object.__getattribute__(self, "__dict__").get("__spec__"), "_initializing", False):
                module.__class__ = kind
                function()
                return getattr(module, name)
            return kind.__getattribute__(self, name)

    module.__class__ = Unfinished
