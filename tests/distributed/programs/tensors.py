"""Distributed tensors and what is built on them: parallel layers, pipelines, functional collectives."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
import torch.distributed.nn.functional as differentiable
import torch.distributed.tensor as distributed_tensor
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.experimental import _attention as attention
from torch.distributed.tensor.experimental import context_parallel as split_context
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, SequenceParallel, parallelize_module

from distributed.cases import Cases, Place, Places, run
from distributed.programs.models import Blocks, train, whole

CASES = Cases()
Tensors = list[torch.Tensor]


def parallel(place: Place) -> Blocks:
    model = Blocks().to(place.device)
    plan: dict[str, Any] = {}
    for number in range(len(model.blocks)):
        plan |= {f"blocks.{number}.up": ColwiseParallel(), f"blocks.{number}.down": RowwiseParallel()}
    parallelize_module(model, place.mesh, plan)
    return model


@CASES.compared
def tensor_parallel(place: Place) -> Tensors:
    # The batches of all ranks are the same. PyTorch refuses lists of distributed and plain tensors, as foreach has.
    return train(parallel(place), place.device, 0, foreach=False)


@CASES.compared
def sequence_parallel(place: Place) -> Tensors:
    model = Blocks().to(place.device)
    plan: dict[str, Any] = {"emb": ColwiseParallel(output_layouts=Shard(0), use_local_output=False)}
    for number in range(len(model.blocks)):
        plan[f"blocks.{number}.norm"] = SequenceParallel(sequence_dim=0)
        plan[f"blocks.{number}.up"] = ColwiseParallel(input_layouts=Shard(0))
        plan[f"blocks.{number}.down"] = RowwiseParallel(output_layouts=Shard(0), use_local_output=False)
    plan["head"] = RowwiseParallel(input_layouts=Shard(0), output_layouts=Replicate())
    parallelize_module(model, place.mesh, plan)
    return train(model, place.device, 0)


def refusal(call: Callable[[Place], Any], place: Place) -> str:
    """The first line of the error's text; "" if there is none."""
    try:
        call(place)
    except Exception as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return ""


@CASES
def foreach_of_mixed_lists(places: Places) -> list[str]:
    """What PyTorch refuses for every device: the texts on tb and on the CPU."""
    return [
        refusal(lambda place: train(parallel(place), place.device, 0, foreach=True), p) for p in (places.tb, places.cpu)
    ]


def parts_of_attention() -> Tensors:
    """Query, key, value and a gradient, of two batches, four heads and 64 places in the sequence."""
    torch.manual_seed(5)
    return [torch.randn(2, 4, 64, 8) for _ in range(4)]


def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, grad: torch.Tensor, **how: Any) -> Tensors:
    """The result and the three gradients."""
    inputs = [part.detach().clone().requires_grad_() for part in (query, key, value)]
    out = nn.functional.scaled_dot_product_attention(*inputs, **how)
    out.backward(grad)
    grads = [part.grad for part in inputs if part.grad is not None]
    assert len(grads) == 3
    return [out.detach(), *grads]


def attend_in_parts(place: Place, balance: bool = True, rotate: str = "allgather", **how: Any) -> Tensors:
    """With the sequence divided among the ranks, and put together again."""
    attention._cp_options.enable_load_balance = balance
    attention.set_rotate_method(rotate)
    mine = [part.to(place.device) for part in parts_of_attention()]
    sequence = [2] * len(mine)
    with split_context(place.mesh, buffers=mine, buffer_seq_dims=sequence):
        found = attend(*mine, **how)
        assert found[0].shape[2] * place.size == 64, "each rank has its part of the sequence"
        whole_again = attention.context_parallel_unshard(place.mesh, found, sequence)
    return [part.cpu() for part in whole_again]


@CASES
def context_parallel(places: Places) -> list[float]:
    """By how much results and gradients differ from the attention of the whole sequence on the CPU."""
    worst = []
    for balance, is_causal in ((True, True), (False, True), (False, False)):
        expected = attend(*parts_of_attention(), is_causal=is_causal)
        for rotate in ("allgather", "alltoall"):
            found = attend_in_parts(places.tb, balance, rotate, is_causal=is_causal)
            worst += [float((one - other).abs().max()) for one, other in zip(found, expected, strict=True)]
    return worst


