"""Memory of any tb driver: a stream-ordered caching allocator, pinned host memory, statistics under PyTorch's names."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ._core import (
    Arena,
    Buffer,
    Plan,
    _connect,
    _connect_streams,
    empty,
    empty_cache,
    empty_host_cache,
    host_memory_stats,
    mem_get_info,
    memory_stats,
    pinned,
    plan,
    record_memory_history,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
    set_memory_limit,
)
from .snapshot import dump_rmm_log, dump_snapshot, dump_trace, host_memory_snapshot, memory_snapshot
from .statistics import (
    max_memory_allocated,
    max_memory_reserved,
    memory_allocated,
    memory_reserved,
    memory_summary,
    set_per_process_memory_fraction,
)

if TYPE_CHECKING:
    from .cupy import allocator as cupy_allocator
    from .cupy import pinned_allocator as cupy_pinned_allocator
    from .device_buffer import DeviceBuffer
    from .recording import Recorder

_connect()
if find_spec("tb_stream"):
    _connect_streams()


def record(step: Callable[[], object], *, iterations: int = 1, device_type: str | None = None) -> str:
    """The trace of a PyTorch program's step; see tb_allocator.recording, which this imports, and torch with it."""
    from . import recording

    return recording.record(step, iterations=iterations, device_type=device_type)


def get_include() -> str:
    """The folder of tb/memory_resource.h, to give the compiler with -I beside tb_device.get_include().

    Raises FileNotFoundError if the installation is incomplete.
    """
    package = os.path.dirname(os.path.realpath(__file__))
    for folder in (
        os.path.join(package, "include"),
        os.path.join(package, "..", "..", "include"),
    ):  # installed, editable
        if os.path.isfile(os.path.join(folder, "tb", "memory_resource.h")):
            return os.path.normpath(folder)
    raise FileNotFoundError(f"tb/memory_resource.h is missing beside {package}: reinstall tb-allocator")


# What is loaded when it is first used, by the module that has it; some need another library.
_LATER = {
    "DeviceBuffer": ("device_buffer", "DeviceBuffer"),
    "Recorder": ("recording", "Recorder"),
    "cupy_allocator": ("cupy", "allocator"),
    "cupy_pinned_allocator": ("cupy", "pinned_allocator"),
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'tb_allocator' has no attribute {name!r}")
    module, attribute = _LATER[name]
    return getattr(import_module(f"tb_allocator.{module}"), attribute)


__all__ = [
    "Arena",
    "Buffer",
    "DeviceBuffer",
    "Plan",
    "Recorder",
    "cupy_allocator",
    "cupy_pinned_allocator",
    "dump_rmm_log",
    "dump_snapshot",
    "dump_trace",
    "empty",
    "empty_cache",
    "empty_host_cache",
    "get_include",
    "host_memory_snapshot",
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
    "plan",
    "record",
    "record_memory_history",
    "reset_accumulated_memory_stats",
    "reset_peak_memory_stats",
    "set_memory_limit",
    "set_per_process_memory_fraction",
]
