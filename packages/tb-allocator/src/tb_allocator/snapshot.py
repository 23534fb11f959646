"""What a device's memory looks like now and what happened to it last: for people, other tools and the replay.

The last 65 536 events are always remembered; record_memory_history() or TB_ALLOC_CONF=history:N change how many.
"""

from __future__ import annotations

import os
from typing import Any

from . import _core


def memory_snapshot(device: int | None = None) -> dict[str, Any]:
    """Segments with their blocks, and the events remembered, as torch.cuda.memory._snapshot() gives them.

    Sizes are bytes, times microseconds since 1970. `frames` are empty; an event has `place`, a number, where a
    component gives places (torch.tb.memory._snapshot() has the frames).
    """
    return _load(_core._snapshot(device))


def host_memory_snapshot() -> dict[str, Any]:
    """The segments of pinned host memory with their blocks, in the form of memory_snapshot().

    No events are remembered of pinned memory, so the one list in `device_traces` is empty. What a program pins by other
    means than this allocator is not in the snapshot.
    """
    return _load(_core._host_snapshot())


def _load(snapshot: bytes) -> dict[str, Any]:
    import pickle  # a third of the package's import time

    loaded: dict[str, Any] = pickle.loads(snapshot)
    return loaded


def dump_snapshot(file: str | os.PathLike[str], device: int | None = None) -> None:
    """Write memory_snapshot() as a pickle, which PyTorch's memory_viz page and `torch.cuda._memory_viz` open."""
    with open(file, "wb") as out:
        out.write(_core._snapshot(device))


def dump_rmm_log(file: str | os.PathLike[str], device: int | None = None) -> None:
    """Write the events remembered as a CSV file of RMM's logging adaptor, for its replay benchmark."""
    with open(file, "w") as out:
        out.write(_core._rmm_log(device))


def dump_trace(file: str | os.PathLike[str], device: int | None = None) -> None:
    """Write the events remembered as a trace for `python -m tb_allocator.replay`.

    Blocks allocated before the oldest event are left out, so record from the start of what you want to replay.
    """
    with open(file, "w") as out:
        out.write(_core._trace(device))
