"""One rank of the part process_groups: `torchrun -m benchmarks.gpu.parts.ranks DEVICE`. Rank 0 prints JSON."""

from __future__ import annotations

import argparse
import datetime
import json
import os
import statistics
import time
from typing import Any

import torch
import torch.distributed as dist
from torch_backend.distributed import engines

SIZES = {"4 bytes": 1, "1 MiB": 1 << 18, "64 MiB": 1 << 24}  # in elements of four bytes
LIMIT = datetime.timedelta(minutes=2)


def microseconds(device: torch.device, group: dist.ProcessGroup, elements: int, turns: int) -> tuple[float, bool]:
    """The median time of a call and a wait of the host, and whether the sums are right."""
    x = torch.ones(elements, device=device)
    times, right = [], True
    for _ in range(turns):
        x.fill_(1 + dist.get_rank())
        float(x[0])
        begin = time.perf_counter()
        dist.all_reduce(x, group=group)
        first = float(x[0])
        times.append((time.perf_counter() - begin) * 1e6)
        expected = sum(range(1, dist.get_world_size() + 1))
        right = right and first == float(x[-1]) == expected
    return statistics.median(times), right


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("reference")
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    served: list[Any] = []
    for name, make in engines.OF_STREAMS.items():

        def remembered(*arguments: Any, make: Any = make) -> Any:
            served.append(make(*arguments))
            return served[-1]

        engines.OF_STREAMS[name] = remembered
    dist.init_process_group("tbccl", timeout=LIMIT)
    backend = {"cuda": "nccl", "cpu": "gloo"}[asked.reference]
    other = dist.new_group(backend=backend, timeout=LIMIT)
    index = int(os.environ["LOCAL_RANK"])
    tb = torch.device("tb", index)
    reference = torch.device(asked.reference, index) if asked.reference != "cpu" else torch.device("cpu")
    for device in (tb, reference):
        if device.type != "cpu":
            getattr(torch, device.type).set_device(device)
    default = dist.group.WORLD
    assert default is not None
    sizes = {"4 bytes": 1} if asked.quick else SIZES
    rows = []
    for name, elements in sizes.items():
        turns = 3 if asked.quick else 30
        microseconds(tb, default, elements, 2), microseconds(reference, other, elements, 2)
        (ours, right), (theirs, _) = (
            microseconds(device, group, elements, turns) for device, group in ((tb, default), (reference, other))
        )
        rows.append([name, ours, theirs, ours / theirs, right])
    streams = [engine.name() for engine in served if engine is not None and engine._get_sequence_number_for_group() > 0]
    dist.destroy_process_group()
    if index == 0:
        print(json.dumps({"rows": rows, "engine": f"by {streams[0]}" if streams else "by gloo"}), flush=True)
    # A thread of PyTorch's gloo may hold the last reference to a tensor of the reference device when Python ends, and
    # then ends the process with SIGABRT (seen in a script of gloo alone, on a busy machine).
    os._exit(0)


if __name__ == "__main__":
    main()
