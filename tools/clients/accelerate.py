"""accelerate: Accelerator in every precision, checkpoints, loaders, device maps, offloading, several ranks."""

from __future__ import annotations

import functools
import tempfile
from typing import Any

import tb_compile
import torch
from accelerate import Accelerator, dispatch_model, infer_auto_device_map
from accelerate.state import AcceleratorState, GradientState, PartialState
from accelerate.utils import GradScalerKwargs, set_seed

from clients.checks import Checks, Ran
from clients.ranks import on_ranks

checks = Checks("accelerate")


def accelerator(device: str, **options: Any) -> Accelerator:
    AcceleratorState._reset_state(True)
    GradientState._reset_state()
    return Accelerator(cpu=True, **options) if device == "cpu" else Accelerator(**options)


def model(dropout: float = 0.0) -> torch.nn.Module:
    set_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(8, 32),
        torch.nn.ReLU(),
        torch.nn.Dropout(dropout),
        torch.nn.LayerNorm(32),
        torch.nn.Linear(32, 2),
    )


def loader(**options: Any) -> torch.utils.data.DataLoader[Any]:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(32, 8, generator=generator)
    data = torch.utils.data.TensorDataset(inputs, inputs[:, :2] * 2)
    return torch.utils.data.DataLoader(data, batch_size=8, **options)


def steps(run: Accelerator, net: Any, optimizer: Any, batches: Any) -> list[float]:
    """One epoch; returns its losses."""
    losses = []
    for inputs, targets in batches:
        with run.accumulate(net):
            loss = torch.nn.functional.mse_loss(net(inputs).float(), targets)
            run.backward(loss)
            if run.sync_gradients:
                run.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
    return losses


def train(device: str, loader_options: dict[str, Any] | None = None, **options: Any) -> Ran:
    run = accelerator(device, **options)
    net = model()
    net, optimizer, batches = run.prepare(
        net, torch.optim.AdamW(net.parameters(), 1e-2), loader(**loader_options or {})
    )
    losses = steps(run, net, optimizer, batches) + steps(run, net, optimizer, batches)
    return Ran(next(net.parameters()).device, losses)


def train_fp16(device: str) -> Ran:
    """fp16 with the scaler; the CPU's Accelerator has no fp16, so that its fp32 is what is compared."""
    if device == "cpu":
        return Ran(train(device).device, [True, True, train(device).values])
    # From the default of 65536 the first steps would overflow and be skipped.
    options: dict[str, Any] = {"mixed_precision": "fp16", "kwargs_handlers": [GradScalerKwargs(init_scale=256)]}
    ran = train(device, **options)
    scaler = accelerator(device, **options).scaler
    return Ran(ran.device, [scaler is not None and scaler.is_enabled(), scaler._device == "tb", ran.values])


