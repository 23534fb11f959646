"""The checks by name, and the entries and dtypes of the databases that each of them takes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from torch_backend.conformance import databases, schemas
from torch_backend.conformance.case import NO_DTYPE, Case, Observation
from torch_backend.conformance.checks import (
    bad_arguments,
    behind_failures,
    compiled,
    dtypes,
    errors,
    fake,
    forward,
    gradients,
    inplace,
    layout,
    mixed_devices,
    modules,
    optimizers,
    origins,
    out,
    second_device,
    versions,
)
from torch_backend.conformance.device import Device
from torch_backend.conformance.profiles import Limits, Profile

Run = Callable[[Device, Any, torch.dtype, Limits], Iterator[Observation]]
Pairs = Iterable[tuple[str, Iterable[torch.dtype] | None]]


@dataclass(frozen=True)
class Check:
    """A check: its function, and the database entries that it takes.

    `entries` returns names with their dtypes (None for a check without dtypes); `database` returns the entries by name.
    A short profile takes a few entries of a check that is `costly`, and some of one that is `sampled`. `devices` is how
    many devices of the type it needs.
    """

    summary: str
    run: Run
    entries: Callable[[], Pairs]
    database: Callable[[], dict[str, Any]]
    costly: bool = False
    sampled: bool = False
    devices: int = 1


def _forward() -> Pairs:
    return ((name, op.dtypes) for name, op in databases.operators().items())


def _differentiable(flag: str) -> Callable[[], Pairs]:
    def entries() -> Pairs:
        for name, op in databases.operators().items():
            if getattr(op, flag):
                yield name, [dtype for dtype in op.supported_backward_dtypes("cpu") if dtype in op.dtypes]

    return entries


def _forward_ad() -> Pairs:
    for name, op in databases.operators().items():
        if op.supports_forward_ad:
            yield name, [dtype for dtype in op.dtypes if dtype.is_floating_point or dtype.is_complex]


def _out() -> Pairs:
    return ((name, op.dtypes) for name, op in databases.operators().items() if op.supports_out)


def _inplace() -> Pairs:
    return ((name, op.dtypes) for name, op in databases.operators().items() if op.get_inplace() is not None)


def _errors() -> Pairs:
    return ((name, None) for name, op in databases.operators().items() if op.error_inputs_func is not None)


def _with_arguments() -> dict[str, Any]:
    return databases.operators() | schemas.overloads()


def _bad_arguments() -> Pairs:
    return ((name, None) for name in _with_arguments())


def _every() -> Pairs:
    return ((name, None) for name in databases.operators())


def _unlisted() -> Pairs:
    for name, op in databases.operators().items():
        yield name, [dtype for dtype in databases.DTYPES if dtype not in op.dtypes]


def _modules() -> Pairs:
    return ((name, info.dtypes) for name, info in databases.modules().items())


def _floating_modules() -> Pairs:
    return ((name, [torch.float32, torch.float64]) for name in databases.modules())


def _module_errors() -> Pairs:
    return ((name, None) for name, info in databases.modules().items() if info.module_error_inputs_func is not None)


def _optimizers() -> Pairs:
    for name, info in databases.optimizers().items():
        yield name, [torch.float32, torch.float64, *([torch.complex64] if info.supports_complex else [])]


def _in_the_usual_dtype() -> Pairs:
    for name, op in databases.operators().items():
        yield name, sorted(op.dtypes, key=databases.usual_first)[:1]


def _written() -> Pairs:
    yield from _forward()
    for name, op in databases.list_operators().items():
        yield name, [dtype for dtype in databases.DTYPES if dtype in op.dtypes]
    yield from _optimizers()


def _optimizer_errors() -> Pairs:
    return ((name, None) for name, info in databases.optimizers().items() if info.optim_error_inputs_func is not None)


CHECKS: dict[str, Check] = {
    "forward": Check("results of every operator", forward.forward, _forward, databases.operators),
    "layout": Check("strides, memory formats and aliasing", layout.layout, _forward, databases.operators),
    "backward": Check("gradients", gradients.backward, _differentiable("supports_autograd"), databases.operators),
    "gradgrad": Check(
        "gradients of gradients", gradients.gradgrad, _differentiable("supports_gradgrad"), databases.operators
    ),
    "forward_ad": Check("tangents by dual numbers", gradients.forward_ad, _forward_ad, databases.operators),
    "out": Check("out= of any shape, strides, dtype", out.out, _out, databases.operators),
    "inplace": Check("in-place variants", inplace.inplace, _inplace, databases.operators),
    "inplace_view": Check("in-place through views", inplace.inplace_view, _inplace, databases.operators),
    "inplace_expanded": Check("in-place on overlap", inplace.inplace_expanded, _inplace, databases.operators),
    "errors": Check("exception types", errors.errors, _errors, databases.operators),
    "bad_arguments": Check("invalid arguments", bad_arguments.bad_arguments, _bad_arguments, _with_arguments),
    "behind_failures": Check(
        "work behind failed calls", behind_failures.behind_failures, _in_the_usual_dtype, databases.operators
    ),
    "origins": Check("where exceptions come from", origins.origins, _every, databases.operators),
    "mixed_devices": Check(
        "tensors on different devices",
        mixed_devices.mixed_devices,
        _bad_arguments,
        _with_arguments,
        sampled=True,
    ),
    "second_device": Check(
        "all arguments on a device that is not current",
        second_device.second_device,
        _in_the_usual_dtype,
        databases.operators,
        sampled=True,
        devices=2,
    ),
    "dtypes": Check("dtypes an operator does not list", dtypes.dtypes, _unlisted, databases.operators),
    "versions": Check("what counts as modified", versions.versions, _written, databases.written),
    "fake": Check("fake tensors predict the results", fake.fake, _forward, databases.operators),
    "compiled": Check(
        "torch.compile with the device's backend",
        compiled.compiled,
        _in_the_usual_dtype,
        databases.operators,
        costly=True,
    ),
    "fused": Check(
        "torch.compile with fused kernels", compiled.fused, _in_the_usual_dtype, databases.operators, costly=True
    ),
    "module": Check("nn modules", modules.module, _modules, databases.modules),
    "module_forward_ad": Check(
        "tangents of nn modules", modules.module_forward_ad, _floating_modules, databases.modules
    ),
    "module_errors": Check("exceptions of nn modules", modules.module_errors, _module_errors, databases.modules),
    "optimizer": Check("optimizers", optimizers.optimizer, _optimizers, databases.optimizers),
    "optimizer_errors": Check(
        "exceptions of optimizers", optimizers.optimizer_errors, _optimizer_errors, databases.optimizers
    ),
}


def _chosen(check: str, entry: str, known: Iterable[torch.dtype], profile: Profile, seed: int) -> list[torch.dtype]:
    """The dtypes that a profile takes: the most usual one first, then others by the seed."""
    ordered = sorted(known, key=databases.usual_first)
    count = profile.dtypes(check)
    if not count or len(ordered) <= count:
        return ordered
    return [ordered[0], *random.Random(f"{seed} {check} {entry}").sample(ordered[1:], count - 1)]


def list_cases(checks: Iterable[str], profile: Profile, seed: int) -> tuple[list[Case], list[tuple[str, str]]]:
    """The cases of a run, and the entries that have no dtype on the CPU and therefore no case."""
    cases, without = [], []
    for check in checks:
        entries = list(CHECKS[check].entries())
        most = profile.most_entries(costly=CHECKS[check].costly, sampled=CHECKS[check].sampled)
        if most:
            entries = random.Random(f"{seed} {check}").sample(entries, min(most, len(entries)))
        for entry, known in entries:
            if known is None:
                cases.append(Case(check, entry, NO_DTYPE))
                continue
            chosen = _chosen(check, entry, known, profile, seed)
            cases += [Case(check, entry, databases.dtype_name(dtype)) for dtype in chosen]
            if not chosen and check == "forward":
                without.append((check, entry))
    return cases, without
