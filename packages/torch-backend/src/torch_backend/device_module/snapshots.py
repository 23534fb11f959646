"""torch.tb: pictures of the allocator's memory, in the form that PyTorch's memory_viz page and tools read."""

from __future__ import annotations

import os
import pickle
import sys
from typing import Any

from torch_backend import _state
from torch_backend.device_module.devices import Device, device_count, device_index

_CONTEXTS = {None: 0, "state": 1, "alloc": 1, "all": 2}
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

    device: the segments and events of this one only. `frames` are the lines of Python, innermost first, of events after
    _record_memory_history(), and of blocks that were allocated after it; functions that are gone by now are left out.
    augment_with_fx_traces has no effect.
    """
    if not _state.is_initialized():
        return {"segments": [], "device_traces": [], "allocator_settings": {}}
    import tb_allocator

    parts = {
        number: tb_allocator.memory_snapshot(number)
        for number in (range(device_count()) if device is None else [device_index(device)])
    }
    _add_frames(list(parts.values()))
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
    device. device: this one only. context: of which events the stack is kept: "alloc" and "state" of allocations, "all"
    of frees too, None of none. stacks: both "python" and "all" keep the frames of Python, not those of C++.
    The other options of torch.cuda have no effect. ValueError: another value of one of these.
    """
    if enabled not in (None, False, True, "state", "all"):
        raise ValueError(f"enabled is {enabled!r}: use None, 'state' or 'all'")
    if context not in _CONTEXTS:
        raise ValueError(f"context is {context!r}: use None, 'state', 'alloc' or 'all'")
    if stacks not in ("python", "all"):
        raise ValueError(f"stacks is {stacks!r}: use 'python' or 'all'")
    _state.initialize()
    import tb_allocator
    from tb_ops import _frames

    from torch_backend import _core

    offsets = _frames.find()
    kept = _CONTEXTS[context] if enabled and offsets else 0
    _core._record_memory_places(kept, offsets or (-1, -1, -1, -1, -1))

    events = min(max_entries, _MOST_EVENTS) if enabled else 0
    for number in range(device_count()) if device is None else [device_index(device)]:
        tb_allocator.record_memory_history(events, number)


def _add_frames(parts: list[dict[str, Any]]) -> None:
    """Gives events and allocated blocks the frames of their places."""
    events = [event for part in parts for trace in part["device_traces"] for event in trace]
    frames = _frames_of({event["place"] for event in events if "place" in event})
    owners: dict[int, list[dict[str, Any]]] = {}  # by the address of what was allocated there last
    for event in events:
        event["frames"] = frames.get(event.pop("place", 0), [])
        if event["action"] == "alloc":
            owners[event["addr"]] = event["frames"]
    for block in (block for part in parts for segment in part["segments"] for block in segment["blocks"]):
        if block["state"] != "inactive":
            block["frames"] = owners.get(block["address"], [])


def _frames_of(places: set[int]) -> dict[int, list[dict[str, Any]]]:
    from tb_ops import _origin

    from torch_backend import _core

    addresses = {place: _core._frames_of_memory_place(place) for place in places}
    known = list({frame for frames in addresses.values() for frame in frames})
    lines = {
        frame: {"filename": line.file, "line": line.line, "name": line.function}
        for frame, line in zip(known, _origin.find_lines(known), strict=True)
        if line is not None
    }
    return {place: [lines[frame] for frame in frames if frame in lines] for place, frames in addresses.items()}
