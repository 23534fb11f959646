"""Memory of any tb driver: a stream-ordered caching allocator, pinned host memory, statistics under PyTorch's names."""

from importlib.util import find_spec

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

_connect()
if find_spec("tb_stream"):
    _connect_streams()

__all__ = [
    "Arena",
    "Buffer",
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
    "record_memory_history",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "set_memory_limit",
    "set_per_process_memory_fraction",
]
