"""What PyTorch's flight recorder has of a group's calls, while they are on their way and when they are done."""

from __future__ import annotations

import pickle
import time
from typing import Any

import torch
import torch.distributed as dist

from distributed.cases import LIMIT, Cases, Place, Places, run

CASES = Cases()


def entries(place: Place) -> list[dict[str, Any]]:
    """Those of the group's calls, in their order."""
    trace = pickle.loads(torch._C._distributed_c10d._dump_fr_trace())
    return [entry for entry in trace["entries"] if entry["process_group"][0] == place.group.group_name]


def ended(place: Place, first: int) -> list[dict[str, Any]]:
    """The entries from number `first` on, as soon as all their calls have ended: gloo's thread notes it afterwards."""
    deadline = time.monotonic() + LIMIT.total_seconds()
    while not all(entry["retired"] for entry in entries(place)[first:]):
        assert time.monotonic() < deadline, entries(place)
        time.sleep(0.01)
    return entries(place)[first:]


@CASES
def calls(places: Places) -> list[Any]:
    """Name, sizes and kinds of numbers, number of the call, and end."""
    place, x = places.tb, torch.ones(12, device="tb")
    first = len(entries(place))
    dist.all_reduce(x, group=place.group)
    dist.broadcast(x[:3].double(), 1, group=place.group)
    dist.all_gather_into_tensor(torch.empty(24, device="tb"), x, group=place.group)
    torch.accelerator.synchronize()
    found = ended(place, first)
    numbers = [entry["collective_seq_id"] - found[0]["collective_seq_id"] for entry in found]
    fields = ("profiling_name", "input_sizes", "output_sizes", "input_dtypes", "state", "timeout_ms")
    return [[number, *(entry[field] for field in fields)] for number, entry in zip(numbers, found, strict=True)]


@CASES
def on_its_way(places: Places) -> list[Any]:
    """Rank 0's call that waits for rank 1: whether it has ended, which functions made it, and both at its end."""
    place, x = places.tb, torch.ones(12, device="tb")
    store, first = dist.distributed_c10d._get_default_store(), len(entries(place))
    torch.accelerator.synchronize()  # a stream without work hands the call to gloo at once
    if place.rank == 1:
        store.wait(["seen"])
    dist.all_reduce(x, group=place.group)
    seen = []
    if place.rank == 0:
        seen = entries(place)[first:]
        store.set("seen", "yes")
    torch.accelerator.synchronize()
    return [[entry["retired"], [frame["name"] for frame in entry["frames"]]] for entry in (*seen, *ended(place, first))]


if __name__ == "__main__":
    run(CASES)
