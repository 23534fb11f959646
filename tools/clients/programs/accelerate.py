"""accelerate on several ranks: data parallel and sharded training, its collectives, and checkpoints."""

from __future__ import annotations

from typing import Any

import torch
from accelerate import Accelerator, FullyShardedDataParallelPlugin
from accelerate.utils import GradScalerKwargs, broadcast, gather_object
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.distributed.tensor import DTensor

from clients.accelerate import accelerator, loader, model, steps, unbroken
from clients.ranks import Found, digest


def trained(device: str, **options: Any) -> tuple[Accelerator, Any, list[float]]:
    """Two epochs of each rank's half of the data, with accumulation and clipping; returns the losses."""
    run = accelerator(device, gradient_accumulation_steps=2, **options)
    net = model()
    net, optimizer, batches = run.prepare(net, torch.optim.AdamW(net.parameters(), 1e-2), loader())
    return run, net, steps(run, net, optimizer, batches) + steps(run, net, optimizer, batches)


def found(run: Accelerator, net: Any, losses: Any) -> Found:
    device = str(next(net.parameters()).device)
    return Found(device, [run.num_processes, run.process_index, losses], digest(net.parameters()))


def ddp(device: str, _: str) -> Found:
    return found(*trained(device))


def ddp_bf16(device: str, _: str) -> Found:
    return found(*trained(device, mixed_precision="bf16"))


# accelerate has no FSDP for the CPU, which trains the same by DDP.


def fsdp2(device: str, _: str) -> Found:
    if device == "cpu":
        return found(*trained(device))
    run, net, losses = trained(device, fsdp_plugin=FullyShardedDataParallelPlugin(fsdp_version=2))
    if not all(isinstance(parameter, DTensor) for parameter in net.parameters()):
        raise RuntimeError("the model has parameters that are not sharded")
    return found(run, net, losses)


def fsdp1_fp16(device: str, _: str) -> Found:
    """With the scaler for sharded gradients. The CPU's Accelerator has no fp16; its fp32 is what is compared."""
    if device == "cpu":
        run, _net, losses = trained(device)
        return Found(str(run.device), [run.num_processes, True, losses])
    plugin = FullyShardedDataParallelPlugin(fsdp_version=1, use_orig_params=True)
    # From the default of 65536 the first steps would overflow and be skipped.
    handlers = [GradScalerKwargs(init_scale=256)]
    run, net, losses = trained(device, mixed_precision="fp16", kwargs_handlers=handlers, fsdp_plugin=plugin)
    scaled = isinstance(run.scaler, ShardedGradScaler) and run.scaler.is_enabled()
    return Found(str(next(net.parameters()).device), [run.num_processes, scaled, losses])


def collectives(device: str, _: str) -> Found:
    """With 21 samples in batches of 4 the last ones are padded, which gather_for_metrics takes back."""
    run = accelerator(device)
    samples: Any = torch.arange(21.0)
    samples = run.prepare(torch.utils.data.DataLoader(samples, batch_size=4))
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


def checkpoint(device: str, folder: str, **options: Any) -> Found:
    """With dropout, whose random numbers each rank has for itself."""
    run, as_unbroken = unbroken(device, folder, **options)
    return Found(str(run.device), [run.num_processes, as_unbroken])


def checkpoint_fsdp2(device: str, folder: str) -> Found:
    if device == "cpu":
        return checkpoint(device, folder)
    return checkpoint(device, folder, fsdp_plugin=FullyShardedDataParallelPlugin(fsdp_version=2))