@CASES
def context_parallel_of_others(places: Places) -> list[str]:
    """What attention by plain products would get wrong, and what is asked for on the CPU."""
    mask = torch.ones(64 // places.tb.size, 64 // places.tb.size, dtype=torch.bool, device=places.tb.device)
    return [
        refusal(functools.partial(attend_in_parts, is_causal=True, dropout_p=0.1), places.tb),
        refusal(functools.partial(attend_in_parts, attn_mask=mask), places.tb),
        refusal(functools.partial(attend_in_parts, is_causal=True), places.cpu),
    ]


@CASES.compared
def operators(place: Place) -> Tensors:
    mesh = place.mesh
    torch.manual_seed(7)
    a, b = torch.randn(8, 12).to(place.device), torch.randn(12, 8).to(place.device)
    x, y = distribute_tensor(a, mesh, [Shard(0)]), distribute_tensor(b, mesh, [Shard(1)])
    local = DTensor.from_local(torch.ones(2, 3, device=place.device) * place.rank, mesh, [Shard(0)])
    partial = DTensor.from_local(torch.ones(4, device=place.device) * place.rank, mesh, [Partial()])
    found = [
        *(x @ y, x.redistribute(mesh, [Shard(1)]) @ y.redistribute(mesh, [Shard(0)]), x.t() + y, x.sum(), x.softmax(1)),
        *(local + 1, local.mean(), partial.redistribute(mesh, [Shard(0)]), partial * 2, x.max(), x.std(0)),
        *(nn.functional.layer_norm(x, [12]), x.view(4, 24) if place.size == 2 else x, x[:, 2:5], torch.cat([x, x], 1)),
    ]
    return [whole(tensor) for tensor in found]


@CASES.compared
def gradients(place: Place) -> Tensors:
    torch.manual_seed(8)
    x = distribute_tensor(torch.randn(8, 12).to(place.device), place.mesh, [Shard(0)]).requires_grad_()
    w = distribute_tensor(torch.randn(12, 6).to(place.device), place.mesh, [Replicate()]).requires_grad_()
    (x @ w).tanh().sum().backward()
    assert x.grad is not None
    assert w.grad is not None
    return [whole(x.grad), whole(w.grad)]


@CASES
def random_numbers(places: Places) -> bool:
    """Distributed random numbers and dropout are the same on every rank, and differ between shards."""
    place = places.tb
    torch.manual_seed(3)
    drawn = [
        distributed_tensor.rand(8, 6, device_mesh=place.mesh, placements=[Shard(0)]),
        distributed_tensor.randn(8, 6, device_mesh=place.mesh, placements=[Shard(1)]),
        distributed_tensor.rand(8, 6, device_mesh=place.mesh, placements=[Replicate()]),
        nn.functional.dropout(distribute_tensor(torch.ones(8, 6).to("tb"), place.mesh, [Shard(0)]), 0.5),
    ]
    mine = [whole(tensor) for tensor in drawn]
    every: list[Any] = [None] * place.size
    dist.all_gather_object(every, mine)
    rows = 8 // place.size
    assert not torch.equal(mine[0][:rows], mine[0][rows : 2 * rows]), "two shards have the same numbers"
    return all(torch.equal(a, b) for other in every for a, b in zip(mine, other, strict=True))


@CASES.compared
def meshes(place: Place) -> Tensors:
    """Slices of a mesh of two dimensions, and the flattened one."""
    mesh = init_device_mesh(place.device, (2, place.size // 2), mesh_dim_names=("outer", "inner"))
    flat = mesh["outer", "inner"]._flatten("flat")
    x = torch.arange(8.0).to(place.device)
    outs = []
    for part in (mesh["outer"], mesh["inner"], flat):
        local = DTensor.from_local(x + place.rank, part, [Shard(0)])
        outs += [whole(local), whole(local.sum())]
    return outs


@CASES.compared
def pipeline(place: Place) -> Tensors:
    outs = []
    for kind in (ScheduleGPipe, Schedule1F1B):
        torch.manual_seed(11)
        parts = [nn.Sequential(nn.Linear(64, 64), nn.Tanh()) for _ in range(place.size)]
        mine = parts[place.rank].to(place.device)
        stage = PipelineStage(mine, place.rank, place.size, torch.device(place.device), group=place.group)
        schedule = kind(stage, 4, loss_fn=nn.functional.mse_loss)
        losses: list[torch.Tensor] = []
        if place.rank == 0:
            schedule.step(torch.randn(16, 64).to(place.device))
        elif place.rank == place.size - 1:
            schedule.step(target=torch.ones(16, 64, device=place.device), losses=losses)
        else:
            schedule.step()
        outs += [parameter.grad for parameter in mine.parameters() if parameter.grad is not None] + losses
    return outs


def collectives(x: torch.Tensor, group: Any) -> list[Any]:
    outs: list[Any] = [
        functional.all_reduce(x, "sum", group),
        functional.all_gather_tensor(x, 0, group),
        functional.reduce_scatter_tensor(x, "sum", 0, group),
        functional.all_to_all_single(x, None, None, group),
        functional.broadcast(x, 0, group),
    ]
    outs += functional.all_reduce_coalesced([x, x + 1], "sum", group)
    outs += functional.all_gather_into_tensor_coalesced([x, x + 1], group)
    outs += functional.reduce_scatter_tensor_coalesced([x, x + 1], "sum", [0, 0], group)
    return outs


@CASES.compared
def functional_collectives(place: Place) -> Tensors:
    return [out * 1 for out in collectives(torch.arange(8.0).to(place.device) + place.rank, place.group)]


@CASES.compared
def differentiable_collectives(place: Place) -> Tensors:
    x = (torch.arange(12.0) + place.rank).to(place.device).requires_grad_()
    group = place.group
    half = 12 // place.size
    out = differentiable.all_reduce(x * x, group=group).sum()  # type: ignore[no-untyped-call]
    out = out + torch.stack(differentiable.all_gather(x * 2, group=group)).pow(2).sum()  # type: ignore[no-untyped-call]
    pieces = [piece * (number + 1) for number, piece in enumerate(x.split(half))]
    empty = torch.empty(half, device=place.device)
    out = out + differentiable.reduce_scatter(empty, pieces, group=group).sum()  # type: ignore[no-untyped-call]
    moved = differentiable.all_to_all_single(torch.empty(12, device=place.device), x * 5, group=group)  # type: ignore[no-untyped-call]
    out = out + moved.pow(2).sum() + differentiable.broadcast(x * 1, 0, group=group).sum()  # type: ignore[no-untyped-call]
    out.backward()
    assert x.grad is not None
    return [out, x.grad]


def compiled(place: Place, backend: str) -> Tensors:
    """Functional collectives between operators, compiled."""
    torch.compiler.reset()
    group = place.group

    def step(x: torch.Tensor) -> torch.Tensor:
        y = functional.all_reduce(x.sin() * 2, "sum", group)
        z = functional.all_gather_tensor(y.cos(), 0, group)
        return z.reshape(-1, x.numel()).sum(0) + y

    function = torch.compile(step, backend=backend, fullgraph=True)
    outs = [function(torch.arange(8.0).to(place.device) + place.rank + turn) for turn in range(3)]
    torch.compiler.reset()
    return outs


@CASES.compared
def compiled_with_aot_eager(place: Place) -> Tensors:
    return compiled(place, "aot_eager")


@CASES.compared
def compiled_with_the_default(place: Place) -> Tensors:
    return compiled(place, "inductor")


@CASES.compared
def compiled_with_tb(place: Place) -> Tensors:
    return compiled(place, "tb" if place.on_tb else "aot_eager")


@CASES.compared
def compiled_data_parallel(place: Place) -> Tensors:
    torch.compiler.reset()
    model = nn.parallel.DistributedDataParallel(Blocks().to(place.device), process_group=place.group)
    return train(torch.compile(model, backend="aot_eager"), place.device, place.rank)  # type: ignore[arg-type]


if __name__ == "__main__":
    run(CASES)
