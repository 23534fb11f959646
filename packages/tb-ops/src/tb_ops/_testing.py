"""Hooks for tests and benchmarks: single kernels, and counts of internal events. This is no public interface."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import _core

_hooks: Any = importlib.import_module(f"{_core.__name__}._testing")
# The single microkernels: attention_forward, attention_backward, lstm_forward, lstm_backward, max_pool, sgemm. Their
# docstrings describe their arguments.
microkernels = _hooks


def sgemm(left: torch.Tensor, right: torch.Tensor, out: torch.Tensor, add: bool) -> bool:
    """Runs the float GEMM microkernel itself: out = left right or, with `add`, out += left right.

    Arguments:
        left: a CPU matrix, or a batch of them, whose rows or columns are dense.
        right: likewise.
        out: rows by columns, or a contiguous batch.

    Returns:
        False if this processor has no AVX-512; nothing is computed then.

    Raises:
        RuntimeError: other tensors, or sizes that do not fit.
    """
    computed: bool = _hooks.sgemm(left, right, out, add)
    return computed


def tried_gemms() -> list[tuple[int, int, int, int, bool, bool, int, bool]]:
    """Shapes of float GEMMs that were computed often enough to be tried.

    Each is (GEMMs in a batch, or 0 for a single one; rows; columns; terms of a sum; whether the left and the right
    operand are transposed in memory; threads; whether the microkernel computes the shape, as it was bit-identical to
    the BLAS and faster).
    """
    return list(_hooks.tried_gemms())


def tried_attention() -> list[tuple[int, int, int, int, int, bool, bool, bool]]:
    """Sizes of float attention that were computed often enough to be tried.

    Each is (batch, heads, queries, keys, size of a head, whether it is causal, whether it is the backward pass, whether
    tb-ops' kernel computes the size, as it was bit-identical to PyTorch's and faster).
    """
    return list(_hooks.tried_attention())


def donate(donated: Sequence[torch.Tensor], make: Callable[[], Sequence[torch.Tensor]]) -> None:
    """Runs an output donation: stores the results of `make` in the donated CPU tensors, in their order."""
    _hooks.donate(donated, make)


def donated_bytes() -> tuple[int, int]:
    """Bytes of results so far that CPU operators allocated in donated memory, and bytes that had to be copied there."""
    allocated, copied = _hooks.donated_bytes()
    return allocated, copied


def thread_starts() -> tuple[int, int]:
    """How often OpenMP made new threads for a worker so far, and how many of them had to move to another processor.

    A new thread may begin on the processor of the thread that made it. Threads that PyTorch starts for CPU tensors do
    not count.
    """
    starts, moved = _hooks.thread_starts()
    return starts, moved


def fused_list_operations() -> int:
    """Operations on lists (_foreach_*) so far that a worker ran piece by piece together with the one before them."""
    count: int = _hooks.fused_list_operations()
    return count


def clear_aclnn_executors() -> None:
    """Destroys the executors of the vendor's library that are kept to be used again."""
    _hooks.clear_aclnn_executors()
