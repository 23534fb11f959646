"""One rank of the benchmark. Rank 0 writes the report; all compute the same number of steps and calls.

tb has the default group, and the CPU a group of gloo in the same processes. Blocks are interleaved, each begins with a
barrier, and a ratio is the median of the ratios of neighbouring blocks.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import pathlib
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from examples.demo.model import make_model
from examples.demo.settings import VOCABULARY, ModelSettings
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile

Call = Callable[[], object]
BLOCK_SECONDS = 0.5
MIB = 1 << 20
Interval = tuple[float, float]


class Training:
    """A model under DistributedDataParallel on a device, with the same weights and batches on each."""

    def __init__(self, name: str, device: str, group: dist.ProcessGroup) -> None:
        model, shape = make(name)
        random = torch.Generator().manual_seed(dist.get_rank())
        if name == "GPT":
            self.inputs = torch.randint(VOCABULARY, shape, generator=random).to(device)
            self.targets = torch.randint(VOCABULARY, shape, generator=random).to(device)
        else:
            self.inputs = torch.randn(shape, generator=random).to(device)
            self.targets = torch.randint(10, shape[:1], generator=random).to(device)
        self.model = DistributedDataParallel(
            model.to(device), process_group=group, gradient_as_bucket_view=True, bucket_cap_mb=4
        )
        self.optimizer = torch.optim.AdamW(self.model.parameters(), foreach=True)

    def step(self) -> torch.Tensor:
        loss = nn.functional.cross_entropy(self.model(self.inputs).flatten(0, -2), self.targets.flatten())
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.detach()

    def steps(self, count: int) -> float:
        """Trains, waits, and returns the last loss."""
        for _ in range(count):
            loss = self.step()
        return loss.item()


def make(name: str) -> tuple[nn.Module, tuple[int, ...]]:
    """The model on the CPU, and the shape of its batch."""
    torch.manual_seed(0)
    if name == "GPT":
        settings = ModelSettings(dropout=0.0)
        return make_model(settings, 0), (8, settings.context)
    width, layers, batch = (128, 2, 32) if name == "small MLP" else (512, 6, 64)
    hidden = [layer for _ in range(layers) for layer in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(width, 10)), (batch, width)


def timed(call: Call, count: int, group: dist.ProcessGroup) -> float:
    """Milliseconds of one of `count` calls."""
    dist.barrier(group)
    begin = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - begin) / count * 1e3


def interleaved(calls: dict[str, Call], count: int, rounds: int, group: dist.ProcessGroup) -> dict[str, list[float]]:
    """Milliseconds of each call, by rounds; every other round runs in the opposite order."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(rounds):
        for name in list(calls) if turn % 2 == 0 else list(calls)[::-1]:
            times[name].append(timed(calls[name], count, group))
    return times


def agreed(count: int) -> int:
    """The first rank's number."""
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, count)
    return int(every[0])


def compare_steps(name: str, rounds: int, gloo: dist.ProcessGroup) -> dict[str, Any]:
    assert dist.group.WORLD is not None
    trainings = {"cpu": Training(name, "cpu", gloo), "tb": Training(name, "tb", dist.group.WORLD)}
    for training in trainings.values():
        training.steps(5)
    count = agreed(max(3, int(BLOCK_SECONDS * 1e3 / timed(trainings["cpu"].step, 3, gloo))))
    trainings["tb"].steps(3)  # both have made the same number
    calls: dict[str, Call] = {device: partial(training.steps, count) for device, training in trainings.items()}
    times = interleaved(calls, 1, rounds, gloo)
    losses = [training.steps(1) for training in trainings.values()]
    cpu, tb = ([time / count for time in times[device]] for device in ("cpu", "tb"))
    ratios = [b / a for a, b in zip(cpu, tb, strict=True)]
    del trainings, calls
    gc.collect()  # a Reducer must not outlive its group
    return {
        "name": name,
        "cpu_ms": statistics.median(cpu),
        "tb_ms": statistics.median(tb),
        "ratio": statistics.median(ratios),
        "least": min(ratios),
        "greatest": max(ratios),
        "steps": count,
        "equal": losses[0] == losses[1],
    }


