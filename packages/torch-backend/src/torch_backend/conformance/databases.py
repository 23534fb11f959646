"""PyTorch's operator, module and optimizer databases in the torch wheel, by entry name."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import torch

# What the databases import besides torch. scipy only adds NumPy-style references, which this suite does not use, since
# the CPU is its reference; the databases have the same entries with and without scipy.
REQUIREMENTS = ("expecttest", "numpy")

# The dtypes of the databases; those that an entry does not list are what the check `dtypes` tries.
DTYPES = [
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128),
    *(torch.complex32, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
]


class DatabaseMissing(RuntimeError):
    """A database cannot be imported; the text says what to install."""


def _attribute(module: str, name: str) -> Any:
    try:
        return getattr(importlib.import_module(f"torch.testing._internal.{module}"), name)
    except ModuleNotFoundError as error:
        raise DatabaseMissing(
            f"the conformance suite needs torch.testing._internal.{module}, which imports the missing module "
            f"{error.name!r}: pip install {' '.join(REQUIREMENTS)}"
        ) from error


def _unseeded(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


@functools.cache
def operators() -> dict[str, Any]:
    """op_db by full name, as in "linalg.svd" or "std_mean.unbiased".

    The database calls its random operators through a wrapper that sets a seed each time, which hides that they are
    random. Without it they draw from the generator that the caller seeded.
    """
    found = _attribute("common_methods_invocations", "op_db")
    namespace = importlib.import_module("torch.testing._internal.common_methods_invocations")
    wrapper = _attribute("common_methods_invocations", "wrapper_set_seed")
    namespace.wrapper_set_seed = _unseeded  # type: ignore[attr-defined]
    for op in found:
        if op.gradcheck_wrapper is wrapper:
            op.gradcheck_wrapper = _unseeded
    return {op.full_name: op for op in found}


@functools.cache
def list_operators() -> dict[str, Any]:
    """The databases of operators on lists of tensors by name, as in "_foreach_add"."""
    kinds = ("unary", "binary", "pointwise", "reduce", "other")
    found = [_attribute("common_methods_invocations", f"foreach_{kind}_op_db") for kind in kinds]
    return {op.full_name: op for database in found for op in database}


@functools.cache
def modules() -> dict[str, Any]:
    """module_db by name, as in "nn.Linear"."""
    return {info.name: info for info in _attribute("common_modules", "module_db")}


@functools.cache
def optimizers() -> dict[str, Any]:
    """optim_db by name, as in "AdamW"."""
    return {info.name: info for info in _attribute("common_optimizers", "optim_db")}


@functools.cache
def written() -> dict[str, Any]:
    """All entries with variants that write to their arguments: operators, those on lists, optimizers."""
    return operators() | list_operators() | optimizers()


def usual_first(dtype: torch.dtype) -> tuple[int, str]:
    """A sort key: the dtypes in the order of DTYPES, then those that few operators support (float8, unsigned)."""
    return (DTYPES.index(dtype) if dtype in DTYPES else len(DTYPES), str(dtype))


def dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def dtype_of(name: str) -> torch.dtype:
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"{name!r} is no dtype of torch")
    return dtype
