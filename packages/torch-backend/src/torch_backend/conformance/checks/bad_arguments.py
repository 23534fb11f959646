"""The check `bad_arguments`: valid calls with one argument replaced by an invalid one; the device raises as the CPU.

Valid calls are the databases' samples, and for operators without samples, calls that are made from their schemas. An
error that depends on shapes and dtypes must be raised at the call, also if the operator ran with these dtypes before.
So must one that depends on a number that is no index: whether the types can hold it is known at the call. An error that
depends on numbers in tensors may be raised at the next wait. If the CPU accepts the call, the device must accept it and
return the same values.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from torch_backend.conformance.case import Observation
from torch_backend.conformance.checks.forward import caller, compare_calls
from torch_backend.conformance.device import Device
from torch_backend.conformance.expectations import matches
from torch_backend.conformance.outcome import agree, attempt, error_text
from torch_backend.conformance.profiles import Limits
from torch_backend.conformance.randomness import CPU
from torch_backend.conformance.samples import Sample, samples, seed_everything, shorten
from torch_backend.conformance.schemas import Overload

MOST_SAMPLES = 3

# Entries whose CPU kernel does not check its arguments: with an invalid one it accesses memory outside of its tensors,
# or returns memory that it never wrote.
UNCHECKED = """
linalg.eigvals, lu_unpack, native_batch_norm, _batch_norm_with_update, _native_batch_norm_legit,
_segment_reduce.*, nn.functional.ctc_loss, special.*_polynomial_*, grid_sampler_*
"""
# Entries that PyTorch composes of other operators on the CPU than on all other devices; they accept other types.
_OTHER_THAN_THE_CPU = "ldexp,nn.functional.max_pool1d,nn.functional.linear_cross_entropy.*"


class Bad(NamedTuple):
    """A replacement for a valid argument. `may_be_late`: it differs in elements only, so the error may come late."""

    name: str
    value: Any
    may_be_late: bool = False


def bad_numbers(tensor: torch.Tensor) -> Iterator[Bad]:
    """Strided tensors of the same shape and dtype, with other numbers."""
    if tensor.is_floating_point() or tensor.is_complex():
        numbers = {"NaN": float("nan"), "infinity": float("inf"), "below zero": -2.0, "twos": 2.0}
        for name, number in numbers.items():
            with contextlib.suppress(RuntimeError):  # not every type has each of these numbers
                yield Bad(name, torch.full_like(tensor, number), True)
    elif tensor.dtype != torch.bool:
        yield Bad("far below zero", torch.full_like(tensor, -100 if tensor.dtype.is_signed else 0), True)
        yield Bad("too large", torch.full_like(tensor, 100), True)


def _bad_tensors(tensor: torch.Tensor) -> Iterator[Bad]:
    if tensor.layout != torch.strided or tensor.is_quantized:
        return
    yield from bad_numbers(tensor)
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
    """Replacements for an argument, or for an element of a list."""
    if isinstance(value, torch.Tensor):
        yield from _bad_tensors(value.detach())
    elif isinstance(value, bool):
        yield Bad("the other", not value)
    elif isinstance(value, int):
        # 300 exceeds the small integer types, and a square of that size fits in memory.
        yield from (Bad(str(number), number) for number in (-100, -1, 0, 300, 1 + 2j) if number != value)
    elif isinstance(value, float):
        numbers = (float("nan"), float("inf"), -1.0, 2.0, 1e300, 1 + 2j)
        yield from (Bad(str(number), number) for number in numbers if number != value)
    elif isinstance(value, str) and value != "cpu":
        yield Bad("an unknown name", "no such name")
    elif isinstance(value, torch.dtype):
        for dtype in (torch.uint8, torch.bool, torch.float16, torch.complex64):
            yield Bad(str(dtype), dtype)


def variants(
    sample: Sample, *, indexed: bool = False, replacements: Callable[[Any], Iterator[Bad]] = _bad
) -> Iterator[tuple[Bad, Sample]]:
    """The sample with one argument replaced, for each argument. `indexed`: whether its numbers are indices."""
    leaves, structure = pytree.tree_flatten(sample.values)
    # Whether an index or a mask is valid depends on the other tensors' shapes too.
    indexed = indexed or any(
        isinstance(leaf, torch.Tensor) and not (leaf.is_floating_point() or leaf.is_complex()) for leaf in leaves
    )
    for index, leaf in enumerate(leaves):
        for bad in (bad._replace(may_be_late=bad.may_be_late or indexed) for bad in replacements(leaf)):
            changed = pytree.tree_unflatten([*leaves[:index], bad.value, *leaves[index + 1 :]], structure)
            text = f"argument {index} {bad.name}, of {sample.describe()}"
            yield bad, replace(sample, values=changed, describe=lambda text=text: shorten(text, 300))  # type: ignore[misc]


def _late(call: Callable[[], Any], device: Device) -> Exception | None:
    """The exception that is raised only after the call has returned."""
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


@contextlib.contextmanager
def _new_memory_filled() -> Iterator[None]:
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def _depends_on_new_memory(call: Callable[[], Any]) -> bool:
    """Whether the CPU's result depends on new memory, which it may leave unwritten for an invalid argument."""
    before = attempt(CPU, call)
    with _new_memory_filled():
        filled = attempt(CPU, call)
    return agree(before, filled, CPU, errors_count=True).problem is not None


