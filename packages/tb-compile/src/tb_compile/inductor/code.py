"""Compiles the kernels that Inductor generates, for streams. The generated Python code calls these functions."""

from __future__ import annotations

import ctypes
import functools
import os
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

import torch
from torch._inductor.async_compile import get_compile_threads
from torch._inductor.codecache import CppCodeCache, LambdaFuture

from .._core import GeneratedKernel, HostKernel
from ..graphed import GraphedFunction
from ..record import CompiledGraph, Pass, note


class _Library(CppCodeCache):
    """Shared libraries of kernels, without PyTorch's headers and without Python's."""

    cache: ClassVar[dict[str, Any]] = {}  # type: ignore[misc]
    cpp_compile_command_flags: ClassVar[dict[str, Any]] = {"include_pytorch": False, "shared": True}  # type: ignore[misc]


def _kind(declared: str) -> str:
    """The kind of an argument of a kernel, which is declared as "const float*" or "const int64_t"."""
    if "*" in declared:
        return "pointer"
    return "float" if re.search(r"\b(float|double)\b", declared) else "integer"


def _entry(types: Sequence[str]) -> str:
    """C++ code of a function that reads a kernel's arguments from the queue and calls it."""
    taken = []
    for i, declared in enumerate(types):
        if _kind(declared) == "pointer":
            taken.append(f"static_cast<{declared}>(a[{i}])")
        elif _kind(declared) == "float":
            taken.append(f"static_cast<{declared}>(*reinterpret_cast<double *>(&a[{i}]))")
        else:
            taken.append(f"static_cast<{declared}>(*reinterpret_cast<int64_t *>(&a[{i}]))")
    return f'\nextern "C" void tb_entry(void **a) {{ kernel({", ".join(taken)}); }}\n'


def kernel(async_compile: Any, name: str, types: list[str], source: str) -> Any:
    """A HostKernel of this source, or a future of it."""
    alone = get_compile_threads() <= 1
    load: Callable[[], Any] = _Library.load_async(
        source + _entry(types), "cpu", submit_fn=None if alone else async_compile.submit
    )

    @functools.cache
    def result() -> HostKernel:
        entry = ctypes.cast(load().tb_entry, ctypes.c_void_p).value
        assert entry is not None
        return HostKernel(entry, name, [_kind(declared) for declared in types])

    return result() if alone else LambdaFuture(result)


@functools.cache
def _compilers(process: int) -> ThreadPoolExecutor:
    """Threads that wait for compilers. A forked process has none of its parent's."""
    return ThreadPoolExecutor(get_compile_threads(), "tb-compile")


def generated(
    device: int, function: str, arguments: str, types: Sequence[str], synchronizing: bool, source: str
) -> Any:
    """A GeneratedKernel of this source that is loaded on a device, or a future of it."""
    kernel = GeneratedKernel(function, source, arguments, list(types), synchronizing)
    if get_compile_threads() <= 1:
        kernel.load(device)
        return kernel
    loading = _compilers(os.getpid()).submit(kernel.load, device)

    def result() -> GeneratedKernel:
        loading.result()
        return kernel

    return LambdaFuture(result)


def on_device(tensor: torch.Tensor, index: int) -> torch.Tensor:
    """A copy of a CPU tensor that a kernel reads, made in stream order."""
    return tensor.to(torch.device("tb", index))


def empty_strided(shape: Sequence[int], strides: Sequence[int], dtype: torch.dtype, index: int) -> torch.Tensor:
    """New memory of a device."""
    return torch.empty_strided(shape, strides, dtype=dtype, device=torch.device("tb", index))


def loaded(
    call: Callable[[list[Any]], Any],
    which: Pass,
    kernels: int,
    with_graphs: bool,
    numbers: Sequence[int],
    written: Sequence[int],
) -> Callable[[list[Any]], Any]:
    """Records a compiled graph for graphs() and returns its function; with_graphs: as device graphs.

    kernels: the number of generated kernels. numbers, written: the indices of the inputs that are numbers, and of those
    that the function writes to.
    """
    graphed = GraphedFunction(call, numbers, written) if with_graphs else None
    note(CompiledGraph(which, kernels=kernels, graphed=graphed))
    return graphed or call
