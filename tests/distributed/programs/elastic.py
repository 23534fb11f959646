"""Trains, saves every few steps, and goes on from the last checkpoint: `elastic FOLDER [STEP WHERE]...`.

At the start of number N, rank 1 ends at the Nth pair: before that step (`step`) or in the save after it (`save`).
"""

from __future__ import annotations

import json
import os
import pathlib
import sys
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from distributed.programs.models import batch, mlp, whole

STEPS = 9
EVERY = 3


class Training:
    """A sharded model, its optimizer and the folder of its checkpoints."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.model = mlp().to("tb")
        fully_shard(self.model, mesh=init_device_mesh("tb", (dist.get_world_size(),)))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        last = folder / "last"
        self.first = int(last.read_text()) if last.exists() else 0
        if self.first:
            state = self.state()
            dcp.load(state, checkpoint_id=folder / str(self.first))
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
        """The file "last" names a checkpoint only when all ranks have written their parts."""
        dcp.save(self.state(), checkpoint_id=self.folder / str(step))
        if dist.get_rank() == 0:
            (self.folder / "last").write_text(str(step))
        dist.barrier()


def main() -> None:
    folder, start = pathlib.Path(sys.argv[1]), int(os.environ["TORCHELASTIC_RESTART_COUNT"])
    deaths = list(zip(map(int, sys.argv[2::2]), sys.argv[3::2], strict=True))
    step_of_death, where = deaths[start] if start < len(deaths) else (-1, "")
    dist.init_process_group()
    training, rank = Training(folder), dist.get_rank()
    losses = {}
    for step in range(training.first, STEPS):
        dies = rank == 1 and step == step_of_death
        if dies and where == "step":
            os._exit(9)
        losses[step] = training.step(step)
        if step % EVERY == EVERY - 1:
            if dies:
                os._exit(9)
            training.save(step + 1)
    weights = [float(whole(parameter).double().sum()) for parameter in training.model.parameters()]
    line = {"start": start, "first": training.first, "losses": losses, "weights": weights}
    (folder / f"end.{rank}").write_text(json.dumps(line))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
