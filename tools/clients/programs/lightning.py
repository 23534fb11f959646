"""Lightning on several ranks: the Trainer and Fabric, data parallel and sharded, with validation and checkpoints."""

from __future__ import annotations

import dataclasses
from typing import Any

import lightning
import torch
from lightning.fabric.strategies import FSDPStrategy as FabricFSDPStrategy
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.strategies import DDPStrategy, FSDPStrategy, ModelParallelStrategy
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard
from torch.distributed.tensor import DTensor

from clients.lightning import Regression, loader, trainer
from clients.ranks import Found, digest


class OfRanks(Regression):
    """It logs the mean of the losses of all ranks."""

    def validation_step(self, batch: Any, _: int) -> None:
        loss = self.loss(batch)
        self.validated.append(loss.item())
        self.log("val_loss", loss, sync_dist=True)


class Sharded(OfRanks):
    """Sharded by FSDP2."""

    def configure_model(self) -> None:
        fully_shard(self.net, mesh=self.device_mesh["data_parallel"])

    def on_before_optimizer_step(self, _: Any) -> None:
        if not all(isinstance(parameter, DTensor) for parameter in self.parameters()):
            raise RuntimeError("the optimizer has parameters that are not sharded")


def start(device: str, folder: str, **options: Any) -> Any:
    """A Trainer that chooses on tb what the options leave open. The CPU has as many devices as the options say."""
    return trainer(device, folder, **{**({"devices": 2} if device == "cpu" else {}), **options})


def found(run: Any, model: Any) -> Found:
    metrics = {name: value.item() for name, value in run.callback_metrics.items()}
    values = [run.world_size, run.global_rank, model.losses, model.validated, metrics["val_loss"]]
    return Found(str(model.ran_on), values, [metrics["val_loss"], digest(model.parameters())])


def fit(device: str, folder: str, model: Any = None, **options: Any) -> Found:
    run, model = start(device, folder, **options), model or OfRanks()
    run.fit(model, loader(), loader())
    return found(run, model)


def by_default(device: str, folder: str) -> Found:
    return fit(device, folder)


def ddp_bf16(device: str, folder: str) -> Found:
    options = {"strategy": "ddp", "precision": "bf16-mixed", "accumulate_grad_batches": 2, "gradient_clip_val": 0.5}
    return fit(device, folder, accelerator="auto", devices=2, **options)


def ddp_hook(device: str, folder: str) -> Found:
    """Lightning leaves hooks out on the CPU."""
    buckets = []

    def average(bucket: Any) -> Any:
        buckets.append(bucket.index())
        world: Any = torch.distributed.group.WORLD
        return allreduce_hook(world, bucket)

    # PyTorch reads the annotations of a hook, and takes none that are texts.
    result = fit(device, folder, strategy=DDPStrategy(ddp_comm_hook=lambda state, bucket: average(bucket)))
    return dataclasses.replace(result, values=[*result.values, device == "cpu" or len(buckets) > 0])


# Lightning has no FSDP for the CPU, which trains the same by DDP.


def fsdp(device: str, folder: str) -> Found:
    if device == "cpu":
        return fit(device, folder)
    run, model = start(device, folder, strategy="fsdp"), OfRanks()
    run.fit(model, loader(), loader())
    with FullyShardedDataParallel.summon_full_params(run.strategy.model):
        return found(run, model)


def fsdp_fp16(device: str, folder: str) -> Found:
    """With the scaler for sharded gradients, and losses so small that no step overflows; against the CPU in fp32."""
    strategy = FSDPStrategy(device_mesh=(1, 2), sharding_strategy="HYBRID_SHARD")
    options = {} if device == "cpu" else {"strategy": strategy, "precision": "16-mixed"}
    run, model = start(device, folder, **options), OfRanks()
    model.scale = 1e-3
    run.fit(model, loader(), loader())
    in_fp16 = model.computed_in == {torch.float16} and run.precision_plugin.scaler.is_enabled()
    return Found(str(model.ran_on), [device == "cpu" or in_fp16, [loss / model.scale for loss in model.losses]])


def fsdp2(device: str, folder: str) -> Found:
    if device == "cpu":
        return fit(device, folder)
    return fit(device, folder, Sharded(), strategy=ModelParallelStrategy(data_parallel_size=2, tensor_parallel_size=1))


def checkpoint(device: str, folder: str) -> Found:
    """Rank 0 saves, all load: the second epoch is that of an unbroken run."""
    saver = ModelCheckpoint(folder, filename="first", monitor="val_loss")
    start(device, folder, max_epochs=1, enable_checkpointing=True, callbacks=[saver]).fit(OfRanks(), loader(), loader())
    whole, resumed = OfRanks(), OfRanks()
    start(device, folder).fit(whole, loader(), loader())
    run = start(device, folder)
    run.fit(resumed, loader(), loader(), ckpt_path=f"{folder}/first.ckpt")
    return Found(str(resumed.ran_on), [run.world_size, resumed.losses == whole.losses[2:], resumed.losses])


def fabric(device: str, **options: Any) -> Found:
    if device == "cpu":
        options |= {"accelerator": "cpu", "devices": 2}
    run = lightning.Fabric(**options)
    run.launch()
    model = Regression()
    net = run.setup_module(model.net)
    optimizer = run.setup_optimizers(torch.optim.AdamW(net.parameters(), 1e-2))
    losses = []
    for inputs, targets in run.setup_dataloaders(loader()):
        loss = torch.nn.functional.mse_loss(net(inputs).float(), targets)
        run.backward(loss)
        run.clip_gradients(net, optimizer, max_norm=0.5)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    mean, everyone = run.all_reduce(loss.detach(), reduce_op="mean").item(), run.all_gather(loss.detach()).tolist()
    sent = run.broadcast([run.global_rank])
    values = [run.world_size, run.global_rank, losses, mean, everyone, sent]
    return Found(str(inputs.device), values, [mean, everyone, sent])


def fabric_ddp(device: str, _: str) -> Found:
    return fabric(device)


def fabric_fsdp(device: str, _: str) -> Found:
    if device == "cpu":
        return fabric(device, precision="bf16-mixed")
    strategy = FabricFSDPStrategy(device_mesh=(1, 2), sharding_strategy="HYBRID_SHARD")
    return fabric(device, strategy=strategy, precision="bf16-mixed")
