"""What a step can reach on the host, by the names of the user's code: numbers, flags, containers, tensors, generators.

The walk begins at the function and follows what its code can follow: closures, globals that the code names, `self`,
attributes, containers. Of an object it takes the attributes whose names the code that ran contains, so that what other
parts of a program count does not matter.
"""

from __future__ import annotations

import dis
import enum
import functools
import logging
import os
import sys
import sysconfig
import types
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from ._core import Watch, note_code, storage_address

_MOST_OBJECTS = 200_000
# Of a longer container only the number of items counts.
_MOST_ITEMS = 10_000

SCALARS = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.Size, enum.Enum, slice)
_SKIPPED = (types.ModuleType, logging.Logger, types.BuiltinFunctionType, types.CodeType, types.FrameType)
_LIBRARIES = tuple(
    {os.path.dirname(os.path.dirname(torch.__file__)), *(sysconfig.get_path(name) for name in ("stdlib", "purelib"))}
)
_MODULE_TABLES = {"_parameters", "_buffers", "_modules"}
_MODULE_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
# What torch.nn.Module has for itself: it does not decide what a call does, or is among the hooks.
_MODULE_OWN = torch.nn.Module().__dict__.keys() - {"training"}


def _is_library(file: str) -> bool:
    return file.startswith("<frozen") or file.startswith(_LIBRARIES)


@dataclass
class ExecutedCode:
    """The Python code that ran in a call, for the names in it."""

    codes: dict[types.CodeType, dict[str, Any]] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    compiled: bool = False  # whether code ran that torch.compile has made, which names nothing

    @contextmanager
    def collect(self) -> Iterator[None]:
        """Context manager: adds the code that this thread begins to run inside."""
        before, codes = sys.getprofile(), self.codes
        sys.setprofile(functools.partial(note_code, codes, before))
        try:
            yield
        finally:
            sys.setprofile(before)
            for code in codes:
                self._take_names(code)

    def _take_names(self, code: types.CodeType) -> None:
        self.names.update(code.co_names)
        for constant in code.co_consts:
            if isinstance(constant, str) and constant.isidentifier():  # getattr(x, "name")
                self.names.add(constant)
            elif isinstance(constant, types.CodeType):
                self._take_names(constant)
        self.compiled |= code.co_filename.endswith(os.path.join("_dynamo", "eval_frame.py"))


@functools.cache
def _globals_in(code: types.CodeType) -> frozenset[str]:
    """The globals that code names; `co_names` has the attributes too."""
    names = {one.argval for one in dis.get_instructions(code) if one.opname.endswith(("_GLOBAL", "_NAME"))}
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _globals_in(constant)
    return frozenset(names)


@dataclass
class HostState:
    """What a walk found. Paths are written as in the user's code: "self.h", "ema['w']", "model.0.training"."""

    scalars: dict[str, Any] = field(default_factory=dict)
    sizes: dict[str, tuple[type, int]] = field(default_factory=dict)
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)
    generators: dict[str, torch.Generator] = field(default_factory=dict)
    iterators: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, bytes] = field(default_factory=dict)
    # For a Watch: dictionaries with keys, values, names and whether they are whole; lists and other containers;
    # attributes.
    dicts: list[tuple[dict[Any, Any], list[Any], list[Any], list[str], bool, str]] = field(default_factory=list)
    containers: list[tuple[Any, str]] = field(default_factory=list)
    attributes: list[tuple[Any, str, Any, str]] = field(default_factory=list)

    def release(self) -> None:
        """Forgets what only watch() needs, so that containers which a call replaces are freed."""
        self.dicts.clear()
        self.containers.clear()
        self.attributes.clear()
        self.iterators.clear()

    def changes(self, later: HostState) -> Iterator[tuple[str, str]]:
        """The names of what differs in a later walk, each with a sentence that says how."""
        for name, value in self.scalars.items():
            if name in later.scalars and not _same(value, later.scalars[name]):
                yield name, f"{name} changes in the step, from {_short(value)} to {_short(later.scalars[name])}"
        for name, (kind, size) in self.sizes.items():
            if name in later.sizes and later.sizes[name] != (kind, size):
                yield name, f"{name} changes in the step, from {size} items to {later.sizes[name][1]}"
        for name, tensor in self.tensors.items():
            if name in later.tensors and later.tensors[name] is not tensor:
                yield name, f"state is assigned in the step, not written in place: {name}"
        for name, content in self.arrays.items():
            if name in later.arrays and later.arrays[name] != content:
                yield name, f"the array {name} changes in the step"
        for mine, others, what in (
            (self.tensors, later.tensors, "a tensor"),
            (self.scalars, later.scalars, "a value"),
            (self.sizes, later.sizes, "a container"),
        ):
            for name in others.keys() - mine.keys():
                yield name, f"state is assigned in the step, not written in place: {name} becomes {what}"
            for name in mine.keys() - others.keys():
                yield name, f"state is assigned in the step, not written in place: {name} is {what} no longer"

    def name_of(self, tensor: torch.Tensor) -> str:
        """The path of a tensor, or of one with the same memory; "" if the walk found none."""
        address = storage_address(tensor)
        return next((name for name, one in self.tensors.items() if storage_address(one) == address), "")

    def watch(self, watch: Watch) -> list[Any]:
        """Adds everything but tensors to a Watch. Returns what the caller must keep as long as it."""
        for one in self.dicts:
            watch.add_dict(*one)
        for container, name in self.containers:
            watch.add_items(container, name)
        for owner, attribute, value, name in self.attributes:
            watch.add_attribute(owner, attribute, value, name)
        return [self.dicts, self.containers, self.attributes]


