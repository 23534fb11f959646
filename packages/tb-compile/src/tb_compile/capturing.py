"""The captured call of a step: it runs the function once, and ends with a graph or with the reason why not."""

from __future__ import annotations

import functools
import gc
from collections.abc import Iterable
from typing import Any
from weakref import WeakSet

import torch
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten

from ._core import StepArguments, StepCapture, StepGradients, renew_accumulators, storage_address
from .captured import Captured
from .host_state import SCALARS, ExecutedCode, HostState, Walk
from .step_state import HostRandomness, observed_optimizers

_OF_CASTS = (
    "the step reads weights that autocast has cast to {} before it: let the block of autocast begin in the step, or "
    "right before it, and contain nothing else"
)


class Attempt:
    """One captured call.

    result: what the function returned, without autograd. captured: the graph; None if there is none, and then `reason`
    says why.
    """

    def __init__(
        self,
        call: functools.partial[Any],
        tensors: list[torch.Tensor],
        repeated: list[bool],
        executed: ExecutedCode,
        objects: dict[str, Any],
    ) -> None:
        self.result: Any = None
        self.captured: Captured | None = None
        self.reason = ""
        self._call, self._tensors, self._repeated = call, tensors, repeated
        self._executed, self._objects = executed, objects

    def run(self, leaves: Iterable[torch.Tensor], optimizers: WeakSet[torch.optim.Optimizer]) -> None:
        """Runs the call on the current stream, which captures it. leaves: tensors that get gradients, as far as known.

        Raises what the function raises; all that came before has run then.
        """
        before = self._walk()
        before.release()
        randomness = HostRandomness(before.generators)
        gradients = StepGradients()
        known = [*leaves, *_leaves(before)]
        gradients.take(known)
        self.reason = _of_accumulators(known)
        if self.reason:
            self._run_plain(optimizers)
            return
        arguments = StepArguments(self._tensors, self._bound(before))
        versions = [_version(tensor) for tensor in self._tensors]
        try:
            capture = StepCapture(_find_place)
        except NotImplementedError as error:  # the driver has no graphs
            self.reason = str(error).split("\n")[0]
            self._run_plain(optimizers)
            return
        written = [True] * len(self._tensors)
        results: list[Any] = []
        structure: TreeSpec | None = None
        try:
            arguments.substitute()
            with observed_optimizers(optimizers, capture.interrupt):
                results, structure = _flattened(self._call())
            if not capture.is_interrupted:
                gradients.keep_in_place(capture.observation)
                written = [
                    _version(tensor) != version or capture.observation.has_written(tensor)
                    for tensor, version in zip(self._tensors, versions, strict=True)
                ]
        finally:
            try:
                capture.complete()
            finally:
                arguments.restore()
                arguments.set_written(written)
                arguments.store(self._tensors)
        assert structure is not None
        complete = gradients.finish(capture.observation, self._executed.compiled or "grad" in self._executed.names)
        after = self._walk()
        self.reason = (
            _interruption(capture)
            or _of_results(results)
            or next((text for _, text in before.changes(after)), "")
            or _of_iterators(after)
            or _of_randomness(randomness, after)
            or self._of_generators(capture, after)
            or _of_events(capture)
            or _of_host_tensors(capture, after)
            or ("" if complete else "a parameter is used for the first time")
            or self._of_cast_weights(capture, after)
            or self._of_survivors(capture, after, results)
        )
        if self.reason:
            self.result = self._for_caller(arguments, results, structure)
            return
        self.captured = Captured(capture, arguments, gradients, after, results, structure)
        self.captured.bound = {i for i, bound in enumerate(self._repeated) if bound}

    def _run_plain(self, optimizers: WeakSet[torch.optim.Optimizer]) -> None:
        with observed_optimizers(optimizers):
            self.result = tree_unflatten(*_flattened(self._call()))

    def _walk(self) -> HostState:
        return Walk(self._executed).run(self._call.func, self._objects)

    def _bound(self, state: HostState) -> list[bool]:
        """Which arguments the graph reads where they are: those that are the same object, or state as well."""
        addresses = {storage_address(tensor) for tensor in state.tensors.values()}
        return [
            repeated or storage_address(tensor) in addresses
            for tensor, repeated in zip(self._tensors, self._repeated, strict=True)
        ]

    def _for_caller(self, arguments: StepArguments, results: list[Any], structure: TreeSpec) -> Any:
        """The results, with views of the caller's arguments for views of the graph's."""
        leaves = []
        for leaf in results:
            mine = arguments.of_caller(leaf, self._tensors) if isinstance(leaf, torch.Tensor) else None
            leaves.append(leaf if mine is None else mine)
        return tree_unflatten(leaves, structure)

    # ---- reasons ---------------------------------------------------------------------------------------------------

    def _of_generators(self, capture: StepCapture, state: HostState) -> str:
        known = {generator._cdata for generator in state.generators.values()}  # type: ignore[attr-defined]
        for address, on_device in capture.observation.generators():
            if on_device and address not in known:
                return "the step draws from a generator that it makes itself: a launch would go on in its sequence"
        return ""

    def _of_cast_weights(self, capture: StepCapture, state: HostState) -> str:
        """Casts of weights that autocast has kept from before the call. Those of a later call are others."""
        if not _in_autocast():
            return ""
        kind = torch.get_autocast_dtype("tb")
        known = {storage_address(tensor) for tensor in [*state.tensors.values(), *self._tensors]}
        for address in capture.observation.used(torch.empty(0, dtype=kind)):
            if address not in known:
                return _OF_CASTS.format(kind)
        return ""

    def _of_survivors(self, capture: StepCapture, state: HostState, results: list[Any]) -> str:
        """Memory of the graph that lives on elsewhere than in results and gradients."""
        if not _survivors(capture, state, results):
            return ""
        if _in_autocast():  # its casts of weights are used again until it ends; a launch makes its own
            torch.clear_autocast_cache()
        gc.collect()
        found = _survivors(capture, state, results)
        if not found:
            return ""
        for name, tensor in state.tensors.items():
            if storage_address(tensor) in found:
                return f"state is assigned in the step, not written in place: {name}"
        for one in gc.get_objects():
            if isinstance(one, torch.Tensor) and storage_address(one) in found:
                return (
                    f"state is assigned in the step, not written in place: a tensor of shape {tuple(one.shape)} "
                    f"that the step makes is in use after it{_referrer(one)}"
                )
        return "a tensor that the step makes is in use after it, such as one that autograd saved for a backward pass"


