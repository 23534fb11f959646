from __future__ import annotations
import collections.abc
import torch
import typing
__all__: list[str] = ['aclnn_executors', 'aclnn_library', 'checked_operators', 'clear_aclnn_executors', 'close_budget', 'cuda_operators', 'fallback_mode', 'fallbacks', 'force_fallback', 'forced_fallbacks', 'host_accessible', 'initialize', 'kernel_images', 'learned_operators', 'ledger_seconds', 'lists_run_together', 'native', 'open_budget', 'placements', 'release_fallback', 'reset_fallbacks', 'set_fallback_mode', 'set_kernel_folder', 'set_sync_debug_mode', 'sync_debug_mode', 'team_starts', 'tried_attention', 'tried_products', 'waiting_operators']
def _connect() -> None:
    ...
def _note_callers(offsets: tuple[int, int, int, int, int], finder: collections.abc.Callable[[list[tuple[int, int]]], str]) -> None:
    """
    Launches note their place in Python from now on; finder(frames) names it when one has failed.
    """
def _place(wanted: collections.abc.Sequence[torch.Tensor], make: collections.abc.Callable[[], collections.abc.Sequence[torch.Tensor]]) -> None:
    """
    A placement itself, for tests: what `make` returns comes to lie in the wanted CPU tensors, in their order.
    """
def _set_origin_finder(finder: collections.abc.Callable[[], tuple[str, list[str]]]) -> None:
    """
    finder() -> (place, stack) tells where Python is, on the thread that asks.
    """
def _set_warning_teller(teller: collections.abc.Callable[[list[tuple[str, bool, list[tuple[int, int]], int]], int], tuple[BaseException | None, list[int]]]) -> None:
    """
    teller(warnings, dropped) gives Python what kernels warned of, as tb_ops._late_warnings.tell does.
    """
def _sgemm(left: torch.Tensor, right: torch.Tensor, out: torch.Tensor, add: bool) -> bool:
    """
    The kernel of float matrix products itself, for tests: out = left right or, with `add`, out += left right, of CPU matrices, or batches of them, whose rows or columns are dense. False: this processor has no AVX-512.
    """
def aclnn_executors() -> tuple[int, int, int, int, int]:
    """
    Calls that used an executor again, those that found none, executors dropped for want of room, kept now, room.
    """
def aclnn_library() -> tuple[str, str, int, list[str]]:
    """
    The library of operators in two phases ("": none), why there is none, how many operators of PyTorch it runs, and those whose function it lacks.
    """
def checked_operators() -> list[tuple[str, str]]:
    """
    (operator, when) of native operators that check on the host and wait for that; in all calls where it is empty.
    """
def clear_aclnn_executors() -> None:
    """
    Destroys the executors that are kept.
    """
def close_budget(number: int) -> str:
    """
    The first refusal's text; empty when there was none.
    """
def cuda_operators() -> tuple[bool, str, int, int]:
    """
    Whether PyTorch's own CUDA kernels run the operators, why not ("": they do), and how many new results, of how many bytes in all, were copied from memory of its allocator.
    """
def fallback_mode() -> str:
    ...
def fallbacks() -> list[tuple[str, int, float, int, int, str, tuple[str, ...]]]:
    """
    (operator, calls, seconds, bytes, forced calls, first place, first stack), most time first.
    """
def force_fallback(name: str, overload: str) -> None:
    """
    The CPU runs the operator until released.
    """
def forced_fallbacks() -> list[str]:
    """
    The operators that are forced now.
    """
def host_accessible() -> bool:
    """
    True when the host may touch the device's memory: fallbacks then work in place, without copies.
    """
def initialize() -> None:
    """
    Opens the driver and registers the kernels that fit it. Once; cheap after that.
    """
def kernel_images() -> tuple[int, int, str]:
    """
    Device kernels that this process compiled, those that it found in the cache, and the cache's folder.
    """
def learned_operators() -> list[str]:
    """
    Native operators that wait at the first call with new shapes.
    """
def ledger_seconds() -> float:
    """
    Seconds since the ledger was last empty by reset or start.
    """
def lists_run_together() -> int:
    """
    Operations on lists (_foreach_*) so far that a queue's worker ran piece by piece together with the one before them.
    """
def native() -> bool:
    """
    True when the driver runs the native kernels, False when every operator goes through the fallback.
    """
def open_budget(calls: int) -> int:
    """
    Allows that many fallbacks until it is closed; its number.
    """
def placements() -> tuple[int, int]:
    """
    Bytes of results so far that CPU operators made in the memory of tb's own, and bytes that had to be copied there from elsewhere.
    """
def release_fallback(name: str, overload: str) -> None:
    """
    Undoes one force_fallback.
    """
def reset_fallbacks() -> None:
    """
    Empties the ledger.
    """
def set_fallback_mode(mode: str) -> None:
    """
    allow, warn (once per operator) or error.
    """
def set_kernel_folder(folder: str) -> None:
    """
    Where the sources of device kernels are installed; before the first of them runs.
    """
def set_sync_debug_mode(mode: int) -> None:
    """
    0: nothing, 1: warn when an operator waits for the device, 2: raise instead.
    """
def sync_debug_mode() -> int:
    """
    What set_sync_debug_mode() set last: 0, 1 or 2.
    """
def team_starts() -> tuple[int, int]:
    """
    OpenMP teams so far of which some threads were new, and how many of these began on the processor of the thread that made them and had to leave it. Those of the queues' workers; not what PyTorch starts for CPU tensors.
    """
def tried_attention() -> list[tuple[int, int, int, int, int, bool, bool, bool]]:
    """
    Sizes of float attention that came up often enough to be tried: batch, heads, queries, keys, size of a head, whether it is causal, whether it is the backward pass; and whether tb-ops' kernel computes it, which it does where it was faster than PyTorch's and had its bits.
    """
def tried_products() -> list[tuple[int, int, int, int, bool, bool, int, bool]]:
    """
    Sizes of float matrix products that came up often enough to be tried: products in a batch (0: one of its own), rows, columns, terms of a sum, whether the left and the right factor are transposed in memory, threads; and whether tb-ops' kernel makes them, which it does where it was faster than the BLAS and had its bits.
    """
def waiting_operators() -> list[tuple[str, str]]:
    """
    (operator, reason) of native kernels that wait for the device.
    """
_tb_export: typing.Any