def _observe(
    bad: Bad, function: Callable[..., Any], sample: Sample, device: Device, uninitialised: bool
) -> Observation:
    on_cpu, on_device = caller(function, sample, CPU), caller(function, sample, device)

    def compared(uninitialised: bool) -> Observation:
        return compare_calls(
            on_cpu, on_device, device, uninitialised=uninitialised, repeats=1, statistics=False, errors_count=True
        )

    observation = compared(uninitialised)
    if observation.problem is not None and not uninitialised:
        with _new_memory_filled():
            filled = compared(False)
        if filled.problem is None:  # the differing elements were never written
            observation = filled
        elif _depends_on_new_memory(on_cpu):
            observation = compared(True)
    if observation.problem is None and not bad.may_be_late and attempt(CPU, on_cpu).error is not None:
        late = _late(on_device, device)
        if late is not None:
            observation.problem = f"raised at the next wait, though it depends on no number: {error_text(late)}"
    observation.sample = sample.describe()
    return observation


def bad_arguments(device: Device, entry: Any, dtype: torch.dtype, limits: Limits) -> Iterator[Observation]:
    """Some samples with each argument replaced: all variants, or some that the seed selects."""
    if isinstance(entry, Overload):
        if not entry.has_kernel(device.device):
            yield Observation(vacuous="the device has no kernel of its own")
            return
        seed_everything(limits.seed)
        function, good, uninitialised = entry.function, entry.samples(), False
    elif not entry.dtypes or matches(entry.full_name, f"{UNCHECKED},{_OTHER_THAN_THE_CPU}"):
        yield Observation(vacuous="the CPU has no kernel, or one that does not check, or runs other operators")
        return
    else:
        known = torch.float32 if torch.float32 in entry.dtypes else sorted(entry.dtypes, key=str)[0]
        function, good, uninitialised = entry.op, samples(entry, known, limits), entry.has_nondeterministic_output
    count = 0 if limits.samples == 0 or limits.samples > MOST_SAMPLES else 6 * limits.samples
    for sample in good[:MOST_SAMPLES]:
        if attempt(CPU, caller(function, sample, CPU)).error is not None:
            continue
        for _ in range(2):  # after this, no operator waits because its dtypes are new
            attempt(device, caller(function, sample, device))
        made = list(variants(sample, indexed=function is torch.Tensor.__getitem__))
        if count and len(made) > count:
            made = random.Random(f"{limits.seed} {sample.describe()}").sample(made, count)
        for bad, changed in made:
            yield _observe(bad, function, changed, device, uninitialised)
