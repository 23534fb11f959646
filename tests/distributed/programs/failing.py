"""One rank observes how the others fail: `failing SECONDS FIRST dies|away`. A pair of ranks is a group of its own.

The others end in the middle of a program, or stay away from a call. Rank 0 prints what it saw, a line of JSON each.
"""

from __future__ import annotations

import datetime
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

ENDED = 3
"""The status of a rank that ends in the middle."""
X = torch.Tensor
Call = Callable[[X, int, dist.ProcessGroup], Any]


def recv(x: X, other: int, group: dist.ProcessGroup) -> Any:
    return dist.irecv(x, other, group=group)


def exchange(x: X, other: int, group: dist.ProcessGroup) -> Any:
    calls = [dist.P2POp(dist.isend, x, other, group), dist.P2POp(dist.irecv, torch.empty_like(x), other, group)]
    return dist.batch_isend_irecv(calls)[-1]


def coalesced(x: X, other: int, group: dist.ProcessGroup) -> Any:
    with dist._coalescing_manager(group=group, async_ops=True) as manager:
        dist.all_reduce(x, group=group)
        dist.all_reduce(x + 1, group=group)
    return manager


class Nothing:
    """In place of a call's work."""

    def wait(self) -> None: ...


def dropped(x: X, other: int, group: dist.ProcessGroup) -> Any:
    dist.all_reduce(x.clone(), group=group, async_op=True)
    return Nothing()


CALLS: dict[str, Call] = {
    "all_reduce": lambda x, other, group: dist.all_reduce(x, group=group, async_op=True),
    "broadcast": lambda x, other, group: dist.broadcast(x, other, group=group, async_op=True),
    "recv": recv,
    "coalesced": coalesced,
    "batch_isend_irecv": exchange,
    "dropped": dropped,
    "all_gather_into_tensor": lambda x, other, group: dist.all_gather_into_tensor(
        torch.cat([x, x]), x, group=group, async_op=True
    ),
    "reduce_scatter_tensor": lambda x, other, group: dist.reduce_scatter_tensor(
        x[: x.numel() // 2], x, group=group, async_op=True
    ),
    "all_to_all_single": lambda x, other, group: dist.all_to_all_single(
        torch.empty_like(x), x, group=group, async_op=True
    ),
    "reduce": lambda x, other, group: dist.reduce(x, 0, group=group, async_op=True),
    "gather": lambda x, other, group: dist.gather(
        x, [torch.empty_like(x) for _ in range(2)], 0, group=group, async_op=True
    ),
    "scatter": lambda x, other, group: dist.scatter(x, None, other, group=group, async_op=True),
}
WAITS: dict[str, Callable[[X], object]] = {
    "item": lambda y: y.sum().item(),
    "synchronize": lambda y: torch.accelerator.synchronize(),
    "cpu": lambda y: y.cpu(),
}


def attempt(call: Callable[[], object]) -> tuple[str, str, float]:
    """The error's class and text, "" for none; and seconds."""
    begin = time.perf_counter()
    try:
        call()
        kind, text = "", ""
    except Exception as error:
        kind, text = f"{type(error).__module__}.{type(error).__name__}", str(error)
    return kind, text, time.perf_counter() - begin


def warm_up_with(other: int, groups: list[dist.ProcessGroup]) -> X:
    """Rank 0's part. The other rank waits in the store: in the call it would run into the group's time-out."""
    store = dist.distributed_c10d._get_default_store()
    store.set(f"warm up {other} {store.add(f'warmed up {other}', 1)}", "now")
    return warm_up(groups[other])


def warm_up(group: dist.ProcessGroup) -> X:
    """A call that works, and the first calls of kernels, which wait and would raise an earlier call's failure."""
    x = torch.ones(1000, device="tb")
    dist.all_reduce(x, group=group)
    y = x * 2
    float(y.sum()), y.cpu(), torch.cat([x, x])[:2], torch.empty_like(x), x + 1
    torch.accelerator.synchronize()
    return x


def observe(turn: int, name: str, other: int, groups: list[dist.ProcessGroup]) -> dict[str, Any]:
    """One failure: at which call it is raised, in which words, and what works afterwards."""
    wait = list(WAITS)[turn % len(WAITS)]
    store = dist.distributed_c10d._get_default_store()
    group, x = groups[other], warm_up_with(other, groups)
    store.set(f"fail {other}", "now")
    time.sleep(0.3)
    begin = time.perf_counter()
    saw: dict[str, Any] = {"call": name, "wait": wait, "group": group.group_name, "rank": 0}

    def wait_for_it() -> None:
        work = CALLS[name](x, other, group)
        work.wait()

    saw["at the work's wait"] = attempt(wait_for_it)
    saw["at the host's wait"] = attempt(lambda: WAITS[wait](x * 2))
    saw["seconds"] = time.perf_counter() - begin
    saw["again"] = attempt(lambda: WAITS[wait](x * 2))

    def kernels() -> None:
        float((torch.ones(3, device="tb") + 1).sum())
        torch.accelerator.synchronize()

    saw["kernels"] = attempt(kernels)

    def call_again() -> None:
        dist.all_reduce(torch.ones(3, device="tb"), group=group)
        torch.accelerator.synchronize()

    saw["next call"] = attempt(call_again)
    if other + 1 < len(groups):  # a pair that is still whole
        saw["other group"] = float(warm_up_with(other + 1, groups)[0])
    return saw


def fail(rank: int, stays_away: bool, store: dist.Store) -> None:
    """Does what rank 0 waits for, up to the place of failure."""
    store.wait([f"fail {rank}"])
    if stays_away:
        store.wait(["done"])
        os._exit(0)
    os._exit(ENDED)


def main() -> None:
    limit = datetime.timedelta(seconds=float(sys.argv[1]))
    first, stays_away = int(sys.argv[2]), sys.argv[3] == "away"
    dist.init_process_group("tbccl", timeout=datetime.timedelta(seconds=60))
    rank, size = dist.get_rank(), dist.get_world_size()
    store = dist.distributed_c10d._get_default_store()
    assert dist.group.WORLD is not None
    groups = [dist.group.WORLD, *(dist.new_group([0, other], timeout=limit) for other in range(1, size))]
    if rank:
        for turn in range(2 if rank > 1 else 1):  # rank 0 also uses the group after a failed one
            store.wait([f"warm up {rank} {turn + 1}"])
            warm_up(groups[rank])
        fail(rank, stays_away, store)
    names = list(CALLS)
    for other in range(1, size):
        turn = first + other - 1
        print(json.dumps(observe(turn, names[turn % len(names)], other, groups)), flush=True)
    store.set("done", "yes")
    print("ends", flush=True)


if __name__ == "__main__":
    main()
