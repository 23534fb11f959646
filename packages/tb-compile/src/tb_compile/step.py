"""Whole steps as device graphs: forward pass, backward pass and optimizer of a training step in one launch.

    @tb_compile.step
    def train(x, y):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

The first calls run the function; then a call is captured, and later calls copy their arguments to where the graph reads
them and launch it. Every call is exactly one step, and the function runs at most once in it: a capture that cannot go
on
runs what it has, and the call goes on from there.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

import torch
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from ._core import Observation, _connect, current_stream_id, shared_memory
from .captured import NOT_LAUNCHED, Captured
from .capturing import Attempt
from .checking import check_launch
from .host_state import SCALARS, ExecutedCode
from .step_state import observed_optimizers

P = ParamSpec("P")
R = TypeVar("R")

# A form of arguments is not captured any more after the same reason has come so often, or any reasons so often.
_MOST_REPEATED, _MOST_FAILURES = 2, 6
# The number of forms of arguments that are remembered.
_MOST_FORMS = 64
_TENSORS = (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer)


def _tb() -> Any:
    return torch.tb  # type: ignore[attr-defined]


@dataclass
class _Form:
    """The calls whose arguments have equal shapes, strides and types, under equal modes."""

    calls: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    captured: list[Captured] = field(default_factory=list)
    executed: ExecutedCode = field(default_factory=ExecutedCode)
    optimizers: weakref.WeakSet[torch.optim.Optimizer] = field(default_factory=weakref.WeakSet)
    leaves: list[torch.Tensor] = field(default_factory=list)  # that got gradients in the first calls
    before: list[weakref.ref[torch.Tensor]] = field(default_factory=list)  # the tensors of the call before
    moved: set[int] = field(default_factory=set)  # positions of tensors that were the same object for a while only

    def is_plain(self) -> bool:
        failures = self.failures
        return failures.total() >= _MOST_FAILURES or (bool(failures) and max(failures.values()) >= _MOST_REPEATED)

    def repeated(self, tensors: list[torch.Tensor]) -> list[bool]:
        """For each tensor, whether it is the object that the call before had there."""
        before = [one() for one in self.before]
        same = [i < len(before) and before[i] is tensor for i, tensor in enumerate(tensors)]
        return [one and i not in self.moved for i, one in enumerate(same)]


class Step(Generic[P, R]):
    """A function whose calls become launches of a device graph. Made by `step`.

    captures, replays: how many graphs were captured and how many calls were launches, since the start or reset().
    refusal: the latest reason for which a call did not become a launch; "" if there was none.
    """

    def __init__(self, function: Callable[P, R], warm_up: int, most_graphs: int, check: bool) -> None:
        if warm_up < 1 or most_graphs < 1:
            raise ValueError(f"step: warm_up and most_graphs are 1 or more, but are {warm_up} and {most_graphs}")
        functools.update_wrapper(self, function)
        self._function: Callable[P, R] | weakref.WeakMethod[Callable[P, R]] = function
        self.warm_up, self.most_graphs, self.check = warm_up, most_graphs, check
        self.replays = self.captures = 0
        self.refusal = ""
        self._forms: OrderedDict[Hashable, _Form] = OrderedDict()
        self._stream: Any = None
        self._last: Captured | None = None  # the last launch, if all arguments were positional tensors
        self._launched_on: Any = None
        self._launched_on_id: int | None = None
        self._lock = threading.RLock()

    @property
    def function(self) -> Callable[P, R]:
        """What a call runs. ReferenceError: it is a method of an object that is gone."""
        if not isinstance(self._function, weakref.WeakMethod):
            return self._function
        method = self._function()
        if method is None:
            raise ReferenceError("the object whose method this step is does not exist any more")
        return method

    def reset(self) -> None:
        """Drops all graphs and counts."""
        with self._lock:
            self._last = None
            self._forms.clear()
            self.replays = self.captures = 0
            self.refusal = ""

    # ---- methods ---------------------------------------------------------------------------------------------------

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """The step of a method of this object, which each object has once."""
        if instance is None:
            return self
        key = f"_tb_step_{self._name()}"
        attributes = getattr(instance, "__dict__", None)
        if attributes is None:
            raise TypeError(
                f"{type(instance).__name__} has no __dict__, so the graphs of its method {self._name()} have no place: "
                "leave __slots__ out, or decorate a function that takes the object"
            )
        bound = attributes.get(key)
        method = cast("Any", self.function).__get__(instance, owner)
        if not isinstance(bound, Step) or bound._instance() is not instance:
            bound = Step(method, self.warm_up, self.most_graphs, self.check)
            bound._function = weakref.WeakMethod(method)
            attributes[key] = bound
        return bound

    def _instance(self) -> Any:
        method = self._function() if isinstance(self._function, weakref.WeakMethod) else None
        return getattr(method, "__self__", None)

    def _name(self) -> str:
        return str(getattr(self, "__name__", "step"))

    def __deepcopy__(self, memo: dict[int, Any]) -> Step[P, R]:
        """A step without graphs. A copied object makes its own when its method is called."""
        return Step(self.function, self.warm_up, self.most_graphs, self.check)

    def __reduce__(self) -> Any:
        """Pickled by its name, as functions are; the step of an object's method is made again by its class."""
        return (_nothing, ()) if isinstance(self._function, weakref.WeakMethod) else str(self.__qualname__)  # type: ignore[attr-defined]

    # ---- calls -----------------------------------------------------------------------------------------------------

    def __call__(self, *arguments: P.args, **keywords: P.kwargs) -> R:
        with self._lock:
            if self._last is not None and not keywords:
                result = self._last.relaunch(arguments, self._launched_on_id)
                if result is not NOT_LAUNCHED:
                    self.replays += 1
                    return cast("R", result)
            # If the caller captures, the work belongs to the caller's graph.
            if _tb().is_current_stream_capturing():
                return cast("R", _detached(self.function(*arguments, **keywords)))
            return cast("R", self._call(arguments, keywords))

    def _call(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        self._last = None
        leaves, structure = tree_flatten((arguments, keywords))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        form = self._form(leaves, structure)
        if form is None:
            return _detached(self.function(*arguments, **keywords))
        captured, difference = self._fitting(form, tensors)
        if captured is not None:
            if self.check:
                result = check_launch(captured, tensors, lambda: _detached(self.function(*arguments, **keywords)))
                self.replays += 1
                return result
            plain = not keywords and all(isinstance(argument, torch.Tensor) for argument in arguments)
            self._last = captured if plain else None
            return self._launch(captured, tensors)
        self._note_difference(form, difference)
        if form.is_plain():
            return _detached(self.function(*arguments, **keywords))
        form.calls += 1
        call = functools.partial(self.function, *arguments, **keywords)
        objects = {f"argument {i}": leaf for i, leaf in enumerate(leaves) if not isinstance(leaf, torch.Tensor)}
        result = self._capture(form, call, tensors, objects) if form.calls > self.warm_up else self._warm(form, call)
        form.before = [weakref.ref(tensor) for tensor in tensors]
        return result

    # ---- which graph -----------------------------------------------------------------------------------------------

    def _form(self, leaves: list[Any], structure: TreeSpec) -> _Form | None:
        """The form of the arguments. None: no graph can replace the call, and `refusal` has the reason."""
        key: list[Hashable] = [structure, torch.is_grad_enabled(), torch.is_inference_mode_enabled()]
        key += [torch.is_autocast_enabled("tb"), torch.get_autocast_dtype("tb"), torch.is_autocast_cache_enabled()]
        key += [torch.are_deterministic_algorithms_enabled(), _tb().current_device()]
        for leaf in leaves:
            if not isinstance(leaf, torch.Tensor):
                key.append(_key(leaf))
            elif type(leaf) not in _TENSORS:
                self.refusal = f"an argument is a {type(leaf).__name__}: a graph reads plain tensors"
                return None
            elif leaf.device.type != "tb" or leaf.layout is not torch.strided:
                self.refusal = f"an argument is a {leaf.layout} tensor on {leaf.device}: a graph reads tensors of tb"
                return None
            elif leaf.requires_grad and torch.is_grad_enabled():
                self.refusal = "an argument wants a gradient: a graph reads a copy of it, which would get that"
                return None
            else:
                key.append((leaf.device.index, leaf.dtype, leaf.shape, leaf.stride(), leaf.is_conj(), leaf.is_neg()))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        if len(tensors) > 1:
            key += shared_memory(tensors)
        whole = tuple(key)
        try:
            form = self._forms.setdefault(whole, _Form())
        except TypeError:
            self.refusal = "an argument that is no tensor has no hash: there is a graph for each value of these"
            return None
        self._forms.move_to_end(whole)
        if len(self._forms) > _MOST_FORMS:
            self._forms.popitem(last=False)
        return form

    def _fitting(self, form: _Form, tensors: list[torch.Tensor]) -> tuple[Captured | None, str]:
        difference = ""
        for captured in form.captured:
            difference = captured.difference(tensors)
            if not difference:
                return captured, ""
        return None, difference

    def _note_difference(self, form: _Form, difference: str) -> None:
        """Counts a graph that this call cannot use, if it was of little use before."""
        if not difference or not form.captured:
            return
        latest = form.captured[-1]
        if latest.bound:
            form.moved.update(latest.bound)
        if latest.replays >= 2:
            return
        form.captured.clear()
        self._fail(
            form,
            f"{difference} changes from call to call, so that each graph would serve one call. A learning rate may be "
            "a tensor on the device, which a graph reads at each launch",
        )

    def _fail(self, form: _Form, reason: str) -> None:
        self.refusal = reason
        form.failures[reason] += 1
        if form.is_plain():
            form.leaves.clear()

    # ---- the three ways --------------------------------------------------------------------------------------------

    def _aside(self) -> Any:
        """The stream that captures. The first calls use it too, since autograd uses that of a parameter's first use."""
        if self._stream is None:
            _connect()
            self._stream = _tb().Stream()
        self._stream.wait_stream(_tb().current_stream())
        return _tb().stream(self._stream)

    def _join(self, tensors: list[torch.Tensor], result: Any) -> None:
        """Lets the current stream follow the one aside, and both use each other's memory."""
        current = _tb().current_stream()
        current.wait_stream(self._stream)
        for tensor in tensors:
            tensor.record_stream(self._stream)
        for leaf in tree_flatten(result)[0]:
            if isinstance(leaf, torch.Tensor) and leaf.device.type == "tb" and leaf.layout is torch.strided:
                leaf.record_stream(current)

    def _warm(self, form: _Form, call: functools.partial[Any]) -> Any:
        tensors = [leaf for leaf in tree_flatten((call.args, call.keywords))[0] if isinstance(leaf, torch.Tensor)]
        result = None
        try:
            with self._aside(), observed_optimizers(form.optimizers):
                if form.calls < self.warm_up:
                    result = _detached(call())
                else:
                    observation = Observation()
                    with observation, form.executed.collect():
                        result = _detached(call())
                    form.leaves = observation.leaves()
        finally:
            self._join(tensors, result)
        return result

    def _capture(
        self, form: _Form, call: functools.partial[Any], tensors: list[torch.Tensor], objects: dict[str, Any]
    ) -> Any:
        """Runs the call while it is captured."""
        while sum(len(one.captured) for one in self._forms.values()) >= self.most_graphs:
            next(one for one in self._forms.values() if one.captured).captured.pop(0)
        for i, optimizer in enumerate(form.optimizers):
            objects[f"{type(optimizer).__name__} {i}" if i else type(optimizer).__name__] = optimizer
        attempt = Attempt(call, tensors, form.repeated(tensors), form.executed, objects)
        try:
            with self._aside():
                attempt.run(form.leaves, form.optimizers)
        finally:
            self._join(tensors, attempt.result)
        if attempt.captured is None:
            self._fail(form, attempt.reason)
            return attempt.result
        form.captured.append(attempt.captured)
        self.captures += 1
        self.replays += 1
        attempt.captured.replays += 1
        return attempt.captured.results(tensors)

    def _launch(self, captured: Captured, tensors: Sequence[torch.Tensor]) -> Any:
        identity = current_stream_id()
        if identity != self._launched_on_id:  # the last launch reads and writes the same memory
            current = _tb().current_stream()
            if self._launched_on is not None:
                current.wait_stream(self._launched_on)
            self._launched_on, self._launched_on_id = current, identity
        self.replays += 1
        return captured.launch(tensors)


def _nothing() -> None:
    """What the step of an object's method is unpickled as."""


def _key(value: Any) -> Hashable:
    """What makes two values of an argument the same to a graph."""
    if isinstance(value, float):
        return float, value.hex()
    if isinstance(value, complex):
        return complex, value.real.hex(), value.imag.hex()
    if isinstance(value, SCALARS) or cast("Any", type(value)).__eq__ is not object.__eq__:
        return type(value), value
    return type(value), _Same(value)


class _Same:
    """An object that only itself equals. It is kept, so that no other gets its address."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value


def _without_graph(leaf: Any) -> Any:
    return leaf.detach() if isinstance(leaf, torch.Tensor) else leaf


def _detached(result: Any) -> Any:
    leaves, structure = tree_flatten(result)
    return tree_unflatten([_without_graph(leaf) for leaf in leaves], structure)


@overload
def step(function: Callable[P, R], *, warm_up: int = 3, most_graphs: int = 8, check: bool = False) -> Step[P, R]: ...
@overload
def step(
    function: None = None, *, warm_up: int = 3, most_graphs: int = 8, check: bool = False
) -> Callable[[Callable[P, R]], Step[P, R]]: ...
def step(function: Callable[P, R] | None = None, *, warm_up: int = 3, most_graphs: int = 8, check: bool = False) -> Any:
    """Decorator: calls of `function`, a whole training or inference step, become launches of a device graph.

    function: a function, method or functools.partial, which takes tensors of tb, which may be nested, and other values;
    it may read and change models, optimizers and its arguments. Its Python code runs once in the first `warm_up` calls
    and in the captured one, and not in a launch. What it reads and writes is known after the capture: before a launch
    all of it is compared, and where it differs, the call is captured again or runs as it is. A step that waits for the
    device (`.item()`), changes numbers on the host or assigns new tensors to its state always runs as it is. warm_up:
    the number of calls for each form of the arguments before one is captured. most_graphs: the number of graphs that
    are
    kept; the least recently used one is dropped. check: each launch is compared with the plain step, which then counts;
    for finding what the comparison does not see.

    Returns a Step. It is called as the function is, and returns its results without their autograd graph. Shapes,
    strides, types, shared memory of the arguments, autocast, and hyperparameters such as a changed learning rate lead
    to separate graphs. If a call is no launch, `Step.refusal` has the reason; `Step.captures` and `Step.replays` count.
    ValueError: a number below 1. RuntimeError, with check: a launch and the plain step differ.
    """
    if function is None:
        return functools.partial(step, warm_up=warm_up, most_graphs=most_graphs, check=check)
    return Step(function, warm_up, most_graphs, check)
