"""FSDP2, FSDP1 and hybrid sharding, and the checkpoints of sharded models."""

from __future__ import annotations

import itertools
import pathlib
import tempfile
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_model_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import (
    CPUOffload,
    CPUOffloadPolicy,
    FullyShardedDataParallel,
    MixedPrecisionPolicy,
    ShardingStrategy,
    fully_shard,
)
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from distributed.cases import Cases, Place, Places, run
from distributed.programs.models import Blocks, batch, mlp, train, whole

CASES = Cases()
Tensors = list[torch.Tensor]


def shard(place: Place, mesh: DeviceMesh | None = None, **options: Any) -> Blocks:
    """Every block, and then the model."""
    model = Blocks().to(place.device)
    for block in model.blocks:
        fully_shard(block, mesh=mesh or place.mesh, **options)
    fully_shard(model, mesh=mesh or place.mesh, **options)
    return model


def two_dimensions(place: Place) -> DeviceMesh:
    return init_device_mesh(place.device, (2, place.size // 2), mesh_dim_names=("outer", "inner"))


@CASES.compared
def fsdp2(place: Place) -> Tensors:
    return train(shard(place), place.device, place.rank)


@CASES.compared
def fsdp2_without_resharding(place: Place) -> Tensors:
    return train(shard(place, reshard_after_forward=False), place.device, place.rank)


@CASES.compared
def fsdp2_mixed_precision(place: Place) -> Tensors:
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    return train(shard(place, mp_policy=policy), place.device, place.rank)


@CASES.compared
def fsdp2_prefetching(place: Place) -> Tensors:
    model = shard(place)
    blocks: list[Any] = list(model.blocks)
    for block, following in itertools.pairwise(blocks):
        block.set_modules_to_forward_prefetch([following])
        following.set_modules_to_backward_prefetch([block])
    return train(model, place.device, place.rank)


@CASES.compared
def fsdp2_gradient_accumulation(place: Place) -> Tensors:
    model: Any = shard(place)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(4):
        model.set_requires_gradient_sync(step % 2 == 1)
        x, y = batch(step, place.device, place.rank)
        nn.functional.cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
        if step % 2 == 1:
            optimizer.step()
            optimizer.zero_grad()
    return [whole(parameter) for parameter in model.parameters()]


@CASES.compared
def fsdp2_clipping(place: Place) -> Tensors:
    model, (x, y) = shard(place), batch(0, place.device, place.rank)
    nn.functional.cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
    norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    return [whole(norm), *(whole(parameter.grad) for parameter in model.parameters() if parameter.grad is not None)]


@CASES.compared
def fsdp2_meta_initialization(place: Place) -> Tensors:
    with torch.device("meta"):
        model = mlp()
    fully_shard(model, mesh=place.mesh)
    model.to_empty(device=place.device)
    set_model_state_dict(model, mlp().state_dict(), options=StateDictOptions(full_state_dict=True))
    return train(model, place.device, place.rank)


@CASES.compared
def fsdp1(place: Place) -> Tensors:
    device = torch.device("tb", torch.accelerator.current_device_index()) if place.on_tb else torch.device("cpu")
    model = FullyShardedDataParallel(Blocks(), process_group=place.group, device_id=device, use_orig_params=True)
    return train(model, place.device, place.rank)


@CASES.compared
def fsdp1_flat_parameters(place: Place) -> Tensors:
    device = torch.device("tb", torch.accelerator.current_device_index()) if place.on_tb else torch.device("cpu")
    model = FullyShardedDataParallel(
        Blocks(), process_group=place.group, device_id=device, sharding_strategy=ShardingStrategy.SHARD_GRAD_OP
    )
    return train(model, place.device, place.rank)


@CASES.compared
def hybrid(place: Place) -> Tensors:
    return train(shard(place, two_dimensions(place)), place.device, place.rank)


@CASES.compared
def fsdp2_and_tensor_parallel(place: Place) -> Tensors:
    mesh = two_dimensions(place)
    model = Blocks().to(place.device)
    for block in model.blocks:
        parallelize_module(block, mesh["inner"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
        fully_shard(block, mesh=mesh["outer"])
    fully_shard(model, mesh=mesh["outer"])
    # PyTorch refuses lists of distributed and plain tensors, which foreach would make.
    return train(model, place.device, mesh["outer"].get_local_rank(), foreach=False)


@CASES.compared
def gradient_scaler(place: Place) -> Tensors:
    model = shard(place)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = ShardedGradScaler(device=place.device, process_group=place.group, init_scale=2.0**4)
    losses = []
    for step in range(3):
        x, y = batch(step, place.device, place.rank)
        loss = nn.functional.cross_entropy(model(x), y)
        scaler.scale(loss).backward()  # type: ignore[no-untyped-call]
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return losses + [whole(parameter) for parameter in model.parameters()]


def shared_folder(place: Place) -> pathlib.Path:
    """A new folder of the first rank, whose name all ranks have."""
    name: list[Any] = [tempfile.mkdtemp() if place.rank == 0 else None]
    dist.broadcast_object_list(name, 0)
    return pathlib.Path(name[0])


def continued(place: Place, save: Callable[[Any, str], object]) -> Tensors:
    """Trains, saves, loads into a new model and optimizer, and trains these on."""
    model = shard(place)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    train(model, place.device, place.rank, optimizer)
    folder = str(shared_folder(place) / "checkpoint")
    parameters, moments = get_state_dict(model, optimizer)
    save({"model": parameters, "optimizer": moments}, folder)
    other = shard(place)
    other_optimizer = torch.optim.AdamW(other.parameters(), lr=1e-2)
    parameters, moments = get_state_dict(other, other_optimizer)
    state = {"model": parameters, "optimizer": moments}
    dcp.load(state, checkpoint_id=folder, process_group=place.group)
    set_state_dict(other, other_optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"])
    for one, another in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(whole(one), whole(another))
    return train(other, place.device, place.rank, other_optimizer)


@CASES.compared
def checkpoint(place: Place) -> Tensors:
    return continued(place, lambda state, folder: dcp.save(state, checkpoint_id=folder, process_group=place.group))


@CASES.compared
def asynchronous_checkpoint(place: Place) -> Tensors:
    def save(state: Any, folder: str) -> None:
        response: Any = dcp.async_save(state, checkpoint_id=folder, process_group=cpu_group())
        response.result()

    return continued(place, save)


def cpu_group() -> dist.ProcessGroup:
    """The group of the default one's ranks that serves CPU tensors, as async_save wants it."""
    default = dist.group.WORLD
    assert default is not None
    return default


@CASES.compared
def full_state(place: Place) -> Tensors:
    """All of a sharded model on each rank."""
    model = shard(place)
    train(model, place.device, place.rank)
    state = get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))
    assert not any(hasattr(value, "full_tensor") for value in state.values())
    return [value.cpu() for value in state.values()]


@CASES
def offloading(places: Places) -> str:
    """FSDP2's CPU offloading on tb: the losses, or the refusal."""
    losses = []
    for policy in ({}, {"offload_policy": CPUOffloadPolicy(pin_memory=False)}):
        model = shard(places.tb, **policy)
        losses.append(train(model, places.tb.device, places.tb.rank)[0].tolist())
    return "" if losses[0] == losses[1] else f"{losses[0]}, offloaded {losses[1]}"


@CASES
def offloading_of_whole_models(places: Places) -> str:
    """FSDP1's CPU offloading without sharding: which gradients it changes, of kernels that take longer than the host.

    PyTorch frees the parameters of a layer while its kernels may run.
    """
    device = torch.device("tb", torch.accelerator.current_device_index())
    gradients: list[Tensors] = []
    for offload in (False, True):
        options: dict[str, Any] = {
            "process_group": places.tb.group,
            "device_id": device,
            "sharding_strategy": ShardingStrategy.NO_SHARD,
            "cpu_offload": CPUOffload(offload),
            "use_orig_params": True,
        }
        torch.manual_seed(0)
        layers = [nn.Sequential(nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 512)) for _ in range(4)]
        model = FullyShardedDataParallel(
            nn.Sequential(*(FullyShardedDataParallel(layer, **options) for layer in layers)), **options
        )
        x = torch.randn(256, 512, device=device)
        gradients.append([])
        for _ in range(3):
            model.zero_grad()
            model(x).square().sum().backward()
            gradients[-1] += [parameter.grad.cpu().clone() for parameter in model.parameters()]
    differ = [index for index, pair in enumerate(zip(*gradients, strict=True)) if not torch.equal(*pair)]
    return f"{len(differ)} of {len(gradients[0])} gradients differ" if differ else ""


if __name__ == "__main__":
    run(CASES)
