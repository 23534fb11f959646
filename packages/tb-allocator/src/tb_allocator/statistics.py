"""Single figures out of memory_stats(), and the table of all of them; names and meaning as in torch.cuda."""

from ._core import _bytes_text, mem_get_info, memory_stats, set_memory_limit


def memory_allocated(device: int | None = None) -> int:
    """Bytes in use now on a device, by default the current one."""
    return memory_stats(device)["allocated_bytes.all.current"]


def max_memory_allocated(device: int | None = None) -> int:
    """The most bytes in use at one time since the start or reset_peak_memory_stats()."""
    return memory_stats(device)["allocated_bytes.all.peak"]


def memory_reserved(device: int | None = None) -> int:
    """Bytes reserved from the driver now, in use or cached."""
    return memory_stats(device)["reserved_bytes.all.current"]


def max_memory_reserved(device: int | None = None) -> int:
    """The most bytes reserved from the driver at one time since the start or reset_peak_memory_stats()."""
    return memory_stats(device)["reserved_bytes.all.peak"]


def set_per_process_memory_fraction(fraction: float, device: int | None = None) -> None:
    """Limit reserved memory to a part of the device's total memory. ValueError unless 0 <= fraction <= 1."""
    if not 0 <= fraction <= 1:
        raise ValueError(f"fraction is {fraction}: use a number from 0 to 1")
    set_memory_limit(int(fraction * mem_get_info(device)[1]), device)


_ROWS = (
    ("Allocated memory", "allocated_bytes", True),
    ("Active memory", "active_bytes", True),
    ("Requested memory", "requested_bytes", True),
    ("Reserved memory", "reserved_bytes", True),
    ("Split, not in use", "inactive_split_bytes", True),
    ("Allocations", "allocation", False),
    ("Active blocks", "active", False),
    ("Segments", "segment", False),
    ("Split blocks, free", "inactive_split", False),
)
_COLUMNS = ("current", "peak", "allocated", "freed")


def memory_summary(device: int | None = None) -> str:
    """A text table of memory_stats() for people: for each count its current value, peak, and sums up and down."""
    stats = memory_stats(device)
    lines = [
        f"Out of memory: {stats['num_ooms']}   retries: {stats['num_alloc_retries']}   driver allocations: "
        f"{stats['num_device_alloc']}   waits for all streams: {stats['num_sync_all_streams']}",
        f"{'':28}" + "".join(f"{column:>14}" for column in _COLUMNS),
    ]
    for title, name, is_size in _ROWS:
        for pool, indent in (("all", title), ("large_pool", "  large pool"), ("small_pool", "  small pool")):
            values = (stats[f"{name}.{pool}.{column}"] for column in _COLUMNS)
            cells = "".join(f"{_bytes_text(value) if is_size else value:>14}" for value in values)
            lines.append(f"{indent:28}{cells}")
    return "\n".join(lines)
