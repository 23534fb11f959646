"""accelerate on several ranks: data parallel and sharded training, its collectives, and checkpoints."""

from __future__ import annotations

from typing import Any

import torch
from accelerate import Accelerator, FullyShardedDataParallelPlugin
from accelerate.utils import broadcast, gather_object

from clients.accelerate import accelerator, loader, model, steps, unbroken
from clients.ranks import Found, digest


def found(run: Accelerator, net: Any, losses: Any) -> Found:
    device = str(next(net.parameters()).device)
    return Found(device, [run.num_processes, run.process_index, losses], digest(net.parameters()))


def trained(device: str, **options: Any) -> Found:
    """Two epochs of each rank's half of the data, with accumulation and clipping."""
    run = accelerator(device, gradient_accumulation_steps=2, **options)
    net = model()
    net, optimizer, batches = run.prepare(net, torch.optim.AdamW(net.parameters(), 1e-2), loader())
    losses = steps(run, net, optimizer, batches) + steps(run, net, optimizer, batches)
    return found(run, net, losses)


def ddp(device: str, _: str) -> Found:
    return trained(device)


def ddp_bf16(device: str, _: str) -> Found:
    return trained(device, mixed_precision="bf16")


def fsdp2(device: str, _: str) -> Found:
    """accelerate has no FSDP for the CPU, which trains the same by DDP."""
    return trained(device, **{} if device == "cpu" else {"fsdp_plugin": FullyShardedDataParallelPlugin(fsdp_version=2)})


def collectives(device: str, _: str) -> Found:
    """With 21 samples in batches of 4 the last ones are padded, which gather_for_metrics takes back."""
    run = accelerator(device)
    samples = run.prepare(torch.utils.data.DataLoader(torch.arange(21.0), batch_size=4))
    value = torch.arange(4.0, device=run.device) + run.process_index
    results = {
        "gather": run.gather(value),
        "sum": run.reduce(value, "sum"),
        "mean": run.reduce(value, "mean"),
        "broadcast": broadcast(value.clone()),
        "padded": run.gather(run.pad_across_processes(value[: 2 + run.process_index])),
        "metrics": torch.cat([run.gather_for_metrics(batch) for batch in samples]),
    }
    values = {name: result.tolist() for name, result in results.items()}
    values["objects"] = gather_object([f"rank {run.process_index}"])
    with run.split_between_processes(list(range(5))) as part:
        values_of_this_rank = [part, run.is_main_process]
    return Found(str(value.device), [values, values_of_this_rank], values)


def checkpoint(device: str, folder: str) -> Found:
    """With dropout, whose random numbers each rank has for itself."""
    run, as_unbroken = unbroken(device, folder)
    return Found(str(run.device), [run.num_processes, as_unbroken])
