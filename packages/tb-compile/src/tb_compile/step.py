"""Whole steps as device graphs: forward pass, backward pass and optimizer of a training step in one launch.

    @tb_compile.step
    def train(x, y):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

The first calls run the function; then a call is captured, and later calls copy their arguments to where the graph reads
them and launch it. Every call is exactly one step.
"""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

import torch
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from ._core import current_stream_id
from .captured import NOT_LAUNCHED, Captured, Parameter
from .step_state import Gradients, StepState

P = ParamSpec("P")
R = TypeVar("R")

# After this many captures that failed, or that the next call could not use, a form of arguments is not captured any
# more.
_MOST_FAILURES = 2
# The number of forms of arguments that are remembered.
_MOST_FORMS = 64


def _tb() -> Any:
    return torch.tb  # type: ignore[attr-defined]


@dataclass
class _Form:
    """The calls whose arguments have equal shapes, strides and types, under equal modes."""

    calls: int = 0
    failures: int = 0
    captured: list[Captured] = field(default_factory=list)


class Step(Generic[P, R]):
    """A function whose calls become launches of a device graph. Made by `step`.

    captures, replays: how many graphs were captured and how many calls were launches, since the start or reset().
    refusal: the latest reason for which a call did not become a launch; "" if there was none.
    """

    def __init__(self, function: Callable[P, R], warm_up: int, most_graphs: int) -> None:
        if warm_up < 1 or most_graphs < 1:
            raise ValueError(f"step: warm_up and most_graphs are 1 or more, but are {warm_up} and {most_graphs}")
        functools.update_wrapper(self, function)
        self.function, self.warm_up, self.most_graphs = function, warm_up, most_graphs
        self.replays = self.captures = 0
        self.refusal = ""
        self._forms: OrderedDict[Hashable, _Form] = OrderedDict()
        self._state = StepState(self._drop_graphs)
        self._stream: Any = None
        self._last: Captured | None = None  # the last launch, if all arguments were positional tensors
        self._launched_on: Any = None
        self._launched_on_id: int | None = None
        self._lock = threading.RLock()

    def reset(self) -> None:
        """Drops all graphs and counts. Call it after the function, or a mode of its modules, has changed."""
        with self._lock:
            self._last = None
            self._forms.clear()
            self._state.forget()
            self.replays = self.captures = 0
            self.refusal = ""

    def _drop_graphs(self) -> None:
        with self._lock:
            self._last = None
            for form in self._forms.values():
                form.captured.clear()

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
        leaves, structure = tree_flatten((arguments, keywords))
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        form = self._form(leaves, structure)
        if form is None:
            return _detached(self.function(*arguments, **keywords))
        captured = next((one for one in form.captured if one.fits()), None)
        if captured is None:
            form.calls += 1
            if form.calls > self.warm_up and self._may_capture(form):
                captured = self._capture(form, leaves, structure, tensors)
        if captured is None:
            return self._run_aside(lambda: self.function(*arguments, **keywords), tensors)
        plain = not keywords and all(isinstance(argument, torch.Tensor) for argument in arguments)
        self._last = captured if plain else None
        captured.prepare()
        return self._launch(captured, tensors)

    # ---- which graph -----------------------------------------------------------------------------------------------

    def _form(self, leaves: list[Any], structure: TreeSpec) -> _Form | None:
        """The form of the arguments. None: no graph can replace the call, and `refusal` has the reason."""
        key: list[Hashable] = [structure, torch.is_grad_enabled(), torch.is_inference_mode_enabled()]
        key += [torch.is_autocast_enabled("tb"), torch.get_autocast_dtype("tb")]
        key += [torch.are_deterministic_algorithms_enabled(), _tb().current_device()]
        for leaf in leaves:
            if not isinstance(leaf, torch.Tensor):
                key.append((type(leaf), leaf))
            elif leaf.device.type != "tb" or leaf.layout is not torch.strided:
                self.refusal = f"an argument is a {leaf.layout} tensor on {leaf.device}: a graph reads tensors of tb"
                return None
            elif leaf.requires_grad and torch.is_grad_enabled():
                self.refusal = "an argument wants a gradient: a graph reads a copy of it, which would get that"
                return None
            else:
                key.append((leaf.device.index, leaf.dtype, leaf.shape, leaf.stride()))
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

    def _may_capture(self, form: _Form) -> bool:
        if form.captured and form.captured[-1].replays < 2:  # the next call could not use it
            form.failures += 1
            self.refusal = (
                "numbers of an optimizer, gradients or addresses of parameters change from call to call. A learning "
                "rate may be a tensor on the device, which a graph reads at each launch"
            )
            form.captured.clear()
        return form.failures < _MOST_FAILURES

    # ---- the three ways --------------------------------------------------------------------------------------------

    def _run_aside(self, call: Callable[[], Any], tensors: list[torch.Tensor]) -> Any:
        """Calls the function on the stream that captures, since autograd uses the stream of a parameter's first use."""
        current = _tb().current_stream()
        if self._stream is None:
            self._stream = _tb().Stream()
        self._stream.wait_stream(current)
        with _tb().stream(self._stream), self._state.observe():
            result = _detached(call())
        current.wait_stream(self._stream)
        for tensor in tensors:
            tensor.record_stream(self._stream)
        for leaf in tree_flatten(result)[0]:
            if isinstance(leaf, torch.Tensor) and leaf.device.type == "tb":
                leaf.record_stream(current)
        return result

    def _capture(
        self, form: _Form, leaves: list[Any], structure: TreeSpec, tensors: list[torch.Tensor]
    ) -> Captured | None:
        """Captures a call. None: that is not possible, and nothing has happened."""
        while sum(len(one.captured) for one in self._forms.values()) >= self.most_graphs:
            next(one for one in self._forms.values() if one.captured).captured.pop(0)
        own = [tensor.detach().clone() for tensor in tensors]
        following = iter(own)
        arguments, keywords = tree_unflatten(
            [next(following) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves], structure
        )
        graph = _tb().Graph()
        with self._state.observe() as gradients:
            try:
                self._check_parameters()
                _rehearse(self._state.parameters.values())
                with _tb().graph(graph, stream=self._stream):
                    results, result_structure = tree_flatten(self.function(*arguments, **keywords))
                    _check_results(results)
                    _keep_in_place(gradients)
            except Exception as error:
                # The captured work never ran, so gradients that were made inside are not initialized.
                for leaf in gradients.changed():
                    leaf.grad = gradients.before(leaf)
                if not isinstance(error, RuntimeError):
                    raise
                form.failures += 1
                self.refusal = str(error).split("\n")[0]
                return None
        parameters = [Parameter(leaf, gradients.before(leaf), leaf.grad) for leaf in self._state.parameters.values()]
        # The launch that follows must find the gradients that the captured call found.
        for one in parameters:
            one.tensor.grad = one.before
        captured = Captured(
            graph,
            own,
            parameters,
            list(self._state.optimizers.values()),
            [_without_graph(leaf) for leaf in results],
            result_structure,
        )
        form.captured.append(captured)
        self.captures += 1
        return captured

    def _check_parameters(self) -> None:
        elsewhere = {p.device.type for p in self._state.parameters.values()} - {"tb"}
        if elsewhere:
            raise RuntimeError(
                f"parameters are on {', '.join(sorted(elsewhere))}: what runs there is in no graph of tb"
            )

    def _launch(self, captured: Captured, tensors: Sequence[torch.Tensor]) -> Any:
        identity = current_stream_id()
        if identity != self._launched_on_id:  # the last launch reads and writes the same memory
            current = _tb().current_stream()
            if self._launched_on is not None:
                current.wait_stream(self._launched_on)
            self._launched_on, self._launched_on_id = current, identity
        self.replays += 1
        return captured.launch(tensors)