def _flattened(returned: Any) -> tuple[list[Any], TreeSpec]:
    """The leaves without autograd: views of arguments still show the graph's memory."""
    leaves, structure = tree_flatten(returned)
    return [leaf.detach() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves], structure


def _survivors(capture: StepCapture, state: HostState, results: list[Any]) -> set[int]:
    owners: dict[int, int] = {}
    for leaf in results:
        if isinstance(leaf, torch.Tensor):
            owners[storage_address(leaf)] = owners.get(storage_address(leaf), 0) + 1
    for leaf in capture.observation.leaves() + _leaves(state):
        gradient = leaf.grad
        if gradient is not None and storage_address(gradient) not in owners:
            owners[storage_address(gradient)] = 1
    return {address for address, count in capture.observation.alive() if count > owners.get(address, 0)}


def _referrer(tensor: torch.Tensor) -> str:
    for one in gc.get_referrers(tensor):
        if isinstance(one, dict):
            key = next((key for key, value in one.items() if value is tensor), None)
            if isinstance(key, str):
                return f", as {key!r}"
    return ""


def _leaves(state: HostState) -> list[torch.Tensor]:
    return [one for one in state.tensors.values() if one.device.type == "tb" and one.requires_grad and one.is_leaf]


def _in_autocast() -> bool:
    """Whether the call runs in a block of autocast that began before it."""
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting() > 0


def _of_accumulators(leaves: list[torch.Tensor]) -> str:
    """Why autograd cannot accumulate the gradients of these tensors on the current stream."""
    renewed = renew_accumulators(leaves)
    if renewed < 0:
        return (
            "hooks were added to the accumulation of gradients on another stream, as DistributedDataParallel does "
            "when it is made"
        )
    return _OF_CASTS.format(torch.get_autocast_dtype("tb")) if renewed and _in_autocast() else ""


def _version(tensor: torch.Tensor) -> int:
    return 0 if tensor.is_inference() else tensor._version


def _find_place() -> str:
    from tb_ops._origin import find

    return find()[0]


def _interruption(capture: StepCapture) -> str:
    reason, place = capture.interruption, capture.place
    return f"{reason}, at {place}" if reason and place and place not in reason else reason


def _of_results(results: list[Any]) -> str:
    for leaf in results:
        if isinstance(leaf, torch.Tensor):
            if leaf.device.type != "tb":
                return f"the function returns a tensor on {leaf.device}, which a graph cannot fill"
            if leaf.layout is not torch.strided or type(leaf) is not torch.Tensor:
                return (
                    f"the function returns a {type(leaf).__name__} of layout {leaf.layout}, which a graph cannot fill"
                )
        elif not isinstance(leaf, SCALARS):
            return (
                f"the function returns a {type(leaf).__name__}, in which a graph cannot fill tensors: return "
                f"tensors, or dictionaries, lists and tuples of them"
            )
    return ""


def _of_randomness(before: HostRandomness, state: HostState) -> str:
    name = before.change(HostRandomness(state.generators))
    return f"the step draws random numbers on the host ({name}), which a launch does not repeat" if name else ""


def _of_iterators(state: HostState) -> str:
    name = next(iter(state.iterators), "")
    return f"{name} is an iterator, which a launch does not move on" if name else ""


def _of_events(capture: StepCapture) -> str:
    if not capture.open_events:
        return ""
    return "the step records an event that is used after it, and a launch records no event"


def _of_host_tensors(capture: StepCapture, state: HostState) -> str:
    for tensor in capture.observation.written_host_tensors():
        name = state.name_of(tensor) or f"a tensor of shape {tuple(tensor.shape)}"
        return f"{name} is on the host and changes in the step, which a launch does not repeat"
    return ""
