"""Sample inputs of an operator: made on the CPU, selected with a seed, described in a line."""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch.utils import _pytree as pytree

from torch_backend.conformance.device_copies import copy_to_device, tensors_in
from torch_backend.conformance.profiles import Limits

T = TypeVar("T")


# Operators whose tensors after the first one must be on the CPU for every device.
ARGUMENTS_ON_CPU = frozenset({"tensor_split"})


@dataclass
class Sample:
    """The arguments of one call, on the CPU. Operators never get them: `arguments` copies them."""

    values: tuple[Any, tuple[Any, ...], dict[str, Any]]
    describe: Callable[[], str]
    broadcasts_input: bool
    # From the operator's output to the part whose gradient is defined.
    differentiable: Callable[[Any], Any]
    arguments_on_cpu: bool = False

    def arguments(self, device: torch.device) -> tuple[list[Any], dict[str, Any]]:
        """A fresh copy of the call's positional and keyword arguments on the device."""
        first, rest, keywords = copy_to_device(self.values, device)
        if self.arguments_on_cpu:
            _, rest, keywords = copy_to_device(self.values, torch.device("cpu"))
        return [first, *rest], keywords

    def call(self, function: Callable[..., Any], device: torch.device, **keywords: Any) -> Any:
        """Calls the function with a new copy of the arguments; returns the result and the arguments on the device.

        If no argument is a tensor, the device becomes the default device, by which the function finds it.
        """
        positional, named = self.arguments(device)
        with contextlib.nullcontext() if tensors_in(self.values) else device:
            result = function(*positional, **named, **keywords)
        return result, ((positional[:1], {}) if self.arguments_on_cpu else (positional, named))

    def nudged(self, seed: int) -> Sample:
        """The call with the last bit of every floating-point element of its tensors changed, up or down."""
        generator = torch.Generator().manual_seed(seed)

        def nudge(value: Any) -> Any:
            if not isinstance(value, torch.Tensor) or value.layout != torch.strided or value.numel() == 0:
                return value
            if not (value.is_floating_point() or value.is_complex()):
                return value
            signs = torch.randint(0, 2, value.shape, generator=generator) * 2 - 1
            step = torch.finfo(value.dtype).eps * signs.to(value.real.dtype)
            moved = value.detach().clone().mul_(1 + step)
            return moved.requires_grad_(value.requires_grad)

        return replace(self, values=pytree.tree_map(nudge, self.values))

    @property
    def elements(self) -> int:
        return sum(tensor.numel() for tensor in tensors_in(self.values) if tensor.layout == torch.strided)


def from_sample_input(sample: Any) -> Sample:
    return Sample(
        values=(sample.input, sample.args, sample.kwargs),
        describe=lambda: shorten(sample.summary(), 300),
        broadcasts_input=bool(sample.broadcasts_input),
        differentiable=sample.output_process_fn_grad,
    )


def shorten(text: str, length: int) -> str:
    text = " ".join(text.split())
    return text if len(text) <= length else text[: length - 3] + "..."


def seed_everything(seed: int) -> None:
    """Seeds Python, NumPy (the databases use both) and the CPU's generator."""
    import numpy

    random.seed(seed)
    numpy.random.seed(seed)
    torch.default_generator.manual_seed(seed)


def choose(items: Iterable[T], limits: Limits, key: str, elements: Callable[[T], int]) -> list[T]:
    """At most `limits.samples` items in their order, always the same for equal seeds and keys."""
    window = list(itertools.islice(items, limits.window or None))
    if limits.elements:
        small = [item for item in window if elements(item) <= limits.elements]
        window = small or sorted(window, key=elements)[:1]
    if limits.samples and len(window) > limits.samples:
        chosen = random.Random(f"{limits.seed} {key}").sample(range(len(window)), limits.samples)
        window = [window[index] for index in sorted(chosen)]
    return window


def samples(op: Any, dtype: torch.dtype, limits: Limits, *, requires_grad: bool = False) -> list[Sample]:
    """The selected samples of an operator for a dtype.

    Raises: what the database's sample function raises, for example for a dtype that it does not support.
    """
    seed_everything(limits.seed)
    given = op.sample_inputs("cpu", dtype, requires_grad=requires_grad, set_seed=False)
    every = (from_sample_input(sample) for sample in given)
    chosen = choose(every, limits, f"{op.full_name} {dtype}", lambda sample: sample.elements)
    for sample in chosen:
        sample.arguments_on_cpu = op.full_name in ARGUMENTS_ON_CPU
    return chosen
