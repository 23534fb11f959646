"""The check `mixed_devices`: one tensor of a valid call is on the CPU, or on another device of the type.

The device must raise RuntimeError at the call, as CUDA does, and not run on memory of another device. mixed.toml lists
the operators that take such a tensor on CUDA too: these must give the CPU's result, and others must not. Each call
follows valid ones, so that the device knows the types and shapes. In-place variants are called as well. The check `out`
gives out= on other devices (checks/out.py).
"""

from __future__ import annotations

import functools
import pathlib
import tomllib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree

from torch_backend.conformance.case import Observation
from torch_backend.conformance.checks.forward import caller
from torch_backend.conformance.comparison import compare
from torch_backend.conformance.databases import usual_first
from torch_backend.conformance.device import Device
from torch_backend.conformance.device_copies import copy_tensor_to_device, tensors_in
from torch_backend.conformance.outcome import attempt, error_text
from torch_backend.conformance.profiles import Limits
from torch_backend.conformance.randomness import CPU, reference
from torch_backend.conformance.samples import Sample, samples
from torch_backend.conformance.schemas import Overload

TABLE = pathlib.Path(__file__).parent.parent / "mixed.toml"
# Equal for all profiles and seeds: which of the listed operators take such a tensor must not depend on them.
LIMITS = Limits(samples=4, window=64, elements=5_000, repeats=0)
GOOD_CALLS = 2


@functools.cache
def taken(kind: str) -> frozenset[str]:
    """The entries that take a tensor of this kind on another device: a key of mixed.toml."""
    table: dict[str, list[str]] = tomllib.loads(TABLE.read_text())
    return frozenset(table.get(kind, []) + (table.get("lists", []) if kind.startswith("tensors") else []))


def problem_of_refusal(device: Device, call: Callable[[], Any]) -> tuple[Any, str | None]:
    """What the call gives, and what is wrong with its exception; (None, None) if it is refused as it should be."""
    device.drain()
    try:
        value = call()
    except Exception as error:
        device.drain()
        if not isinstance(error, RuntimeError) or "INTERNAL ASSERT" in str(error) or "internal error" in str(error):
            return None, f"raises {error_text(error)}; CUDA raises RuntimeError for tensors on different devices"
        return None, None
    try:
        device.synchronize()
    except Exception as error:
        device.drain()
        return None, f"raises at the next wait: {error_text(error)}"
    return (value,), None


def values_problem(expected: Any, value: Any) -> str | None:
    """How a result that was taken differs from the CPU's; the device of the result does not count."""
    on_cpu = pytree.tree_map(lambda leaf: leaf.cpu() if isinstance(leaf, torch.Tensor) else leaf, value)
    return compare(expected, on_cpu, CPU.device).problem


def _with_one_moved(sample: Sample, moved: torch.Tensor, to: torch.device, device: Device) -> Any:
    """The arguments on the device, except for one tensor."""
    known: dict[int, torch.Tensor] = {}

    def leaf(value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        if id(value) not in known:
            known[id(value)] = copy_tensor_to_device(value, to if value is moved else device.device)
        return known[id(value)]

    return pytree.tree_map(leaf, sample.values)


def _kind(moved: torch.Tensor, to: torch.device) -> str:
    place = "host" if to.type == "cpu" else "device"
    return f"{'numbers' if moved.dim() == 0 else 'tensors'} of the {place}"


def _functions(entry: Any, sample: Sample) -> Iterator[tuple[str, Callable[..., Any]]]:
    if isinstance(entry, Overload):
        yield "", entry.function
        return
    yield "", entry.op
    if entry.get_inplace() is not None and not sample.broadcasts_input:
        yield "in place, ", entry.get_inplace()


def _samples(entry: Any) -> list[Sample]:
    if isinstance(entry, Overload):
        return entry.samples()
    known = sorted(entry.dtypes, key=usual_first)[:1]
    return samples(entry, known[0], LIMITS) if known else []


def _different(sample: Sample) -> list[torch.Tensor]:
    return list({id(tensor): tensor for tensor in tensors_in(sample.values)}.values())


def mixed_devices(device: Device, entry: Any, _: torch.dtype, limits: Limits) -> Iterator[Observation]:
    """Every tensor of every sample on every other device, if the call has several tensors."""
    name = entry.name if isinstance(entry, Overload) else entry.full_name
    if isinstance(entry, Overload) and not entry.has_kernel(device.device):
        yield Observation(vacuous="the device has no kernel of its own")
        return
    took: set[str] = set()
    tried: set[str] = set()
    for sample in _samples(entry):
        movable = _different(sample)
        if len(movable) < 2 or sample.arguments_on_cpu:
            continue
        for text, function in _functions(entry, sample):
            good, random = reference(caller(function, sample, CPU))
            if good.error is not None:
                continue
            for _good in range(GOOD_CALLS):
                attempt(device, caller(function, sample, device))
            for index, moved in enumerate(movable):
                for to in device.elsewhere():

                    def call(
                        f: Any = function, s: Sample = sample, m: torch.Tensor = moved, t: torch.device = to
                    ) -> Any:
                        first, rest, keywords = _with_one_moved(s, m, t, device)
                        return f(first, *rest, **keywords)

                    value, problem = problem_of_refusal(device, call)
                    kind = _kind(moved, to)
                    tried.add(kind)
                    if value is not None:
                        took.add(kind)
                        if name not in taken(kind):
                            problem = f"takes a tensor on {to}; mixed.toml does not list it under {kind!r}"
                        elif not (random or getattr(entry, "has_nondeterministic_output", False)):
                            problem = values_problem(good.value[0], value[0])
                    yield Observation(sample=f"{text}tensor {index} on {to}, {sample.describe()}", problem=problem)
    for kind in sorted(tried - took):
        if name in taken(kind):
            yield Observation(problem=f"refuses {kind}, but mixed.toml lists it; remove the entry")
    if not tried:
        yield Observation(vacuous="no sample has several tensors, or there is no other device")
