"""A client: the places in it that are replaced after its modules are imported, each if it looks as it is known."""

from __future__ import annotations

import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from types import CodeType, FunctionType
from typing import Any

from torch_backend._after_import import after_import
from torch_backend.integrations.device import tb_is_current

Function = Callable[..., Any]


@dataclass(frozen=True)
class Devices:
    """As a constant of a Shape: any tuple of device names that has these among others."""

    names: Sequence[str]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple) and set(self.names) <= {name for name in other if isinstance(name, str)}

    def __hash__(self) -> int:
        return hash(self.names)

    def __repr__(self) -> str:
        return f"a tuple with {', '.join(self.names)}"


@dataclass(frozen=True)
class Shape:
    """What a replacement needs of a function: its parameters, and what it refers to. All else may differ."""

    parameters: Sequence[str] | None = None
    """The first ones, in order. More may follow if a call does not need them: a replacement passes on what it gets.
    None if no parameter matters."""
    names: Sequence[str] = ()
    """Parameters, global names and attributes that it uses."""
    constants: Sequence[object] = ()
    """Values that it contains, such as the name of a device."""

    def difference(self, found: object) -> str | None:
        """What is different in `found`, in words; None if it is as the replacement needs it."""
        function = inspect.unwrap(plain(found)) if callable(plain(found)) else None
        if function is None:
            return f"is {type(found).__name__}, not a function"
        parameters, needed = _parameters(function)
        if self.parameters is not None:
            known = list(self.parameters)
            if parameters[: len(known)] != known or any(name not in known for name in needed):
                return f"has the parameters {', '.join(parameters) or 'none'}, not {', '.join(known) or 'none'}"
        code = getattr(function, "__code__", None)
        names, constants = _contents(code) if code else (set(), [])
        missing = [name for name in self.names if name not in names and name not in parameters]
        missing += [repr(value) for value in self.constants if value not in constants]
        return f"does not refer to {', '.join(missing)}" if missing else None


@dataclass(frozen=True)
class Value:
    """A variable that holds a value of this type."""

    kind: type

    def difference(self, found: object) -> str | None:
        """See Shape.difference."""
        return None if isinstance(found, self.kind) else f"is {type(found).__name__}, not {self.kind.__name__}"


@dataclass(frozen=True)
class Mend:
    """One place: `target` in `module`, such as a function or "Class.method", and what comes in its place."""

    module: str
    target: str
    shape: Shape | Value
    replacement: Callable[[Any], Any]

    @property
    def place(self) -> str:
        """Module and target in one text."""
        return f"{self.module}.{self.target}"


@dataclass
class Client:
    """A package of others.

    Attributes:
    package: the name that programs import, by which TB_INTEGRATIONS chooses.
    distribution: the name by which it is installed.
    mended: the places that were replaced in this process.
    left: those that were not, and what is different there.
    """

    package: str
    distribution: str
    mends: list[Mend] = field(default_factory=list)
    mended: list[str] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)
    _begun: bool = False

    def mend(self, module: str, target: str, shape: Shape | Value) -> Callable[[Function], Function]:
        """Decorates a function that gets what is at the place and returns what comes there.

        For a method, a property or a static method it gets the plain function and returns one; the kind is kept.
        """

        def add(replacement: Function) -> Function:
            self.mends.append(Mend(module, target, shape, replacement))
            return replacement

        return add

    def installed(self) -> str | None:
        """The installed version; None if the distribution is not installed."""
        try:
            return metadata.version(self.distribution)
        except metadata.PackageNotFoundError:
            return None

    def begin(self) -> None:
        """Replaces the places in modules that are imported, and those in others after their import."""
        if self._begun:
            return
        self._begun = True
        for module in dict.fromkeys(mend.module for mend in self.mends):
            after_import(module, functools.partial(self._mend_module, module))

    def state(self) -> str:
        """One line about it for the diagnosis."""
        if not self._begun:
            return f"to replace when it is imported: {', '.join(self._places())}"
        waiting = [place for place in self._places() if place not in self.mended and place not in self.left]
        parts = {"replaced": self.mended, "to replace when it is imported": waiting}
        left = {"left as it is": [f"{place}, because it {why}" for place, why in self.left.items()]}
        return "; ".join(f"{what}: {', '.join(places)}" for what, places in (parts | left).items() if places)

    def _mend_module(self, module: str) -> None:
        for mend in self.mends:
            if mend.module == module:
                difference = _apply(mend, sys.modules[module])
                if difference is None:
                    self.mended.append(mend.place)
                else:
                    self.left[mend.place] = difference
                    if len(self.left) == 1:
                        self._warn(mend.place, difference)

    def _places(self) -> list[str]:
        return [mend.place for mend in self.mends]

    def _warn(self, place: str, difference: str) -> None:
        if not tb_is_current():
            return
        text = (
            f"{place} of {self.distribution} {self.installed() or 'of unknown version'} {difference}, so torch_backend "
            f"leaves it as it is, and what depends on it may use the cpu although device tb is there. Give it the "
            f'device yourself, such as device="tb"; python -m torch_backend lists all that is left.'
        )
        try:
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        except RuntimeWarning:  # warnings are errors in this process, and an import must not fail for one
            return


