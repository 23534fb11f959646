"""The check `behind_failures`: calls that fail on the device, with further work queued behind them or after the error.

A call with an invalid number that the CPU refuses is queued, and what a program does next: a backward pass, the
results as
indices, sizes and masks. Once before anything waits, and once after the error was raised. Nothing may end the process
(the
worker's end fails the case), change memory beside, or be raised later; and the device computes as before.
"""

# Some of PyTorch's functions have no types.
# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn import functional

from torch_backend.conformance.case import Observation
from torch_backend.conformance.checks.bad_arguments import UNCHECKED, Bad, bad_numbers, variants
from torch_backend.conformance.checks.gradients import differentiable, random_like
from torch_backend.conformance.device import Device
from torch_backend.conformance.device_copies import tensors_in
from torch_backend.conformance.expectations import matches
from torch_backend.conformance.outcome import attempt
from torch_backend.conformance.profiles import Limits
from torch_backend.conformance.randomness import CPU
from torch_backend.conformance.samples import Sample, samples, shorten

_MOST_VARIANTS = 6  # of a sample
_ROWS = 50
_GUARD = 5.0


def _replacements(value: Any) -> Iterator[Bad]:
    """Tensors with a number that may be refused, in one place or in all."""
    if not isinstance(value, torch.Tensor) or value.layout != torch.strided or value.is_quantized or not value.numel():
        return
    for bad in bad_numbers(value.detach()):
        first = value.detach().clone()
        first.reshape(-1)[0] = bad.value.reshape(-1)[0]  # a view, if the clone is dense
        yield Bad(f"{bad.name} in one place", first.requires_grad_(value.requires_grad), True)
        yield bad._replace(value=bad.value.requires_grad_(value.requires_grad))


def _as_index(result: torch.Tensor) -> torch.Tensor:
    flat = result.detach().reshape(-1)[:64]
    return (flat.real if flat.is_complex() else flat).to(torch.int64)


def _table(result: torch.Tensor) -> torch.Tensor:
    return torch.ones(_ROWS, 4, device=result.device, requires_grad=True)


def _gather_rows(result: torch.Tensor) -> None:
    _table(result)[_as_index(result)].sum().backward()


def _bag(result: torch.Tensor, mode: str = "max") -> None:
    start = torch.zeros(1, dtype=torch.int64, device=result.device)
    functional.embedding_bag(_as_index(result), _table(result), start, mode=mode).sum().backward()


def _bag_offsets(result: torch.Tensor) -> None:
    indices = torch.arange(_ROWS, device=result.device)
    functional.embedding_bag(indices, _table(result), _as_index(result), mode="mean").sum().backward()


def _classes(result: torch.Tensor) -> None:
    target = _as_index(result)
    logits = torch.ones(target.numel(), 4, device=result.device, requires_grad=True)
    functional.nll_loss(logits, target).backward()


def _scatter(result: torch.Tensor) -> None:
    index = _as_index(result)
    torch.zeros(_ROWS, device=result.device).scatter_add_(0, index, torch.ones(index.shape, device=result.device))


def _order(result: torch.Tensor) -> None:
    flat = result.detach().reshape(-1)
    flat[flat.argsort()].cumsum(0)


def _mask(result: torch.Tensor) -> None:
    flat = result.detach().reshape(-1)
    flat[flat != 0]


FOLLOWERS: tuple[Callable[[torch.Tensor], None], ...] = (
    _gather_rows,
    _bag,
    functools.partial(_bag, mode="mean"),
    _bag_offsets,
    _classes,
    _scatter,
    _order,
    _mask,
)


def _gradients(sample: Sample, result: Any, given: Any, device: Device) -> None:
    results, arguments = differentiable(sample.differentiable(result)), differentiable(given)
    if results and arguments:
        cotangents = random_like(results, device, 1)
        torch.autograd.grad(results, arguments, cotangents, allow_unused=True, create_graph=True)


def _follow(sample: Sample, result: Any, given: Any, device: Device) -> None:
    """Everything is queued, and each exception, also of what waits, is of no interest."""
    with contextlib.suppress(Exception):
        _gradients(sample, result, given, device)
    for follower in FOLLOWERS:
        for tensor in tensors_in(result)[:4]:
            with contextlib.suppress(Exception):
                follower(tensor)


def _left_out(function: Callable[..., Any], sample: Sample, device: Device) -> str:
    """What is wrong if work that is queued behind the call has run, though the call's error is raised later only."""
    written = torch.zeros(8, device=device.device)
    written.add_(0)
    device.synchronize()
    sample.call(function, device.device)
    written.add_(1)
    try:
        device.synchronize()
    except Exception:
        device.drain()
        return "work behind the failed call has run before the error was raised" if bool(written.any()) else ""
    return ""


def _problem(
    function: Callable[..., Any], sample: Sample, device: Device, guards: list[torch.Tensor], reported: bool
) -> str:
    """What is wrong after the call and what follows it; "" if nothing is. Raises what the call itself raises."""
    result, given = sample.call(function, device.device)
    if reported:
        device.drain()
    _follow(sample, result, given, device)
    device.drain()
    try:
        device.synchronize()
    except Exception as error:
        return f"a second wait raises {type(error).__name__}"
    changed = sum(int((guard != _GUARD).sum()) for guard in guards)
    if changed:
        return f"{changed} numbers beside are changed"
    return "" if device.usable() else "the device does not compute any more"


def behind_failures(device: Device, op: Any, dtype: torch.dtype, limits: Limits) -> Iterator[Observation]:
    """Some samples, with one number replaced by one that the CPU refuses."""
    if matches(op.full_name, UNCHECKED):
        yield Observation(vacuous="the CPU's kernel does not check its arguments")
        return
    function = functools.partial(op.gradcheck_wrapper, op.op)
    guards = [torch.full((size,), _GUARD, device=device.device) for size in (4, 64, 1024) for _ in range(16)]
    del guards[::2]  # what is allocated next is between the others
    for sample in samples(op, dtype, limits, requires_grad=op.supports_autograd and dtype.is_floating_point):
        if attempt(CPU, lambda s=sample: s.call(function, CPU.device)).error is not None:  # type: ignore[misc]
            continue
        attempt(device, lambda s=sample: s.call(function, device.device))  # type: ignore[misc]
        left = _MOST_VARIANTS
        for _, changed in variants(sample, replacements=_replacements):
            if not left:
                break
            if attempt(CPU, lambda s=changed: s.call(function, CPU.device)).error is None:  # type: ignore[misc]
                continue
            left -= 1
            for reported in (False, True):
                when = "after the error" if reported else "before any wait"
                description = shorten(f"{when}, {changed.describe()}", 300)
                try:
                    problem = "" if reported else _left_out(function, changed, device)
                    problem = problem or _problem(function, changed, device, guards, reported)
                except Exception:
                    device.drain()
                    yield Observation(sample=description, vacuous="the call itself raises")
                    continue
                yield Observation(sample=description, problem=problem or None)
