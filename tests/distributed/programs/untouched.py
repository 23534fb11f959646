"""What holds in a process that has not used tb: one case, so that no other one is before it."""

from __future__ import annotations

import contextlib
import os
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from distributed.cases import Cases, run, store

CASES = Cases()


@CASES
def mesh(_: Any) -> list[int]:
    """The current device, and that of a new tensor."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    dist.init_process_group(store=store(), rank=rank, world_size=size)
    init_device_mesh("tb", (size,))
    found = [torch.accelerator.current_device_index(), torch.ones(1, device="tb").device.index]
    dist.destroy_process_group()
    return found


if __name__ == "__main__":
    run(CASES, lambda: contextlib.nullcontext(None))
