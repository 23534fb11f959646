"""Random programs of kernels and collectives over two streams, with late waits, dropped works and freed memory.

A program on tb must give what the same program gives on the CPU with gloo, where there are no streams.
"""

from __future__ import annotations

import contextlib
import random
import time
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch_backend.conformance.bits import bit_difference

from distributed.cases import Cases, Place, Places, number_from, run

KINDS = ["kernel", "in_place", "all_reduce", "broadcast", "gather", "scatter", "exchange", "reduce", "cat"]
KINDS += ["drop", "delay"]
TENSORS = 4


@dataclass
class Pending:
    """A call whose work has not been waited for; `stream` is where it will be."""

    tensor: int
    work: Any
    stream: int


class Program:
    """One program. What it does comes from the seed alone, its numbers also from the rank."""

    def __init__(self, seed: int, place: Place) -> None:
        self.choose, self.place = random.Random(seed), place
        self.size = self.choose.choice([1, 7, 64, 1000, 20000])
        numbers = torch.Generator().manual_seed(1000 * seed + place.rank)
        self.tensors = [torch.rand(self.size, generator=numbers).to(place.device) for _ in range(TENSORS)]
        self.owners = [0] * TENSORS  # the stream on which each was last written
        self.pending: list[Pending] = []
        self.streams: list[torch.Stream] = []
        if place.on_tb:
            self.streams = [torch.accelerator.current_stream(), torch.Stream(device="tb")]
            self.streams[1].wait_stream(self.streams[0])

    def on(self, stream: int) -> contextlib.AbstractContextManager[Any]:
        return self.streams[stream] if self.streams else contextlib.nullcontext()

    def take(self, tensor: int, stream: int) -> None:
        """Makes the stream wait for what wrote the tensor on the other one."""
        if self.streams and self.owners[tensor] != stream:
            self.streams[stream].wait_stream(self.streams[self.owners[tensor]])
            self.tensors[tensor].record_stream(self.streams[stream])
        self.owners[tensor] = stream

    def settle(self, pending: Pending) -> None:
        """Waits on the entry's stream, which is then behind the call wherever that began, and uses the result there."""
        with self.on(pending.stream):
            pending.work.wait()
            self.tensors[pending.tensor].mul_(0.5)
        if self.streams:
            self.tensors[pending.tensor].record_stream(self.streams[pending.stream])
        self.owners[pending.tensor] = pending.stream

    def step(self) -> None:
        choose, size = self.choose, self.size
        tensor, stream, kind = choose.randrange(TENSORS), choose.randrange(2), choose.choice(KINDS)
        late, elsewhere, root = choose.random() < 0.5, choose.randrange(2), choose.randrange(self.place.size)
        value = choose.random()
        for entry in [entry for entry in self.pending if entry.tensor == tensor]:
            self.pending.remove(entry)
            self.settle(entry)
        self.take(tensor, stream)
        with self.on(stream):
            work = self.call(kind, tensor, root, value)
        if work is not None:
            entry = Pending(tensor, work, elsewhere)
            if late:
                self.pending.append(entry)
            else:
                self.settle(entry)
        assert self.tensors[tensor].numel() == size

    def call(self, kind: str, tensor: int, root: int, value: float) -> Any:
        """One step on the current stream. Returns a work that is still to be waited for."""
        x, group, ranks, device = self.tensors[tensor], self.place.group, self.place.size, self.place.device
        if kind == "kernel":
            self.tensors[tensor] = x * value + 1
        elif kind == "in_place":
            x.sub_(value)
            torch.full_like(x, -1.0)  # its memory is free again at once
        elif kind == "all_reduce":
            return dist.all_reduce(x, group=group, async_op=True)
        elif kind == "broadcast":
            return dist.broadcast(x, root, group=group, async_op=True)
        elif kind == "gather":
            out = torch.empty(ranks * self.size, device=device)
            dist.all_gather_into_tensor(out, x, group=group)
            self.tensors[tensor] = out.view(ranks, self.size).sum(0)
        elif kind == "scatter":
            out = torch.empty(self.size, device=device)
            wait = dist.reduce_scatter_tensor(out, x.repeat(ranks), group=group, async_op=True)
            assert wait is not None
            wait.wait()
            self.tensors[tensor] = out
        elif kind == "exchange":
            out = torch.empty_like(x)
            send = dist.P2POp(dist.isend, x, (self.place.rank + 1) % ranks, group)
            receive = dist.P2POp(dist.irecv, out, (self.place.rank - 1) % ranks, group)
            for each in dist.batch_isend_irecv([send, receive]):
                each.wait()
            self.tensors[tensor] = out
        elif kind == "reduce":
            dist.reduce(x, root, group=group)
            return dist.broadcast(x, root, group=group, async_op=True)
        elif kind == "cat":
            big = torch.cat([x, x])
            dist.all_reduce(big, group=group)
            self.tensors[tensor] = big[self.size :] - big[: self.size] + x
        elif kind == "drop":
            dist.all_reduce(x * value, group=group, async_op=True)  # neither the work nor the tensor is kept
            torch.full_like(x, -1.0)
        elif self.streams:
            keep_busy(0.0005)
        return None

    def result(self) -> list[torch.Tensor]:
        for _ in range(self.choose.randrange(8, 20)):
            self.step()
        for entry in self.pending:
            self.settle(entry)
        if self.streams:
            self.streams[0].wait_stream(self.streams[1])
        return [tensor.cpu() for tensor in self.tensors]


def keep_busy(seconds: float) -> None:
    """Queues a pause on the current stream, so that what follows begins from its queue and not at the call."""
    import tb_stream

    tb_stream.current_stream().add_callback(lambda: time.sleep(seconds))


CASES = Cases()


@CASES
def programs(places: Places) -> list[str]:
    """The seeds of programs that differ, and where."""
    count = number_from("TB_TEST_DISTRIBUTED_PROGRAMS", 200) // (1 if places.tb.size == 2 else 5)
    first = number_from("TB_TEST_DISTRIBUTED_SEED", 0)
    wrong = []
    for seed in range(first, first + count):
        expected, found = Program(seed, places.cpu).result(), Program(seed, places.tb).result()
        differs = next(filter(None, map(bit_difference, expected, found)), "")
        if differs:
            wrong.append(f"seed {seed}: {differs}")
    return wrong


if __name__ == "__main__":
    run(CASES)
