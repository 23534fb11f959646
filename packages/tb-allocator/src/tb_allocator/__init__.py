"""Memory of any tb driver: a stream-ordered caching allocator, pinned host memory, statistics under PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ._core import (
    Arena,
    Buffer,
    _connect,
    _connect_streams,
    empty,
    empty_cache,
    empty_host_cache,
    host_memory_stats,
    mem_get_info,
    memory_stats,
    pinned,
    record_memory_history,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
    set_memory_limit,
)
from .snapshot import dump_rmm_log, dump_snapshot, dump_trace, memory_snapshot
from .statistics import (
    max_memory_allocated,
    max_memory_reserved,
    memory_allocated,
    memory_reserved,
    memory_summary,
    set_per_process_memory_fraction,
)

if TYPE_CHECKING:
    from .recording import Recorder

_connect()
if find_spec("tb_stream"):
    _connect_streams()


def record(step: Callable[[], object], *, iterations: int = 1, device_type: str | None = None) -> str:
    """The trace of a PyTorch program's step; see tb_allocator.recording, which this imports, and torch with it."""
    from . import recording

    return recording.record(step, iterations=iterations, device_type=device_type)


def __getattr__(name: str) -> Any:
    if name == "Recorder":  # a class of torch's
        from .recording import Recorder

        return Recorder
    raise AttributeError(f"module 'tb_allocator' has no attribute {name!r}")


__all__ = [
    "Arena",
    "Buffer",
    "Recorder",
    "dump_rmm_log",
    "dump_snapshot",
    "dump_trace",
    "empty",
    "empty_cache",
    "empty_host_cache",
    "host_memory_stats",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_summary",
    "pinned",
    "record",
    "record_memory_history",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "set_memory_limit",
    "set_per_process_memory_fraction",
]