def train_captured(device: str, **options: Any) -> Ran:
    """With forward and backward passes as launches of a graph, where there are graphs."""
    run = accelerator(device, **({} if device == "cpu" else options))
    net = model()
    net, optimizer, batches = run.prepare(net, torch.optim.AdamW(net.parameters(), 1e-2), loader())

    @tb_compile.step
    def gradients(inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        loss = torch.nn.functional.mse_loss(net(inputs).float(), targets)
        run.backward(loss)
        return loss

    losses = []
    for _ in range(4):
        for inputs, targets in batches:
            with run.accumulate(net):
                losses.append(gradients(inputs, targets).item())
                optimizer.step()
                optimizer.zero_grad()
    return Ran(run.device, [losses, device == "cpu" or gradients.replays > 0])


checks.add("captured steps", train_captured)
checks.add("captured steps in bf16", functools.partial(train_captured, mixed_precision="bf16"), 3e-2)
checks.add(
    "captured steps in fp16 with a scaler",
    functools.partial(train_captured, mixed_precision="fp16", kwargs_handlers=[GradScalerKwargs(init_scale=256)]),
    3e-2,
)
checks.add("trains in fp32", functools.partial(train, mixed_precision="no"))
checks.add("trains in bf16", functools.partial(train, mixed_precision="bf16"), 3e-2)
checks.add("trains in fp16 with a scaler", train_fp16, 3e-2)
checks.add("accumulates gradients", functools.partial(train, gradient_accumulation_steps=2))
checks.add("loads with two workers", functools.partial(train, loader_options={"num_workers": 2}))
checks.add("loads from pinned memory", functools.partial(train, loader_options={"pin_memory": True}))


def unbroken(device: str, folder: str, **options: Any) -> tuple[Accelerator, bool]:
    """With dropout: whether a run that goes on after load_state has the losses of one that was never interrupted."""

    def start() -> Any:
        run = accelerator(device, **options)
        net = model(dropout=0.5)
        return run, run.prepare(net, torch.optim.AdamW(net.parameters(), 1e-2), loader())

    run, prepared = start()
    steps(run, *prepared)
    run.save_state(folder)
    expected = steps(run, *prepared)
    run, prepared = start()
    torch.manual_seed(99)
    run.load_state(folder)
    return run, steps(run, *prepared) == expected


def resumed(device: str, **options: Any) -> Ran:
    with tempfile.TemporaryDirectory() as folder:
        run, as_unbroken = unbroken(device, folder, **options)
    return Ran(run.device, as_unbroken)


checks.add("save_state and load_state with dropout", resumed)
checks.add("save_state and load_state in bf16", functools.partial(resumed, mixed_precision="bf16"))


@checks.check("save_state and load_state in fp16")
def resumed_fp16(device: str) -> Ran:
    return resumed(device) if device == "cpu" else resumed(device, mixed_precision="fp16")


@checks.check("gathers, reduces and broadcasts")
def gather(device: str) -> Ran:
    run = accelerator(device)
    value = torch.arange(4.0, device=run.device)
    return Ran(
        run.device,
        [run.gather(value), run.reduce(value, "sum"), run.pad_across_processes(value), run.gather_for_metrics(value)],
    )


@checks.check("random states are the same after set_seed")
def seeds(device: str) -> Ran:
    run = accelerator(device)
    set_seed(3)
    one = torch.rand(4, device=run.device)
    set_seed(3)
    return Ran(one.device, torch.equal(one, torch.rand(4, device=run.device)))


@checks.check("autocast")
def autocast(device: str) -> Ran:
    run = accelerator(device, mixed_precision="bf16")
    with run.autocast():
        product = torch.ones(2, 2, device=run.device) @ torch.ones(2, 2, device=run.device)
    return Ran(product.device, product)


@checks.check("device map of a model")
def device_map(device: str) -> Ran:
    net = model()
    places = {"": "cpu"} if device == "cpu" else infer_auto_device_map(net)
    net = dispatch_model(net, places, force_hooks=True)
    return Ran(next(net.parameters()).device, net(torch.ones(2, 8)).detach().cpu())


@checks.check("PartialState")
def partial_state(device: str) -> Ran:
    PartialState._reset_state()
    AcceleratorState._reset_state(True)
    state = PartialState(cpu=True) if device == "cpu" else PartialState()
    return Ran(state.device, state.num_processes)


checks.add("two ranks: DDP", on_ranks("accelerate", "ddp"))
checks.add("two ranks: DDP in bf16", on_ranks("accelerate", "ddp_bf16"), 3e-2)
checks.add("two ranks: FSDP2", on_ranks("accelerate", "fsdp2"))
checks.add("two ranks: FSDP1 in fp16 with a scaler", on_ranks("accelerate", "fsdp1_fp16"), 3e-2)
checks.add("two ranks: gathers, reduces and broadcasts", on_ranks("accelerate", "collectives"))
checks.add("two ranks: save_state and load_state with dropout", on_ranks("accelerate", "checkpoint"))
checks.add("two ranks: save_state and load_state with FSDP2", on_ranks("accelerate", "checkpoint_fsdp2"))
