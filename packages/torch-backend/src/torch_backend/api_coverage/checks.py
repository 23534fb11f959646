"""The checks of a run and the names that each takes."""

from __future__ import annotations

import functools
from typing import Any

import torch

from torch_backend.api_coverage import operators, programs, ranks
from torch_backend.api_coverage.names import concerns_no_device, of_another_library, public_names
from torch_backend.conformance import databases
from torch_backend.conformance.case import NO_DTYPE, Case
from torch_backend.conformance.checks import Check, modules, optimizers

GRADIENTS = "gradients"


@functools.cache
def evidence() -> dict[str, dict[str, Any]]:
    """What is run, by check and name. A program comes before what the databases have; no name is in two checks.

    The check of gradients is besides: it has those names of `results` that have some.
    """
    modules_of = {info.module_cls: info for info in databases.modules().values()}
    optimizers_of = {info.optim_cls: info for info in databases.optimizers().values()}
    found: dict[str, dict[str, Any]] = {check: {} for check in CHECKS}
    for path, value in public_names().items():
        if shown := programs.programs().get(path):
            found["ranks" if shown.kind == programs.RANKS else "program"][path] = shown
        elif isinstance(value, type):
            if value in modules_of:
                found["module"][path] = modules_of[value]
            elif value in optimizers_of:
                found["optimizer"][path] = optimizers_of[value]
        elif of_another_library(path) or concerns_no_device(path, value):
            continue
        elif called := operators.calls(path, value):
            found["results"][path] = called
            if any(variant.dtype_of_gradients() for variant in called.variants):
                found[GRADIENTS][path] = called
    return found


def cases() -> list[Case]:
    """Every name with each of its checks; those of one check follow one another, in the order of the names."""
    return [Case(check, path, NO_DTYPE) for check, entries in evidence().items() for path in entries]


def _check(summary: str, name: str, run: Any) -> Check:
    return Check(summary, run, lambda: ((path, None) for path in evidence()[name]), lambda: evidence()[name])


def _module(device: Any, info: Any, dtype: torch.dtype, limits: Any) -> Any:
    return modules.module(device, info, min(info.dtypes, key=databases.usual_first), limits)


CHECKS: dict[str, Check] = {
    "results": _check("results of functions and methods", "results", operators.results),
    GRADIENTS: _check("gradients of functions and methods", GRADIENTS, operators.gradients),
    "module": _check("results and gradients of modules", "module", _module),
    "optimizer": _check("steps of optimizers", "optimizer", optimizers.optimizer),
    "program": _check("programs for other names", "program", programs.program),
    "ranks": _check("programs in two processes", "ranks", ranks.ranks),
}
