"""Traces from what other allocators wrote: logs of RMM and snapshots of PyTorch."""

from __future__ import annotations

import csv
import io
import pickle
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

Event = tuple[str, int, int, int]  # "a" or "f", address, bytes, stream


def _lines(events: Iterable[Event]) -> Iterator[str]:
    live: dict[int, int] = {}
    streams: dict[int, int] = {}
    for number, (kind, address, nbytes, stream) in enumerate(events):
        if kind == "a":
            if address in live:  # its free is not in the record
                yield f"f {live[address]}"
            live[address] = number
            yield f"a {number} {nbytes} {streams.setdefault(stream, len(streams))}"
        elif address in live:  # else allocated before the record begins
            yield f"f {live.pop(address)}"


def from_rmm_log(text: str) -> str:
    """The trace in a CSV file of RMM's logging adaptor. ValueError where a column is missing or holds no number."""
    rows = csv.DictReader(io.StringIO(text))
    missing = {"Action", "Pointer", "Size", "Stream"} - set(rows.fieldnames or ())
    if missing:
        raise ValueError(f"no log of RMM: it has no column {', '.join(sorted(missing))}")

    def events() -> Iterator[Event]:
        for row in rows:
            if row["Action"] in ("allocate", "free"):
                kind = row["Action"][0]
                yield kind, int(row["Pointer"], 16), int(row["Size"]), int(row["Stream"], 0)

    return "\n".join(_lines(events())) + "\n"


class _PlainUnpickler(pickle.Unpickler):
    """Reads dictionaries, lists, numbers and text: a pickle that names anything else could run code."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise pickle.UnpicklingError(f"the pickle names {module}.{name}: it is no memory snapshot")


def from_snapshot(data: bytes, device: int | None = None) -> str:
    """The trace in a pickle of torch.cuda.memory._dump_snapshot() or tb_allocator.dump_snapshot().

    device: whose history; by default the first that has one. ValueError for a pickle of something else, or without
    history: record it with torch.cuda.memory._record_memory_history() first.
    """
    try:
        snapshot: Any = _PlainUnpickler(io.BytesIO(data)).load()
        histories = snapshot["device_traces"]
    except (pickle.UnpicklingError, EOFError, KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(f"no memory snapshot: {error}") from error
    history = next((one for one in histories if one), []) if device is None else histories[device]
    if not history:
        raise ValueError("the snapshot holds no history: call torch.cuda.memory._record_memory_history() first")
    kinds = {"alloc": "a", "free_requested": "f"}
    events = (
        (kinds[entry["action"]], entry["addr"], entry["size"], entry["stream"])
        for entry in history
        if entry["action"] in kinds
    )
    return "\n".join(_lines(events)) + "\n"
