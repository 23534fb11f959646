"""Whole steps as device graphs: forward pass, backward pass and optimizer of a training step in one launch.

    @tb_compile.step
    def train(x, y):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

The first calls run as they are; then one is captured, and later calls copy their arguments to where the graph reads
them and launch it. Every call is one step, whichever way it goes.
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
from .watched import Gradients, Watched

P = ParamSpec("P")
R = TypeVar("R")

# Captures that failed, or that the next call could not use, before a form of the arguments is left alone.
_MOST_FAILURES = 2
# Forms of arguments that are remembered without a graph.
_MOST_FORMS = 64


def _tb() -> Any:
    return torch.tb  # type: ignore[attr-defined]


@dataclass
class _Form:
    """Calls whose arguments have the same shapes, strides, types and modes."""

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
        self._watched = Watched(self._drop_graphs)
        self._stream: Any = None
        self._last: Captured | None = None  # launched with tensors as its only arguments
        self._launched_on: Any = None
        self._launched_on_id: int | None = None
        self._lock = threading.RLock()

    def reset(self) -> None:
        """Drops all graphs and counts. Call it after the function, or modes of its modules, have changed."""
        with self._lock:
            self._last = None
            self._forms.clear()
            self._watched.forget()
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
            # In a capture of the caller's the work is the caller's.
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
        """None: no graph can serve the arguments, and `refusal` says why."""
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
                "numbers of an optimizer, gradients or parameters' places change from call to call. A learning rate "
                "may be a tensor on the device, which a graph reads anew"
            )
            form.captured.clear()
        return form.failures < _MOST_FAILURES

    # ---- the three ways --------------------------------------------------------------------------------------------

    def _run_aside(self, call: Callable[[], Any], tensors: list[torch.Tensor]) -> Any:
        """On the stream that captures: autograd remembers for each parameter where it was first used."""
        current = _tb().current_stream()
        if self._stream is None:
            self._stream = _tb().Stream()
        self._stream.wait_stream(current)
        with _tb().stream(self._stream), self._watched.watching():
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
        """None: it is refused, and nothing has happened."""
        while sum(len(one.captured) for one in self._forms.values()) >= self.most_graphs:
            next(one for one in self._forms.values() if one.captured).captured.pop(0)
        own = [tensor.detach().clone() for tensor in tensors]
        following = iter(own)
        arguments, keywords = tree_unflatten(
            [next(following) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves], structure
        )
        graph = _tb().Graph()
        with self._watched.watching() as gradients:
            try:
                self._check_parameters()
                _rehearse(self._watched.parameters.values())
                with _tb().graph(graph, stream=self._stream):
                    results, result_structure = tree_flatten(self.function(*arguments, **keywords))
                    _check_results(results)
                    _keep_in_place(gradients)
            except Exception as error:
                # What was queued never ran, so gradients that were made inside hold nothing.
                for leaf in gradients.changed():
                    leaf.grad = gradients.before(leaf)
                if not isinstance(error, RuntimeError):
                    raise
                form.failures += 1
                self.refusal = str(error).split("\n")[0]
                return None
        parameters = [
            Parameter(leaf, leaf.data_ptr(), gradients.before(leaf), leaf.grad)
            for leaf in self._watched.parameters.values()
        ]
        # So that the launch that follows finds what the captured call found.
        for one in parameters:
            one.tensor.grad = one.before
        captured = Captured(
            graph,
            own,
            parameters,
            list(self._watched.optimizers.values()),
            [_without_graph(leaf) for leaf in results],
            result_structure,
        )
        form.captured.append(captured)
        self.captures += 1
        return captured

    def _check_parameters(self) -> None:
        elsewhere = {p.device.type for p in self._watched.parameters.values()} - {"tb"}
        if elsewhere:
            raise RuntimeError(
                f"parameters are on {', '.join(sorted(elsewhere))}: what runs there is in no graph of tb"
            )

    def _launch(self, captured: Captured, tensors: Sequence[torch.Tensor]) -> Any:
        identity = current_stream_id()
        if identity != self._launched_on_id:  # the launch before reads and writes the same memory
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
    """What _keep_in_place() may do inside the capture, where no kernel may meet its types for the first time."""
    with torch.no_grad():
        for leaf in leaves:
            if leaf.grad is not None:
                leaf.grad.copy_(leaf.grad.clone())


def _keep_in_place(gradients: Gradients) -> None:
    """A gradient that was replaced goes where the one before was: there the next launch looks for it."""
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
    """Makes calls of `function`, a whole training or inference step, launches of a device graph. A decorator.

    function: takes tensors of tb, nested as wanted, and values that have a hash; reads and changes models and
    optimizers of its own. Its Python code runs in the first `warm_up` calls and in the captured one only: what it does
    besides queueing work (counting, printing) does not happen again. It must not wait for the device (`.item()`,
    printing a tensor); optimizers count on the device: `capturable=True` or `fused=True`.
    warm_up: calls for each form of the arguments that run as they are before one is captured.
    most_graphs: kept at once; the one that was used longest ago is dropped.

    Returns a Step: called as the function is, it gives its results without their autograd graph, in memory that is the
    caller's. Shapes, strides, types, autocast, gradients that are there or not, and hyperparameters such as a learning
    rate that changed lead to graphs of their own. Where none can be captured the call runs as it is, and
    `Step.refusal` says why; `Step.captures` and `Step.replays` count. ValueError: a number below 1.
    """
    if function is None:
        return functools.partial(step, warm_up=warm_up, most_graphs=most_graphs)
    return Step(function, warm_up, most_graphs)