def plain(found: Any) -> Any:
    """The function in a property, a static method or a cached property; anything else as it is."""
    for kind, attribute in ((property, "fget"), (staticmethod, "__func__"), (functools.cached_property, "func")):
        if isinstance(found, kind):
            return getattr(found, attribute)
    return found


def with_constant(function: Any, old: object, new: object) -> Any:
    """A copy of a Python function in which one constant is another. Shape has checked that it is there.

    Arguments:
    old: the constant, or Devices, which stands for each tuple that has these.
    new: what comes in its place; for Devices what is added to the tuple.
    """

    def changed(value: Any) -> Any:
        if isinstance(old, Devices):
            return (*value, new) if old == value else value
        return new if type(value) is type(old) and value == old else value

    code = function.__code__
    copy = FunctionType(
        code.replace(co_consts=tuple(changed(value) for value in code.co_consts)),
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    return functools.update_wrapper(copy, function)


def _apply(mend: Mend, module: Any) -> str | None:
    """Replaces one place. Returns what is different there if it is not what is known."""
    path = mend.target.split(".")
    owner = module
    try:
        for name in path[:-1]:
            owner = getattr(owner, name)
        found = inspect.getattr_static(owner, path[-1])
    except AttributeError:
        return "does not exist"
    function = plain(found)
    if getattr(function, "mended_by", None) == "torch_backend":  # another module has the same function
        return None
    difference = mend.shape.difference(found)
    if difference is not None:
        return difference
    new = mend.replacement(function)
    if callable(new):
        new.mended_by = "torch_backend"
    _put(owner, path[-1], found, new)
    return None


def _put(owner: Any, name: str, found: Any, function: Any) -> None:
    """Puts a function where `found` was, as the same kind of thing."""
    if isinstance(found, property):
        function = property(function, found.fset, found.fdel, found.__doc__)
    elif isinstance(found, staticmethod):
        function = staticmethod(function)
    elif isinstance(found, functools.cached_property):
        function = functools.cached_property(function)
        function.__set_name__(owner, name)
    setattr(owner, name, function)


def _parameters(function: Any) -> tuple[list[str], list[str]]:
    """The names of all parameters, and of those without which it cannot be called."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return [], []
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = [each.name for each in parameters if each.default is each.empty and each.kind not in variadic]
    return [each.name for each in parameters], needed


def _contents(code: CodeType) -> tuple[set[str], list[object]]:
    """The names and the constants of a function, with those of the functions inside it."""
    names, constants = {*code.co_names, *code.co_freevars}, list(code.co_consts)
    for inner in _codes(code.co_consts):
        more_names, more_constants = _contents(inner)
        names |= more_names
        constants += more_constants
    return names, constants


def _codes(constants: Iterable[object]) -> list[CodeType]:
    return [value for value in constants if isinstance(value, CodeType)]
