"""Trains, saves every few steps, and goes on from the last checkpoint: `elastic FOLDER KIND [STEP RANK PLACE]...`.

KIND is "whole" (DDP, a file of rank 0) or "sharded" (FSDP2, torch.distributed.checkpoint). At torchrun's start number N
the rank of the Nth triple is killed there (see checkpoints.Death).
"""

from __future__ import annotations

import datetime
import json
import os
import pathlib
import sys
import time
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from distributed.programs.checkpoints import Death, Sharded, Whole
from distributed.programs.models import batch, mlp, whole

STEPS = 9
EVERY = 3
LIMIT = datetime.timedelta(seconds=30)


class Training:
    """A model, its optimizer and its checkpoints."""

    def __init__(self, folder: pathlib.Path, kind: str, death: Death) -> None:
        mesh, model = init_device_mesh("tb", (dist.get_world_size(),)), mlp().to("tb")
        self.checkpoints = Sharded(folder, death) if kind == "sharded" else Whole(folder, death)
        self.model = fully_shard(model, mesh=mesh) if kind == "sharded" else DistributedDataParallel(model)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        self.first = self.checkpoints.last()
        if self.first:
            state = self.checkpoints.load(self.first, self.state())
            set_state_dict(
                self.model, self.optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
            )

    def state(self) -> dict[str, Any]:
        parameters, moments = get_state_dict(self.model, self.optimizer)
        return {"model": parameters, "optimizer": moments}

    def step(self, number: int) -> float:
        x, y = batch(number, "tb", dist.get_rank())
        loss = nn.functional.cross_entropy(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.item()

    def save(self, step: int) -> None:
        """An error of another rank's death says in the file "failed" how long this one has waited for it."""
        begin = time.monotonic()
        try:
            self.checkpoints.save(step, self.state())
        except Exception as error:
            seen = {"first": self.first, "seconds": time.monotonic() - begin, "text": str(error)}
            (self.checkpoints.folder / f"failed.{dist.get_rank()}").write_text(json.dumps(seen))
            raise


def main() -> None:
    folder, kind, start = pathlib.Path(sys.argv[1]), sys.argv[2], int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))
    deaths = list(zip(map(int, sys.argv[3::3]), map(int, sys.argv[4::3]), sys.argv[5::3], strict=True))
    death = Death(*(deaths[start] if start < len(deaths) else (-1, -1, "")), folder)
    death.prepare()
    dist.init_process_group(timeout=LIMIT)
    training, rank = Training(folder, kind, death), dist.get_rank()
    losses = {}
    for step in range(training.first, STEPS):
        death.reach(step, "step")
        losses[step] = training.step(step)
        if (step + 1) % EVERY == 0:
            death.reach(step + 1, "save")
            training.save(step + 1)
    weights = [float(whole(parameter).double().sum()) for parameter in training.model.parameters()]
    line = {"start": start, "first": training.first, "losses": losses, "weights": weights}
    (folder / f"end.{rank}").write_text(json.dumps(line))
    del training
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