def _same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return bool(one.hex() == other.hex())
    return bool(one == other)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else text[:37] + "..."


class Walk:
    """One walk over what a function reaches."""

    def __init__(self, executed: ExecutedCode) -> None:
        self.state = HostState()
        self._executed = executed
        self._seen: dict[int, Any] = {}
        self._left = _MOST_OBJECTS

    def run(self, function: Callable[..., Any], roots: dict[str, Any]) -> HostState:
        """function: the step's. roots: further objects by their names."""
        self._pending: deque[tuple[str, Any]] = deque()
        self._visit_function(function)
        for name, value in roots.items():
            self._add(name, value)
        for code, namespace in self._executed.codes.items():
            if not code.co_filename.startswith(_LIBRARIES[0]) and str(namespace.get("__name__", "")) != "torch":
                self._globals(namespace, _globals_in(code), deep=not _is_library(code.co_filename))
        while self._pending and self._left > 0:
            self._expand(*self._pending.popleft())
        return self.state

    # ---- functions -------------------------------------------------------------------------------------------------

    def _visit_function(self, function: Any) -> None:
        """A function whose variables have no owner's name."""
        if isinstance(function, functools.partial):
            self._visit_function(function.func)
            for i, argument in enumerate(function.args):
                self._add(f"argument {i} of the partial", argument)
            self._dict(f"{_name(function.func)}'s keywords", function.keywords, whole=True)
        elif isinstance(function, types.MethodType):
            self._add("self", function.__self__)
            self._visit_function(function.__func__)
        elif isinstance(function, types.FunctionType):
            self._function(function)
        elif callable(function):
            self._add(type(function).__name__.lower(), function)

    def _function(self, function: types.FunctionType) -> None:
        if id(function) in self._seen:
            return
        self._seen[id(function)] = function
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                value = cell.cell_contents
            except ValueError:  # empty
                continue
            self.state.attributes.append((cell, "cell_contents", value, name))
            self._add(name, value)
        for i, value in enumerate(function.__defaults__ or ()):
            self._add(f"default {i} of {function.__qualname__}", value)
        for name, value in (function.__kwdefaults__ or {}).items():
            self._add(f"default {name} of {function.__qualname__}", value)
        if not _is_library(function.__code__.co_filename):
            self._globals(function.__globals__, _globals_in(function.__code__), deep=True)
        wrapped = getattr(function, "__wrapped__", None)
        if isinstance(wrapped, types.FunctionType):
            self._function(wrapped)

    def _globals(self, namespace: dict[str, Any], names: frozenset[str], deep: bool) -> None:
        """deep: follows objects too. Otherwise, in libraries, only numbers and tensors count."""
        keys, values = [], []
        for name in names:
            if name not in namespace:
                continue
            value = namespace[name]
            if (deep and not isinstance(value, (types.ModuleType, type))) or isinstance(
                value, (bool, int, float, torch.Tensor)
            ):
                self._add(name, value)
            else:
                continue
            keys.append(name)
            values.append(value)
        if keys:
            self.state.dicts.append((namespace, keys, values, list(keys), False, "the globals"))

    # ---- objects ---------------------------------------------------------------------------------------------------

    def _add(self, path: str, value: Any) -> None:
        """Notes a value, and queues it if more can be reached from it."""
        if type(value) in weakref.ProxyTypes:  # any question goes to its object, which has other owners or is gone
            return
        if isinstance(value, SCALARS):
            self.state.scalars[path] = value
        elif isinstance(value, torch.Tensor):
            self.state.tensors[path] = value
        elif isinstance(value, torch.Generator):
            self.state.generators[path] = value
        elif not isinstance(value, _SKIPPED):
            self._pending.append((path, value))

    def _expand(self, path: str, value: Any) -> None:
        if id(value) in self._seen:
            return
        self._seen[id(value)] = value
        self._left -= 1
        if isinstance(value, type):
            self._class(path, value)
        elif isinstance(value, dict):
            self._dict(path, value, whole=True)
        elif isinstance(value, (list, tuple, set, frozenset, deque)):
            self._sequence(path, value)
        elif isinstance(value, types.FunctionType):
            self._function(value)
        elif isinstance(value, types.MethodType):
            self._add(path, value.__self__)
            self._function(value.__func__) if isinstance(value.__func__, types.FunctionType) else None
        elif isinstance(value, functools.partial):
            self._visit_function(value)
        elif type(value).__module__ == "numpy" and hasattr(value, "tobytes"):
            if value.nbytes <= 1 << 20:
                self.state.arrays[path] = value.tobytes()
        elif hasattr(type(value), "__next__"):
            self.state.iterators[path] = value
        elif isinstance(value, torch.nn.Module):
            self._module(path, value)
        elif type(value).__module__ == "tb_compile.step":
            self._visit_function(value.function)
        else:
            self._object(path, value)

    def _dict(self, path: str, value: dict[Any, Any], whole: bool) -> None:
        self.state.sizes[path] = (type(value), len(value))
        if len(value) > _MOST_ITEMS:
            return
        names = []
        for i, (key, item) in enumerate(value.items()):
            name = f"{path}[{_key(key, i)}]"
            names.append(name)
            self._add(name, item)
        self.state.dicts.append((value, list(value.keys()), list(value.values()), names, whole, path))

    def _sequence(self, path: str, value: Any) -> None:
        self.state.sizes[path] = (type(value), len(value))
        if not isinstance(value, (tuple, frozenset)):
            self.state.containers.append((value, path))
        if len(value) <= _MOST_ITEMS:
            for i, item in enumerate(value):
                self._add(f"{path}[{i}]", item)

    def _relevant(self, name: Any) -> bool:
        return name in self._executed.names

    def _module(self, path: str, module: torch.nn.Module) -> None:
        attributes = module.__dict__
        keys, values, names = [], [], []
        every = self._executed.compiled
        for key, value in attributes.items():
            if key in _MODULE_TABLES:
                self._table(path, key, value)
            elif key == "training" or (key not in _MODULE_OWN and (every or self._relevant(key))):
                name = f"{path}.{key}"
                keys.append(key)
                values.append(value)
                names.append(name)
                self._add(name, value)
        if keys:
            self.state.dicts.append((attributes, keys, values, names, True, path))
        for hooks in _MODULE_HOOKS:
            if hooks in attributes:
                self._dict(f"{path}.{hooks}", attributes[hooks], whole=True)
        self._class_attributes(path, module)

    def _table(self, path: str, table: str, entries: dict[str, Any]) -> None:
        """The parameters, buffers or children of a module, by the names that they have as attributes."""
        if not entries:
            return
        names = [f"{path}.{key}" for key in entries]
        for name, value in zip(names, entries.values(), strict=True):
            self._add(name, value)
        self.state.dicts.append((entries, list(entries), list(entries.values()), names, True, path))

    def _object(self, path: str, value: Any) -> None:
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict):
            keys = [key for key in attributes if self._relevant(key)]
            values = [attributes[key] for key in keys]
            names = [f"{path}.{key}" for key in keys]
            for name, item in zip(names, values, strict=True):
                self._add(name, item)
            if keys:
                self.state.dicts.append((attributes, keys, values, names, False, path))
        for cls in type(value).__mro__:
            slots = cls.__dict__.get("__slots__", ())
            for slot in (slots,) if isinstance(slots, str) else slots:
                if self._relevant(slot) and hasattr(value, slot):
                    item = getattr(value, slot)
                    self.state.attributes.append((value, slot, item, f"{path}.{slot}"))
                    self._add(f"{path}.{slot}", item)
        self._class_attributes(path, value)

    def _class_attributes(self, path: str, value: Any) -> None:
        for cls in type(value).__mro__:
            if id(cls) not in self._seen and not _is_library(_file_of(cls)):
                self._pending.append((cls.__qualname__, cls))

    def _class(self, path: str, cls: type) -> None:
        if _is_library(_file_of(cls)):
            return
        for name, value in cls.__dict__.items():
            if self._relevant(name) and isinstance(value, (bool, int, float, str, list, dict, torch.Tensor)):
                self.state.attributes.append((cls, name, value, f"{path}.{name}"))
                self._add(f"{path}.{name}", value)


def _file_of(cls: type) -> str:
    module = sys.modules.get(cls.__module__)
    if module is None or cls.__module__ == "builtins":
        return _LIBRARIES[0]
    return getattr(module, "__file__", None) or ""


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", type(function).__name__)


def _key(key: Any, position: int) -> str:
    """How a key is written in a path; tensors and other objects by their position."""
    return repr(key) if isinstance(key, (str, int, float, bool, bytes, tuple, type(None))) else f"key {position}"
