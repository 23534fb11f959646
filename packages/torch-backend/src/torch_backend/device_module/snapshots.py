"""torch.tb: pictures of the allocator's memory, in the form that PyTorch's memory_viz page and tools read."""

from __future__ import annotations

import os
import pickle
import sys
from typing import Any

from torch_backend import _state
from torch_backend.device_module.devices import Device, device_count, device_index

_MOST_EVENTS = 1 << 20  # of each device, 48 bytes each, where the caller names no number


def memory_snapshot(mempool_id: tuple[int, int] | None = None, include_traces: bool = True) -> list[dict[str, Any]]:
    """The allocator's segments on all devices, with their blocks. Sizes are bytes. Empty before the first use of tb.

    mempool_id: the id of a torch.tb.MemPool, for its memory only. ValueError: there is no such pool. include_traces:
    has no effect, since events are in memory._snapshot() only.
    """
    if mempool_id is not None:
        from torch_backend.device_module.pools import pool_of_id

        return pool_of_id(mempool_id).snapshot()
    segments: list[dict[str, Any]] = _snapshot()["segments"]
    return segments


def _snapshot(device: Device = None, augment_with_fx_traces: bool = False) -> dict[str, Any]:
    """The segments of all devices, and the last events of each; follows torch.cuda.memory._snapshot.

    device: the segments and events of this one only. Stacks are not recorded: `frames` are empty, and
    augment_with_fx_traces has no effect.
    """
    if not _state.is_initialized():
        return {"segments": [], "device_traces": [], "allocator_settings": {}}
    import tb_allocator

    parts = {
        number: tb_allocator.memory_snapshot(number)
        for number in (range(device_count()) if device is None else [device_index(device)])
    }
    return {
        "segments": [segment for part in parts.values() for segment in part["segments"]],
        "device_traces": [
            parts[number]["device_traces"][number] if number in parts else [] for number in range(device_count())
        ],
        "allocator_settings": next(iter(parts.values()))["allocator_settings"],
    }


def _dump_snapshot(filename: str | os.PathLike[str] = "dump_snapshot.pickle", **options: Any) -> None:
    """Writes _snapshot() as a pickle, which pytorch.org/memory_viz and torch.cuda._memory_viz open."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(**options), file)


def _record_memory_history(
    enabled: str | bool | None = "all",
    context: str | None = "all",
    stacks: str = "all",
    max_entries: int = sys.maxsize,
    device: Device = None,
    **options: object,
) -> None:
    """Forgets the events of all devices and records the following ones; follows torch.cuda.memory.

    enabled: None or False records none. max_entries: how many of the last events are kept, at most 2**20 of each
    device. device: this one only. Stacks are not recorded, so context and stacks have no effect, nor have the other
    options of torch.cuda. ValueError: another value of `enabled`.
    """
    if enabled not in (None, False, True, "state", "all"):
        raise ValueError(f"enabled is {enabled!r}: use None, 'state' or 'all'")
    _state.initialize()
    import tb_allocator

    events = min(max_entries, _MOST_EVENTS) if enabled else 0
    for number in range(device_count()) if device is None else [device_index(device)]:
        tb_allocator.record_memory_history(events, number)