def compare_calls(size: int, rounds: int, gloo: dist.ProcessGroup) -> dict[str, Any]:
    """all_reduce of `size` bytes, in microseconds, in four ways."""
    x, y = (torch.ones(size // 4, device=device) for device in ("tb", "cpu"))
    wait_on_host = importlib.import_module("torch_backend._distributed")._wait_on_host
    count = 100 if size < MIB else max(1, 64 * MIB // size)

    def on_the_cpu() -> None:
        dist.all_reduce(y, dist.ReduceOp.MAX, group=gloo)

    def and_host_wait() -> None:
        dist.all_reduce(x, dist.ReduceOp.MAX)
        torch.accelerator.synchronize()

    def waiting_on_the_host() -> None:  # as with TB_DISTRIBUTED_WAIT=host
        wait_on_host(True)
        dist.all_reduce(x, dist.ReduceOp.MAX)
        wait_on_host(False)

    ways: dict[str, Call] = {
        "gloo on cpu": on_the_cpu,
        "tb, then a wait of the host": and_host_wait,
        "tb, TB_DISTRIBUTED_WAIT=host": waiting_on_the_host,
    }
    times = interleaved(ways, count, rounds, gloo)
    caller = []
    for _ in range(rounds):
        torch.accelerator.synchronize()
        caller.append(timed(lambda: dist.all_reduce(x, dist.ReduceOp.MAX), min(count, 10), gloo))
    torch.accelerator.synchronize()
    microseconds = {way: statistics.median(found) * 1e3 for way, found in times.items()}
    microseconds["tb, the calling thread alone"] = statistics.median(caller) * 1e3
    return {"name": f"all_reduce of {size} bytes", "microseconds": microseconds}


def compare_groups(rounds: int, gloo: dist.ProcessGroup) -> dict[str, Any]:
    """A new group and its end, in microseconds."""

    def made(backend: str) -> None:
        dist.destroy_process_group(dist.new_group(backend=backend))

    ways: dict[str, Call] = {"cpu:gloo": lambda: made("cpu:gloo"), "tbccl": lambda: made("tbccl")}
    times = interleaved(ways, 1, rounds, gloo)
    return {"name": "a new group", "microseconds": {way: statistics.median(t) * 1e3 for way, t in times.items()}}


def covered(intervals: list[Interval], by: list[Interval]) -> float:
    """How much of `intervals`, which may overlap each other, has one of `by` beside it; each is counted by itself."""
    merged: list[Interval] = []
    for begin, end in sorted(by):
        if merged and begin <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((begin, end))
    return sum(max(0.0, min(end, e) - max(begin, b)) for begin, end in intervals for b, e in merged)


def measure_overlap(name: str) -> dict[str, Any]:
    """The rows of a profile: for how much of their time collectives have a kernel of this rank beside them."""
    assert dist.group.WORLD is not None
    training, steps = Training(name, "tb", dist.group.WORLD), 10
    training.steps(5)
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as profiler:
        training.steps(steps)
    rows: dict[str, list[Interval]] = {"collectives": [], "waits": [], "kernels": []}
    for row in profiler.events() or []:
        if row.device_type == torch.autograd.DeviceType.CPU or row.name.startswith("start of "):  # type: ignore[attr-defined]
            continue
        kind = "waits" if row.name.startswith("wait for ") else "collectives" if "c10d::" in row.name else "kernels"
        rows[kind].append((row.time_range.start, row.time_range.end))
    del training
    gc.collect()
    total = sum(end - begin for begin, end in rows["collectives"])
    return {
        "name": name,
        "collectives": len(rows["collectives"]) / steps,
        "collectives_ms": total / 1e3 / steps,
        "waits_ms": sum(end - begin for begin, end in rows["waits"]) / 1e3 / steps,
        "overlapped": covered(rows["collectives"], rows["kernels"]) / total if total else 0.0,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--json", type=pathlib.Path, required=True)
    asked = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group()
    gloo = dist.new_group(backend="gloo")
    report = {
        "ranks": dist.get_world_size(),
        "steps": [compare_steps(name, asked.rounds, gloo) for name in ("small MLP", "MLP 6x512", "GPT")],
        "calls": [
            *(compare_calls(size, asked.rounds, gloo) for size in (4, 16 * MIB, 64 * MIB)),
            compare_groups(asked.rounds, gloo),
        ],
        "overlap": measure_overlap("MLP 6x512"),
    }
    if dist.get_rank() == 0:
        asked.json.write_text(json.dumps(report, indent=1) + "\n")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
