"""What becomes of memory around collectives: freed early, waited for elsewhere, never waited for."""

from __future__ import annotations

import gc
import time

import torch
import torch.distributed as dist

from distributed.cases import Cases, Places, run

CASES = Cases()
ELEMENTS = 100_000


@CASES
def freed_right_after_the_wait(places: Places) -> None:
    """The memory is taken again at once, by tensors with other contents."""
    group = places.tb.group
    for turn in range(150):
        x = torch.full((1 + 37 * turn % 5000,), float(turn), device="tb")
        work = dist.all_reduce(x, group=group, async_op=True)
        junk = torch.full_like(x, -1.0) if turn % 3 else None
        assert work is not None
        work.wait()
        y = x + 0
        del x, work
        z = torch.full_like(y, 7.0)
        expected = float(turn * places.tb.size)
        assert float(y.min()) == float(y.max()) == expected, f"turn {turn}: {y}"
        del junk, z


@CASES
def dropped_with_their_tensors(places: Places) -> None:
    """Neither the works nor the tensors are kept; what takes the memory next is not written into."""
    dropped = [torch.ones(1000, device="tb") for _ in range(20)]
    for x in dropped:
        dist.all_reduce(x, group=places.tb.group, async_op=True)
    del dropped, x
    many = [torch.full((1000,), 3.0, device="tb") for _ in range(40)]
    dist.barrier(group=places.tb.group)
    torch.accelerator.synchronize()
    assert all(float(x.sum()) == 3000.0 for x in many)


@CASES
def waited_for_on_another_stream(places: Places) -> int:
    """Then freed: the engine must not write into what the memory is by then. The turns in which it did."""
    side, overwritten = torch.Stream(device="tb"), 0
    for _ in range(6):
        x = torch.ones(ELEMENTS, device="tb")
        torch.accelerator.synchronize()
        if places.tb.rank == 1:
            time.sleep(0.05)
        work = dist.all_reduce(x, group=places.tb.group, async_op=True)
        assert work is not None
        with side:
            work.wait()
        del x, work
        junk = torch.full((ELEMENTS,), -1.0, device="tb")
        torch.accelerator.synchronize()
        time.sleep(0.05)
        overwritten += not bool((junk.cpu() == -1).all())
    return overwritten


@CASES
def tb_and_cpu_tensors_interleaved(places: Places) -> None:
    """Calls of one group on both devices, which each rank reaches at other times."""
    rank, pairs = places.tb.rank, []
    for turn in range(50):
        x = torch.full((500,), float(turn), device="tb")
        for _ in range((turn * 7 + rank * 3) % 6):
            x = x * 1
        dist.all_reduce(x)
        y = torch.full((500,), float(turn))
        dist.all_reduce(y)
        pairs.append((x, y))
    for turn, (x, y) in enumerate(pairs):
        assert float(x[0]) == float(y[0]) == places.tb.size * turn, f"turn {turn}: {x[0]}, {y[0]}"


@CASES
def streams_reached_in_another_order_on_each_rank(places: Places) -> None:
    """The group's calls match in the program's order, not in that in which streams arrive at them."""
    streams = [torch.Stream(device="tb") for _ in range(4)]
    outs = []
    for turn in range(60):
        with streams[turn % 4]:
            y = torch.full((2000,), float(turn), device="tb")
            for _ in range(((turn + places.tb.rank * 3) % 5) * 2):
                y = y * 1.0
            dist.all_reduce(y, group=places.tb.group)
            outs.append(y)
    torch.accelerator.synchronize()
    wrong = [turn for turn, y in enumerate(outs) if float(y[0]) != places.tb.size * turn]
    assert not wrong, wrong


@CASES
def all_memory_comes_back(places: Places) -> int:
    """Bytes that are allocated after many calls and were not before: waited for, dropped, coalesced, by stages."""
    group = places.tb.group

    def calls() -> None:
        for turn in range(30):
            x = torch.ones(ELEMENTS, device="tb")
            outs = torch.empty(places.tb.size * ELEMENTS, device="tb")
            dist.all_reduce(x, group=group, async_op=bool(turn % 2))
            work = dist.all_gather_into_tensor(outs, x, group=group, async_op=True)
            if turn % 3 and work is not None:
                work.wait()
            dist.all_reduce(outs[::2], group=group)  # strided: goes through a dense copy
        dist.barrier(group=group)
        torch.accelerator.synchronize()
        dist.all_reduce(torch.ones(1, device="tb"), group=group)  # lets go of what was kept for dropped works
        torch.accelerator.synchronize()
        gc.collect()

    calls()
    before = torch.accelerator.memory_allocated()
    calls()
    return torch.accelerator.memory_allocated() - before


@CASES
def the_future_s_value_is_the_result(places: Places) -> None:
    """get_future() of an all_reduce on a stream that waits for nothing else."""
    x = torch.ones(ELEMENTS, device="tb")
    work = dist.all_reduce(x, group=places.tb.group, async_op=True)
    assert work is not None
    doubled = work.get_future().then(lambda future: future.value()[0] * 2)
    assert float(doubled.wait().sum()) == 2.0 * ELEMENTS * places.tb.size


if __name__ == "__main__":
    run(CASES)
