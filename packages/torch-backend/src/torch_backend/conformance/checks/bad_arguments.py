"""The check `bad_arguments`: every argument of a good call made bad, one at a time; what the CPU refuses is refused.

Good calls are the databases' samples, and for operators that these do not know calls made by their schemas. What
depends on shapes and dtypes is told at the call, also when the operator ran with these dtypes before; what depends on
numbers, in a tensor or beside it, may be told at the next wait. What the CPU takes is taken, with the same values.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from torch_backend.conformance.case import Observation
from torch_backend.conformance.checks.forward import caller, compare_calls
from torch_backend.conformance.device import Device
from torch_backend.conformance.outcome import attempt, told
from torch_backend.conformance.profiles import Limits
from torch_backend.conformance.randomness import CPU
from torch_backend.conformance.samples import Sample, samples, seed_everything, shorten
from torch_backend.conformance.schemas import Overload

MOST_SAMPLES = 3


class Bad(NamedTuple):
    """What takes a good argument's place. `may_be_late`: whether only numbers are others."""

    name: str
    value: Any
    may_be_late: bool = False


def _bad_tensors(tensor: torch.Tensor) -> Iterator[Bad]:
    if tensor.layout != torch.strided or tensor.is_quantized:
        return
    if tensor.is_floating_point() or tensor.is_complex():
        yield Bad("NaN", torch.full_like(tensor, float("nan")), True)
        yield Bad("infinity", torch.full_like(tensor, float("inf")), True)
        yield Bad("below zero", torch.full_like(tensor, -2.0), True)
        yield Bad("twos", torch.full_like(tensor, 2.0), True)
    elif tensor.dtype != torch.bool:
        yield Bad("far below zero", torch.full_like(tensor, -100 if tensor.dtype.is_signed else 0), True)
        yield Bad("too large", torch.full_like(tensor, 100), True)
    for dtype in (torch.float32, torch.int64, torch.bool, torch.complex64, torch.bfloat16):
        if dtype != tensor.dtype:
            yield Bad(f"of {dtype}", (tensor.real if tensor.is_complex() else tensor).to(dtype))
    yield Bad("of no elements", tensor.reshape(-1)[:0])
    if tensor.numel():
        yield Bad("of no dimensions", tensor.reshape(-1)[0])
    yield Bad("of one dimension more", tensor.unsqueeze(0))
    if tensor.dim() and tensor.shape[0] > 1:
        yield Bad("one shorter", tensor[:-1])


def _bad(value: Any) -> Iterator[Bad]:
    """Bad ones in an argument's place, or in that of a list's element."""
    if isinstance(value, torch.Tensor):
        yield from _bad_tensors(value.detach())
    elif isinstance(value, bool):
        yield Bad("the other", not value, True)
    elif isinstance(value, int):
        # A few hundred: beyond the small integer types, and in a square no trouble for memory.
        yield from (Bad(str(number), number, True) for number in (-100, -1, 0, 300) if number != value)
    elif isinstance(value, float):
        numbers = (float("nan"), float("inf"), -1.0, 2.0, 1e300)
        yield from (Bad(str(number), number, True) for number in numbers if number != value)
    elif isinstance(value, str) and value != "cpu":
        yield Bad("an unknown name", "no such name")
    elif isinstance(value, torch.dtype):
        for dtype in (torch.uint8, torch.bool, torch.float16, torch.complex64):
            yield Bad(str(dtype), dtype)


def variants(sample: Sample) -> Iterator[tuple[Bad, Sample]]:
    """The sample with one argument made bad, in turns."""
    leaves, structure = pytree.tree_flatten(sample.values)
    # What an index is good for depends on the other tensors' shapes too.
    indexed = any(isinstance(leaf, torch.Tensor) and leaf.dtype in (torch.int64, torch.int32) for leaf in leaves)
    for index, leaf in enumerate(leaves):
        for bad in (bad._replace(may_be_late=bad.may_be_late or indexed) for bad in _bad(leaf)):
            changed = pytree.tree_unflatten([*leaves[:index], bad.value, *leaves[index + 1 :]], structure)
            text = f"argument {index} {bad.name}, of {sample.describe()}"
            yield bad, replace(sample, values=changed, describe=lambda text=text: shorten(text, 300))  # type: ignore[misc]


def _late(call: Callable[[], Any], device: Device) -> Exception | None:
    """What is told only once the call has returned."""
    try:
        call()
    except Exception:
        device.drain()
        return None
    try:
        device.synchronize()
    except Exception as error:
        return error.with_traceback(None)
    return None


def _observe(
    bad: Bad, function: Callable[..., Any], sample: Sample, device: Device, uninitialised: bool
) -> Observation:
    on_cpu, on_device = caller(function, sample, CPU), caller(function, sample, device)
    observation = compare_calls(
        on_cpu,
        on_device,
        device,
        uninitialised=uninitialised,
        repeats=1,
        statistics=False,
        errors_count=True,
    )
    if observation.problem is None and not bad.may_be_late and attempt(CPU, on_cpu).error is not None:
        late = _late(on_device, device)
        if late is not None:
            observation.problem = f"told at the next wait, though no number decides: {told(late)}"
    observation.sample = sample.describe()
    return observation


def bad_arguments(device: Device, entry: Any, dtype: torch.dtype, limits: Limits) -> Iterator[Observation]:
    """Some samples, each argument made bad in turns; all of them, or some that the seed chooses."""
    if isinstance(entry, Overload):
        if not entry.has_kernel(device.device):
            yield Observation(vacuous="the device has no kernel of its own")
            return
        seed_everything(limits.seed)
        function, good, uninitialised = entry.function, entry.samples(), False
    else:
        known = torch.float32 if torch.float32 in entry.dtypes else sorted(entry.dtypes, key=str)[0]
        function, good, uninitialised = entry.op, samples(entry, known, limits), entry.has_nondeterministic_output
    count = 0 if limits.samples == 0 or limits.samples > MOST_SAMPLES else 6 * limits.samples
    for sample in good[:MOST_SAMPLES]:
        if attempt(CPU, caller(function, sample, CPU)).error is not None:
            continue
        for _ in range(2):  # from now on nothing waits for its dtypes
            attempt(device, caller(function, sample, device))
        made = list(variants(sample))
        if count and len(made) > count:
            made = random.Random(f"{limits.seed} {sample.describe()}").sample(made, count)
        for bad, changed in made:
            yield _observe(bad, function, changed, device, uninitialised)
