"""The calls that PyTorch's operator database has for a public name: the function, the method, the in-place variant."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from torch_backend.conformance import databases, schemas
from torch_backend.conformance.case import Observation
from torch_backend.conformance.checks.forward import caller, compare_calls, forward
from torch_backend.conformance.checks.gradients import backward
from torch_backend.conformance.device import Device
from torch_backend.conformance.profiles import Limits
from torch_backend.conformance.randomness import CPU

SAMPLES = 2  # of each variant; samples that prove nothing do not count
NOT_ON_CPU = "the CPU has no kernel of this operator"
_COMPOSITES = ("CompositeImplicitAutograd", "CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")
_KEYS_OF_THE_CPU = ("CPU", "SparseCPU", "SparseCsrCPU", "QuantizedCPU", "MkldnnCPU", *_COMPOSITES)

# In these modules a function has the name of its operator, but for a prefix.
_PREFIXES = {
    **{"torch": "", "torch.Tensor": "", "torch.nn.functional": ""},
    **{"torch.special": "special_", "torch.linalg": "linalg_", "torch.fft": "fft_"},
}


@dataclass(frozen=True)
class Variant:
    """An entry of the database that calls another function: a method, an alias, a variant in place."""

    entry: Any
    op: Any
    in_place: bool

    def __getattr__(self, name: str) -> Any:
        return getattr(self.entry, name)

    def dtype(self) -> torch.dtype:
        chosen: torch.dtype = min(self.entry.dtypes, key=databases.usual_first)
        return chosen

    def dtype_of_gradients(self) -> torch.dtype | None:
        """None if it has no gradients: a leaf is not written in place."""
        if self.in_place or not self.entry.supports_autograd:
            return None
        both = [dtype for dtype in self.entry.supported_backward_dtypes("cpu") if dtype in self.entry.dtypes]
        return min(both, key=databases.usual_first, default=None)


@dataclass(frozen=True)
class Calls:
    """How a name is called: by entries of the database; if the CPU takes none of these calls, by its schema's types."""

    variants: tuple[Variant, ...]
    function: Any
    operator: str = ""

    def __bool__(self) -> bool:
        return bool(self.variants or self.operator)


def _entries() -> list[Any]:
    """The entries that have a dtype on the CPU."""
    return [entry for entry in databases.operators().values() if entry.dtypes]


@functools.cache
def _by_function() -> dict[Any, list[Variant]]:
    found: dict[Any, list[Variant]] = {}
    for entry in _entries():
        for one in (entry, *entry.aliases):
            functions = [(one.op, False), (one.method_variant, False), (one.inplace_variant, True)]
            if one is entry:
                functions = [(entry.op, False), (entry.get_method(), False), (entry.get_inplace(), True)]
            for function, in_place in functions:
                if function is not None:
                    found.setdefault(function, []).append(Variant(entry, function, in_place))
    return found


@functools.cache
def _overloads() -> dict[str, list[str]]:
    """The full names of the overloads of each operator, but for those with out=."""
    found: dict[str, list[str]] = {}
    for name in sorted(torch._C._dispatch_get_all_op_names()):
        operator, _, overload = name.removeprefix("aten::").partition(".")
        if name.startswith("aten::") and "out" not in overload:
            found.setdefault(operator, []).append(name)
    return found


@functools.cache
def _by_operator() -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for entry in _entries():
        found.setdefault(entry.aten_name, []).append(entry)
    return found


def calls(path: str, value: Any) -> Calls:
    """How a name is called; false if the databases and schemas know no operator of it."""
    module, _, name = path.rpartition(".")
    try:
        variants = tuple(_by_function().get(value, ()))
    except TypeError:  # not hashable
        variants = ()
    if isinstance(value, type) or not callable(value):
        return Calls((), value)
    operator = _PREFIXES[module] + name if module in _PREFIXES else ""
    if not variants and operator:
        in_place = name.endswith("_")
        entries = _by_operator().get(operator.removesuffix("_") if in_place else operator, ())
        variants = tuple(Variant(entry, value, in_place) for entry in entries)
    return Calls(variants, value, operator if operator in _overloads() else "")


def _enough(observations: Iterable[Observation], most: int) -> Iterator[Observation]:
    """The first so many that prove something, and the others before them."""
    for observation in observations:
        yield observation
        most -= observation.vacuous is None
        if most == 0:
            break


def results(device: Device, called: Calls, dtype: torch.dtype, limits: Limits) -> Iterator[Observation]:
    """The results of each variant in its most usual dtype."""
    proved = False
    for variant in called.variants:
        for observation in _enough(forward(device, variant, variant.dtype(), limits), SAMPLES):
            proved |= observation.vacuous is None
            yield observation
    if not proved and called.operator:
        yield from _by_schema(device, called, limits)
        if not any(map(_on_cpu, _overloads()[called.operator])):
            yield Observation(vacuous=NOT_ON_CPU)


def _on_cpu(overload: str) -> bool:
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(overload, key) for key in _KEYS_OF_THE_CPU)


def _by_schema(device: Device, called: Calls, limits: Limits) -> Iterator[Observation]:
    for overload in _overloads()[called.operator]:
        for sample in schemas.Overload(overload).samples():
            observation = compare_calls(
                caller(called.function, sample, CPU),
                caller(called.function, sample, device),
                device,
                uninitialised=called.operator.startswith("empty"),
                repeats=limits.repeats,
            )
            observation.sample = sample.describe()
            yield observation


def gradients(device: Device, called: Calls, dtype: torch.dtype, limits: Limits) -> Iterator[Observation]:
    """The gradients of each variant in its most usual dtype that has some."""
    for variant in called.variants:
        chosen = variant.dtype_of_gradients()
        if chosen is not None:
            yield from _enough(backward(device, variant, chosen, limits), SAMPLES)
