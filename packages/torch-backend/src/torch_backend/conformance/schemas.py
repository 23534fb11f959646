"""Calls of operators without a database entry, made from the operators' schemas."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from torch_backend.conformance import databases
from torch_backend.conformance.device_copies import copy_to_device
from torch_backend.conformance.outcome import attempt
from torch_backend.conformance.randomness import CPU
from torch_backend.conformance.samples import Sample, shorten

# Values for an argument, by its type in the schema. The first combinations that the CPU accepts are valid calls.
_VALUES: dict[str, list[Callable[[], Any]]] = {
    "Tensor": [lambda: torch.full((4, 3), 0.5), lambda: torch.ones(4, 3, dtype=torch.int64), lambda: torch.ones(())],
    "Tensor?": [lambda: None],
    "Tensor[]": [lambda: [torch.full((4, 3), 0.5), torch.full((5,), 0.25)]],
    "int": [lambda: 1, lambda: 3],
    "SymInt": [lambda: 1, lambda: 3],
    "int?": [lambda: None],
    "SymInt?": [lambda: None],
    "int[]": [lambda: [2, 3], lambda: [1]],
    "SymInt[]": [lambda: [2, 3], lambda: [1]],
    "float": [lambda: 0.5],
    "float?": [lambda: None],
    "Scalar": [lambda: 0.5, lambda: 2],
    "Scalar?": [lambda: None],
    "Scalar[]": [lambda: [0.5, 0.25]],
    "bool": [lambda: False],
    "bool?": [lambda: None],
    "ScalarType": [lambda: torch.float32],
    "ScalarType?": [lambda: None, lambda: torch.uint8, lambda: torch.float32],
    "Generator?": [lambda: None],
    "Layout?": [lambda: None],
    "MemoryFormat?": [lambda: None],
    "Device?": [lambda: torch.device("cpu")],
}
_MOST_TRIES, _MOST_SAMPLES = 200, 3

_NOT_CALLED = (
    # No result can be compared, or each number is a size of memory to allocate.
    *("aten::from_file", "aten::record_stream", "aten::set_", "aten::resize", "aten::empty", "aten::as_strided"),
    # With an invalid argument PyTorch's own kernel writes outside of its memory, divides by zero or never ends.
    *("aten::rrelu_with_noise", "aten::range", "aten::binomial", "aten::unfold_backward"),
    "aten::multilabel_margin_loss_backward",
    # PyTorch does not resize an out= of another shape, or writes another number than without out=.
    *("aten::binary_cross_entropy_backward.grad_input", "aten::binary_cross_entropy.out"),
    # PyTorch composes dropout() and _foreach_powsum() of other operators on the CPU than on all other devices.
    *("aten::native_dropout", "aten::_foreach_powsum"),
)


@dataclass(frozen=True)
class Overload:
    """An overload of an aten operator, by its name as in "aten::randperm.out"."""

    name: str

    @property
    def function(self) -> Callable[..., Any]:
        base, _, overload = self.name.removeprefix("aten::").partition(".")
        function: Callable[..., Any] = getattr(getattr(torch.ops.aten, base), overload or "default")
        return function

    def has_kernel(self, device: torch.device) -> bool:
        key = torch._C._dispatch_key_for_device(device.type)
        return _has_kernel(self.name, key) or _has_kernel(self.name, _COMPOSED)

    def samples(self) -> list[Sample]:
        """Some calls that the CPU accepts; none if the schema has a type without an entry in _VALUES."""
        schema = self.function._schema  # type: ignore[attr-defined]
        types = [(a.name, str(a.real_type).replace("List[Tensor]", "Tensor[]"), a.kwarg_only) for a in schema.arguments]
        texts = [_type(text) for _, text, _ in types]
        if any(text not in _VALUES for text in texts):
            return []
        found: list[Sample] = []
        for chosen in itertools.islice(itertools.product(*(_VALUES[text] for text in texts)), _MOST_TRIES):
            made = [make() for make in chosen]
            positional = [v for v, (_, _, keyword) in zip(made, types, strict=True) if not keyword]
            keywords = {name: v for v, (name, _, keyword) in zip(made, types, strict=True) if keyword}
            tried, named = copy_to_device((positional, keywords), CPU.device)
            if attempt(CPU, lambda p=tried, k=named: self.function(*p, **k)).error is None:  # type: ignore[misc]
                text = f"{self.name}{tuple(positional)} {keywords}"
                first = positional[0] if positional else None
                found.append(
                    Sample((first, tuple(positional[1:]), keywords), lambda t=text: shorten(t, 300), False, lambda x: x)  # type: ignore[misc]
                )
            if len(found) == _MOST_SAMPLES:
                break
        return found


def _type(text: str) -> str:
    """A type as native_functions.yaml writes it."""
    if text.startswith("Optional["):
        return _type(text[len("Optional[") : -1]) + "?"
    if text.startswith("List["):
        return _type(text[len("List[") : -1]) + "[]"
    return {"number": "Scalar"}.get(text, text)


# Factories and operators on lists are composed of operators with kernels, which check the arguments.
_COMPOSED = "CompositeExplicitAutograd"
_ON_LISTS = "_foreach_"


def _has_kernel(name: str, key: str) -> bool:
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(name, key))


def _is_factory(name: str) -> bool:
    base, _, overload = name.removeprefix("aten::").partition(".")
    arguments = getattr(getattr(torch.ops.aten, base), overload or "default")._schema.arguments
    return any(argument.name == "device" for argument in arguments)


@functools.cache
def overloads() -> dict[str, Overload]:
    """Operators without a database entry: factories, operators on lists, and those with a CPU kernel."""
    known = {op.aten_name for op in databases.operators().values()}
    found = {}
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        if not name.startswith("aten::") or name.startswith(_NOT_CALLED):
            continue
        base = name.removeprefix("aten::").partition(".")[0]
        on_lists = base.startswith(_ON_LISTS)
        if (base in known and "out" not in name) or (base.startswith("_") and not on_lists):
            continue
        composed = _has_kernel(name, _COMPOSED) and (on_lists or _is_factory(name))
        if composed or _has_kernel(name, "CPU"):
            found[name] = Overload(name)
    return found
