"""DistributedDataParallel in its variants, hooks, Join, ZeroRedundancyOptimizer, SyncBatchNorm."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer, _apply_optimizer_in_backward
from torch.nn.parallel import DistributedDataParallel

from distributed.cases import Cases, Place, Places, run
from distributed.programs.models import CLASSES, FEATURES, batch, mlp, train, whole

CASES = Cases()
Tensors = list[torch.Tensor]


def ddp(place: Place, model: nn.Module | None = None, **options: Any) -> DistributedDataParallel:
    return DistributedDataParallel((model or mlp()).to(place.device), process_group=place.group, **options)


@CASES.compared
def plain(place: Place) -> Tensors:
    return train(ddp(place), place.device, place.rank)


@CASES.compared
def small_buckets(place: Place) -> Tensors:
    return train(ddp(place, bucket_cap_mb=0.02), place.device, place.rank)


@CASES.compared
def views_and_static_graph(place: Place) -> Tensors:
    model = ddp(place, gradient_as_bucket_view=True, static_graph=True)
    return train(model, place.device, place.rank)


@CASES.compared
def device_ids(place: Place) -> Tensors:
    ids = [torch.accelerator.current_device_index()] if place.on_tb else None
    return train(ddp(place, device_ids=ids), place.device, place.rank)


@CASES.compared
def unused_parameters(place: Place) -> Tensors:
    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(4)
            self.trunk, self.one, self.other = mlp(), nn.Linear(FEATURES, FEATURES), nn.Linear(FEATURES, FEATURES)
            self.turn = 0

        def forward(self, x: torch.Tensor) -> Any:
            self.turn += 1
            return self.trunk(self.one(x) if (self.turn + place.rank) % 2 else self.other(x))

    return train(ddp(place, Odd(), find_unused_parameters=True), place.device, place.rank)


@CASES.compared
def no_sync(place: Place) -> Tensors:
    model = ddp(place)

    def sync(step: int) -> contextlib.AbstractContextManager[Any]:
        return model.no_sync() if step % 2 else contextlib.nullcontext()

    return train(model, place.device, place.rank, sync=sync)


@CASES.compared
def buffers(place: Place) -> Tensors:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(FEATURES, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, CLASSES))
    wrapped = ddp(place, model)
    return train(wrapped, place.device, place.rank) + [buffer.cpu() for buffer in wrapped.buffers()]


@CASES.compared
def mixed_precision(place: Place) -> Tensors:
    model, (x, y) = ddp(place), batch(0, place.device, place.rank)
    with torch.autocast(place.device, torch.bfloat16):
        loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()  # type: ignore[no-untyped-call]
    # Autocast rounds in other places on the two devices: the sum over ranks is what is compared.
    norm = torch.stack([p.grad.norm() for p in model.parameters() if p.grad is not None]).norm()
    every = [torch.zeros_like(norm) for _ in range(place.size)]
    dist.all_gather(every, norm, group=place.group)
    return [(torch.stack(every) - norm).abs().max()]


@CASES.compared
def hook_in_half_precision(place: Place) -> Tensors:
    model = ddp(place)
    model.register_comm_hook(place.group, fp16_compress_hook)
    return train(model, place.device, place.rank)


@CASES.compared
def hook_in_python(place: Place) -> Tensors:
    # Without annotations: PyTorch compares them, and takes no text for a class.
    def hook(state, bucket):  # type: ignore[no-untyped-def]
        work = dist.all_reduce(bucket.buffer().div_(place.size), group=place.group, async_op=True)
        assert work is not None
        return work.get_future().then(lambda done: done.value()[0] * 1.0)

    model = ddp(place)
    model.register_comm_hook(None, hook)
    return train(model, place.device, place.rank)


@CASES.compared
def hook_power_sgd(place: Place) -> Tensors:
    model = ddp(place)
    state = powerSGD_hook.PowerSGDState(place.group, start_powerSGD_iter=2)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    return train(model, place.device, place.rank)


@CASES.compared
def optimizer_in_backward(place: Place) -> Tensors:
    class Nothing:
        def step(self) -> None:
            pass

        zero_grad = step

    model = mlp().to(place.device)
    _apply_optimizer_in_backward(torch.optim.SGD, model.parameters(), {"lr": 0.05})
    return train(ddp(place, model), place.device, place.rank, optimizer=Nothing())


@CASES.compared
def join(place: Place) -> Tensors:
    model = ddp(place)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = []
    with Join([model]):
        for step in range(4 + place.rank):
            x, y = batch(step, place.device, place.rank)
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses.append(loss.detach())
    return [torch.stack(losses), *map(whole, model.parameters())]


@CASES.compared
def zero_redundancy_optimizer(place: Place) -> Tensors:
    model = ddp(place)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, process_group=place.group, lr=1e-2)
    return train(model, place.device, place.rank, optimizer=optimizer)


def normed(place: Places, training: bool, affine: bool) -> dict[str, float]:
    """SyncBatchNorm on tb against BatchNorm of the whole batch on the CPU: the largest relative difference."""
    rank, size = place.tb.rank, place.tb.size
    random = torch.Generator().manual_seed(0)
    everything = torch.randn(4 * size, 3, 8, 8, generator=random, dtype=torch.float64)
    mine = slice(4 * rank, 4 * rank + 4)
    plain = nn.BatchNorm2d(3, affine=affine, dtype=torch.float64).train(training)
    sync = nn.SyncBatchNorm(3, affine=affine, dtype=torch.float64).to(place.tb.device).train(training)
    x = everything.clone().requires_grad_()
    y = everything[mine].to(place.tb.device).requires_grad_()
    expected, found = plain(x), sync(y)
    expected.pow(3).sum().backward()
    found.pow(3).sum().backward()
    assert x.grad is not None
    assert y.grad is not None
    assert plain.running_mean is not None
    assert plain.running_var is not None
    pairs = [(expected[mine], found), (x.grad[mine], y.grad)]
    pairs += [(plain.running_mean, sync.running_mean), (plain.running_var, sync.running_var)]
    for name in ("weight", "bias") if affine else ():
        gradient = getattr(sync, name).grad.clone()
        dist.all_reduce(gradient, group=place.tb.group)
        pairs.append((getattr(plain, name).grad, gradient))
    worst = {}
    for number, (one, other) in enumerate(pairs):
        scale = one.abs().max().clamp(min=1e-12)
        worst[f"{'training' if training else 'evaluation'}, pair {number}"] = (
            (one - other.cpu()).abs().max() / scale
        ).item()
    return worst


@CASES
def sync_batch_norm(places: Places) -> dict[str, Any]:
    torch.tb.reset_fallbacks()  # type: ignore[attr-defined]
    worst: dict[str, float] = {}
    for training in (True, False):
        for affine in (True, False):
            worst |= {f"{name}, {affine}": value for name, value in normed(places, training, affine).items()}
    return {"worst": max(worst.values()), "fallbacks": [row.operator for row in torch.tb.fallbacks()]}  # type: ignore[attr-defined]


@CASES
def times_of_the_reducer(places: Places) -> dict[str, float]:
    """What DDP's logger measures of a device: forward, backward and communication, in nanoseconds."""
    model = DistributedDataParallel(mlp().to(places.tb.device), process_group=places.tb.group)
    for step in range(12):
        x, y = batch(step, places.tb.device, places.tb.rank)
        nn.functional.cross_entropy(model(x), y).backward()  # type: ignore[no-untyped-call]
    data = model._get_ddp_logging_data()
    return {name: float(value) for name, value in data.items() if name.startswith("avg_") and name.endswith("time")}


if __name__ == "__main__":
    run(CASES)
