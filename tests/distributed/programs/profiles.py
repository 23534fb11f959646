"""A data-parallel training under torch.profiler, and a call for which one rank lets the other one wait."""

from __future__ import annotations

import json
import pathlib
import tempfile
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.autograd import DeviceType
from torch.profiler import profile, record_function

from distributed.cases import Cases, Place, Places, run
from distributed.programs.models import batch, mlp

CASES = Cases()
STEPS = 3
BUCKETS = 2
"""The collectives of a step: DDP's buckets of the size that is given below."""


class Training:
    """A model under DDP and its optimizer."""

    def __init__(self, place: Place) -> None:
        self.rank = place.rank
        self.model = nn.parallel.DistributedDataParallel(mlp().to("tb"), process_group=place.group, bucket_cap_mb=0.05)
        self.optimizer = torch.optim.AdamW(self.model.parameters())

    def step(self, number: int) -> None:
        x, y = batch(number, "tb", self.rank)
        with record_function("forward"):
            loss = nn.functional.cross_entropy(self.model(x), y)
        self.optimizer.zero_grad()
        with record_function("backward"):
            loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()


def call_apart(place: Place) -> None:
    """Rank 1 makes the call when rank 0 has made it and has let its stream wait for it."""
    store, x = dist.distributed_c10d._get_default_store(), torch.ones(1000, device="tb")
    if place.rank == 1:
        store.wait(["called"])
    dist.all_reduce(x, group=place.group)
    if place.rank == 0:
        with record_function("called"):
            store.set("called", "yes")


@CASES
def training(places: Places) -> dict[str, Any]:
    """The trace that is exported, and the device times of the host's operators and of the rows, in microseconds."""
    place = places.tb
    assert place.mesh.size() == place.size  # it has set this rank's device
    trained = Training(place)
    for number in range(3):  # DDP makes new buckets after the first; operators' first calls wait
        trained.step(number)
    torch.accelerator.synchronize()
    with profile() as made:
        for number in range(STEPS):
            trained.step(number)
        torch.accelerator.synchronize()
        call_apart(place)
    averages = made.key_averages()
    work = [row for row in made.events() or () if row.device_type == DeviceType.PrivateUse1]
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "trace.json"
        made.export_chrome_trace(str(file))
        trace = json.loads(file.read_text())
    return {
        "trace": trace,
        "self times": {row.key: row.self_device_time_total for row in averages if row.device_type == DeviceType.CPU},
        "rows": sum(row.time_range.elapsed_us() for row in work if not row.is_user_annotation),
    }


if __name__ == "__main__":
    run(CASES)
