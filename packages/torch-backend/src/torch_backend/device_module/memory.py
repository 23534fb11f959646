"""torch.tb: memory of the caching allocator. Sizes are bytes; a device is given as everywhere, None for the current."""

from collections.abc import Callable
from typing import Any

import torch

from torch_backend import _state
from torch_backend.device_module.devices import Device, device_index, get_device_properties


def memory_stats(device: Device = None) -> dict[str, Any]:
    """The allocator's statistics, flat, under PyTorch's names: "allocated_bytes.all.peak" and so on."""
    number = device_index(device)
    return dict(torch.accelerator.memory_stats(number))


def memory_allocated(device: Device = None) -> int:
    """Bytes in live tensors."""
    return int(memory_stats(device)["allocated_bytes.all.current"])


def max_memory_allocated(device: Device = None) -> int:
    """The most bytes in live tensors since the start or the last reset_peak_memory_stats."""
    return int(memory_stats(device)["allocated_bytes.all.peak"])


def memory_reserved(device: Device = None) -> int:
    """Bytes taken from the driver, in use or cached."""
    return int(memory_stats(device)["reserved_bytes.all.current"])


def max_memory_reserved(device: Device = None) -> int:
    """The most bytes taken from the driver since the start or the last reset_peak_memory_stats."""
    return int(memory_stats(device)["reserved_bytes.all.peak"])


def mem_get_info(device: Device = None) -> tuple[int, int]:
    """(free, total) bytes of the device, as the driver sees it."""
    free, total = torch.accelerator.get_memory_info(device_index(device))
    return free, total


def empty_cache() -> None:
    """Gives cached, unused memory of all devices back to the driver. A no-op before the first use of tb."""
    if _state.is_initialized():
        from torch_backend import _core

        _core.empty_cache(-1)


def empty_host_cache() -> None:
    """Gives cached, unused pinned memory back. A no-op before the first use of tb."""
    if _state.is_initialized():
        torch.accelerator.empty_host_cache()


def host_memory_stats() -> dict[str, int]:
    """Statistics of the pinned memory under torch.cuda's names: "active_bytes.current" and so on."""
    _state.initialize()
    from torch_backend import _core

    return _core.host_statistics()


def reset_peak_memory_stats(device: Device = None) -> None:
    """The peaks start again at the current values."""
    torch.accelerator.reset_peak_memory_stats(device_index(device))


def reset_accumulated_memory_stats(device: Device = None) -> None:
    """The sums over time ("allocated", "freed", counts of events) start again at 0."""
    torch.accelerator.reset_accumulated_memory_stats(device_index(device))


def set_per_process_memory_fraction(fraction: float, device: Device = None) -> None:
    """Limits what the allocator takes from the device to a fraction (0 to 1) of its memory; beyond it is out of memory.

    1 removes the limit. ValueError: not within 0 to 1.
    """
    if not 0 <= fraction <= 1:
        raise ValueError(f"expected a fraction from 0 to 1, but got {fraction}")
    number = device_index(device)
    limit = 2**64 - 1 if fraction == 1 else int(get_device_properties(number).total_memory * fraction)
    from torch_backend import _core

    _core.set_memory_limit(number, limit)


def memory_summary(device: Device = None, abbreviated: bool = False) -> str:
    """The statistics as a table to read. abbreviated: without the small and large pools."""
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
