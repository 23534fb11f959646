"""torch.tb: memory of the caching allocator, with the names of torch.cuda. Sizes are bytes."""

from collections.abc import Callable
from typing import Any

import torch

from torch_backend import _state
from torch_backend.device_module.devices import Device, device_index, get_device_properties
from torch_backend.device_module.snapshots import _dump_snapshot as _dump_snapshot
from torch_backend.device_module.snapshots import _record_memory_history as _record_memory_history
from torch_backend.device_module.snapshots import _snapshot as _snapshot
from torch_backend.device_module.snapshots import memory_snapshot as memory_snapshot

_fractions: dict[int, float] = {}  # of the devices that have a limit


def memory_stats(device: Device = None) -> dict[str, Any]:
    """The allocator's statistics as a flat dict with PyTorch's names, such as "allocated_bytes.all.peak"."""
    number = device_index(device)
    return dict(torch.accelerator.memory_stats(number))


def memory_stats_as_nested_dict(device: Device = None) -> dict[str, Any]:
    """memory_stats() with a dict for each part of its names: {"allocated_bytes": {"all": {"peak": ...}}}."""
    return _nested(memory_stats(device))


def _nested(flat: dict[str, Any]) -> dict[str, Any]:
    nested: dict[str, Any] = {}
    for name, value in flat.items():
        *groups, last = name.split(".")
        place = nested
        for group in groups:
            place = place.setdefault(group, {})
        place[last] = value
    return nested


def memory_allocated(device: Device = None) -> int:
    """Bytes of memory that tensors use."""
    return int(memory_stats(device)["allocated_bytes.all.current"])


def max_memory_allocated(device: Device = None) -> int:
    """The most bytes that tensors used since the start or the last reset_peak_memory_stats()."""
    return int(memory_stats(device)["allocated_bytes.all.peak"])


def memory_reserved(device: Device = None) -> int:
    """Bytes that the allocator took from the driver, used or cached."""
    return int(memory_stats(device)["reserved_bytes.all.current"])


def max_memory_reserved(device: Device = None) -> int:
    """The most bytes that the allocator took from the driver since the start or the last reset_peak_memory_stats()."""
    return int(memory_stats(device)["reserved_bytes.all.peak"])


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """Bytes of the device's memory, (free, total), as the driver reports them."""
    free, total = torch.accelerator.get_memory_info(device_index(device))
    return free, total


def device_memory_used(device: Device = None) -> int:
    """Bytes of the device's memory that are in use, by this process and others, as the driver reports them."""
    free, total = mem_get_info(device)
    return total - free


def empty_cache() -> None:
    """Returns cached, unused memory of all devices to the driver. No effect before the first use of tb."""
    if _state.is_initialized():
        from torch_backend import _core

        _core.empty_cache(-1)


def empty_host_cache() -> None:
    """Returns cached, unused pinned memory to the driver. No effect before the first use of tb."""
    if _state.is_initialized():
        torch.accelerator.empty_host_cache()


def host_memory_stats() -> dict[str, int]:
    """Statistics of pinned memory with the names of torch.cuda.host_memory_stats, such as "active_bytes.current"."""
    _state.initialize()
    from torch_backend import _core

    return _core.host_statistics()


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """host_memory_stats() with a dict for each part of its names: {"active_bytes": {"current": ...}}."""
    return _nested(host_memory_stats())


def reset_peak_memory_stats(device: Device = None) -> None:
    """Sets the peaks of the statistics to the current values."""
    torch.accelerator.reset_peak_memory_stats(device_index(device))


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """Sets the sums over time ("allocated", "freed", counts of events) to 0."""
    torch.accelerator.reset_accumulated_memory_stats(device_index(device))


def set_per_process_memory_fraction(fraction: float, device: Device = None) -> None:
    """Limits the memory that the allocator takes from the device to a fraction of the total.

    fraction: 0 to 1; 1 removes the limit. Allocations beyond it raise torch.OutOfMemoryError. ValueError: another
    fraction.
    """
    if not 0 <= fraction <= 1:
        raise ValueError(f"expected a fraction from 0 to 1, but got {fraction}")
    number = device_index(device)
    limit = 2**64 - 1 if fraction == 1 else int(get_device_properties(number).total_memory * fraction)
    from torch_backend import _core

    _core.set_memory_limit(number, limit)
    _fractions[number] = fraction


def get_per_process_memory_fraction(device: Device = None) -> float:
    """The fraction that set_per_process_memory_fraction() set; 1 if none. Other limits of tb-allocator do not show."""
    number = device_index(device)
    get_device_properties(number)  # raises if there is no such device
    return _fractions.get(number, 1.0)


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """The statistics as a table. abbreviated: without the rows of the small and large pools."""
    number = device_index(device)
    stats = memory_stats(number)
    pools = ["all"] if abbreviated else ["all", "large_pool", "small_pool"]
    lines = [
        f"tb:{number} memory    out of memory: {stats['num_ooms']}    driver retries: {stats['num_alloc_retries']}",
        f"{'':28}{'current':>12}{'peak':>12}{'allocated':>12}{'freed':>12}",
    ]
    for key, title, show in _SUMMARY:
        for pool in pools:
            label = title if pool == "all" else f"  {pool.replace('_', ' ')}"
            values = [show(stats[f"{key}.{pool}.{value}"]) for value in ("current", "peak", "allocated", "freed")]
            lines.append(f"{label:28}" + "".join(f"{value:>12}" for value in values))
    return "\n".join(lines)


def _bytes(value: int) -> str:
    size = float(value)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 10240:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.0f} TiB"


_SUMMARY: list[tuple[str, str, Callable[[int], str]]] = [
    ("allocated_bytes", "allocated memory", _bytes),
    ("active_bytes", "active memory", _bytes),
    ("requested_bytes", "requested memory", _bytes),
    ("reserved_bytes", "reserved memory", _bytes),
    ("inactive_split_bytes", "not releasable memory", _bytes),
    ("allocation", "allocations", str),
    ("active", "active allocations", str),
    ("segment", "reserved segments", str),
    ("inactive_split", "not releasable blocks", str),
]
