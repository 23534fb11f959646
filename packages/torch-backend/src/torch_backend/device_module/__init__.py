"""torch.tb: the device module, with the names and meanings of torch.cuda and torch.xpu.

Importing it uses no device. Functions that need one initialize it first, and raise RuntimeError with the reason if that
is not possible; `is_available()`, `device_count()`, `is_initialized()` and the seeds never raise.

A `Device` in the signatures is a torch.device, a text such as "tb:1", a number, or None for the current device of this
thread. ValueError: a device of another type or a negative number. RuntimeError (torch.AcceleratorError): there is no
such device. Sizes are bytes.
"""

import torch

from torch_backend import _state
from torch_backend.device_module import amp
from torch_backend.device_module.amp import get_amp_supported_dtype, is_bf16_supported
from torch_backend.device_module.compiled import compiled_graphs
from torch_backend.device_module.devices import (
    DeviceProperties,
    can_device_access_peer,
    current_device,
    device,
    device_count,
    device_of,
    get_device_capability,
    get_device_name,
    get_device_properties,
    is_available,
    set_device,
    synchronize,
)
from torch_backend.device_module.devices import _exchange_device as _exchange_device
from torch_backend.device_module.devices import _get_device_index as _get_device_index
from torch_backend.device_module.devices import _maybe_exchange_device as _maybe_exchange_device
from torch_backend.device_module.fallback import (
    fallback_budget,
    fallback_report,
    fallbacks,
    force_fallback,
    reset_fallbacks,
    set_fallback_mode,
)
from torch_backend.device_module.graphed import make_graphed_callables
from torch_backend.device_module.graphs import Graph, graph, graph_pool_handle, is_current_stream_capturing
from torch_backend.device_module.memory import (
    device_memory_used,
    empty_cache,
    empty_host_cache,
    get_per_process_memory_fraction,
    host_memory_stats,
    host_memory_stats_as_nested_dict,
    max_memory_allocated,
    max_memory_reserved,
    mem_get_info,
    memory_allocated,
    memory_reserved,
    memory_stats,
    memory_stats_as_nested_dict,
    memory_summary,
    reset_accumulated_memory_stats,
    reset_peak_memory_stats,
    set_per_process_memory_fraction,
)
from torch_backend.device_module.pools import MemPool, use_mem_pool
from torch_backend.device_module.random import _get_rng_state_offset as _get_rng_state_offset
from torch_backend.device_module.random import _set_rng_state_offset as _set_rng_state_offset
from torch_backend.device_module.random import (
    get_rng_state,
    get_rng_state_all,
    initial_seed,
    manual_seed,
    manual_seed_all,
    seed,
    seed_all,
    set_rng_state,
    set_rng_state_all,
)
from torch_backend.device_module.snapshots import memory_snapshot
from torch_backend.device_module.stream_sanitizer import (
    StreamRace,
    StreamUse,
    enable_stream_sanitizer,
    stream_races,
)
from torch_backend.device_module.streams import (
    Event,
    Stream,
    StreamContext,
    current_stream,
    default_stream,
    get_stream_from_external,
    set_stream,
    stream,
)
from torch_backend.device_module.sync_debug_mode import get_sync_debug_mode, set_sync_debug_mode

default_generators: tuple[torch.Generator, ...]


def init() -> None:
    """Opens the driver and registers the operators now instead of at the first use. RuntimeError: tb cannot be used."""
    _state.initialize()


def is_initialized() -> bool:
    """Whether tb has been used in this process."""
    return _state.is_initialized()


# PyTorch itself calls these names.
_lazy_init = init
_is_in_bad_fork = _state.in_bad_fork


def __getattr__(name: str) -> object:
    if name == "default_generators":
        from torch_backend.device_module.random import default_generators as generators

        return generators()
    if name == "_initialized":  # torch.utils.checkpoint reads it before it saves the state of generators
        return _state.is_initialized()
    raise AttributeError(f"module 'torch.tb' has no attribute {name!r}")


AcceleratorError = torch.AcceleratorError
"""What calls raise for a device that does not exist or does not work; PyTorch's own class."""
OutOfMemoryError = torch.OutOfMemoryError
"""What an allocation raises for which there is no memory; PyTorch's own class."""

__all__ = [
    "AcceleratorError",
    "DeviceProperties",
    "Event",
    "Graph",
    "MemPool",
    "OutOfMemoryError",
    "Stream",
    "StreamContext",
    "StreamRace",
    "StreamUse",
    "amp",
    "can_device_access_peer",
    "compiled_graphs",
    "current_device",
    "current_stream",
    "default_generators",
    "default_stream",
    "device",
    "device_count",
    "device_memory_used",
    "device_of",
    "empty_cache",
    "empty_host_cache",
    "enable_stream_sanitizer",
    "fallback_budget",
    "fallback_report",
    "fallbacks",
    "force_fallback",
    "get_amp_supported_dtype",
    "get_device_capability",
    "get_device_name",
    "get_device_properties",
    "get_per_process_memory_fraction",
    "get_rng_state",
    "get_rng_state_all",
    "get_stream_from_external",
    "get_sync_debug_mode",
    "graph",
    "graph_pool_handle",
    "host_memory_stats",
    "host_memory_stats_as_nested_dict",
    "init",
    "initial_seed",
    "is_available",
    "is_bf16_supported",
    "is_current_stream_capturing",
    "is_initialized",
    "make_graphed_callables",
    "manual_seed",
    "manual_seed_all",
    "max_memory_allocated",
    "max_memory_reserved",
    "mem_get_info",
    "memory_allocated",
    "memory_reserved",
    "memory_snapshot",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "memory_summary",
    "reset_accumulated_memory_stats",
    "reset_fallbacks",
    "reset_peak_memory_stats",
    "seed",
    "seed_all",
    "set_device",
    "set_fallback_mode",
    "set_per_process_memory_fraction",
    "set_rng_state",
    "set_rng_state_all",
    "set_stream",
    "set_sync_debug_mode",
    "stream",
    "stream_races",
    "synchronize",
    "use_mem_pool",
]