def _check_results(results: list[Any]) -> None:
    for leaf in results:
        if isinstance(leaf, torch.Tensor) and leaf.device.type != "tb":
            raise RuntimeError(f"the function returns a tensor on {leaf.device}, which a graph cannot fill")


def _rehearse(leaves: Iterable[torch.Tensor]) -> None:
    """Runs the kernels of _keep_in_place() once: inside a capture no kernel may see its types for the first time."""
    with torch.no_grad():
        for leaf in leaves:
            if leaf.grad is not None:
                leaf.grad.copy_(leaf.grad.clone())


def _keep_in_place(gradients: Gradients) -> None:
    """Copies a gradient that was replaced into the tensor that it replaced, where the next launch reads it."""
    for leaf in gradients.changed():
        old, new = gradients.before(leaf), leaf.grad
        if old is not None and new is not None and old is not new and old.shape == new.shape:
            with torch.no_grad():
                leaf.grad = old.copy_(new)


def _without_graph(leaf: Any) -> Any:
    return leaf.detach() if isinstance(leaf, torch.Tensor) else leaf


def _detached(result: Any) -> Any:
    leaves, structure = tree_flatten(result)
    return tree_unflatten([_without_graph(leaf) for leaf in leaves], structure)


@overload
def step(function: Callable[P, R], *, warm_up: int = 3, most_graphs: int = 8) -> Step[P, R]: ...
@overload
def step(
    function: None = None, *, warm_up: int = 3, most_graphs: int = 8
) -> Callable[[Callable[P, R]], Step[P, R]]: ...
def step(function: Callable[P, R] | None = None, *, warm_up: int = 3, most_graphs: int = 8) -> Any:
    """Decorator: calls of `function`, a whole training or inference step, become launches of a device graph.

    function: takes tensors of tb, which may be nested, and hashable values; it may read and change models and
    optimizers. Its Python code runs only in the first `warm_up` calls and in the captured one: effects other than
    queued work (counting, printing) do not happen again. It must not wait for the device (`.item()`, printing a
    tensor); optimizers must count on the device: `capturable=True`. warm_up: the number of calls for
    each form of the arguments before one is captured. most_graphs: the number of graphs that are kept; the least
    recently used one is dropped.

    Returns a Step. It is called as the function is, and returns its results without their autograd graph, in memory
    that belongs to the caller. Shapes, strides, types, autocast, the presence of gradients, and hyperparameters such as
    a changed learning rate lead to separate graphs. If a call cannot be captured, the function runs, and `Step.refusal`
    has the reason; `Step.captures` and `Step.replays` count. ValueError: a number below 1.
    """
    if function is None:
        return functools.partial(step, warm_up=warm_up, most_graphs=most_graphs)
    return Step(function, warm_up, most_graphs)
