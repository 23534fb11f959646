"""Training on tb gives the losses of stock cpu, natively, in float32 and under autocast."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from examples.demo.comparison import agree, losses, philox_masks
from examples.demo.corpus import read_corpus
from examples.demo.settings import ModelSettings, TrainingSettings
from examples.demo.training import Trainer
from torch import nn
from torch.nn import functional
from torch_backend.conformance.bits import bit_identical

CPU, TB = torch.device("cpu"), torch.device("tb")
MODEL = ModelSettings(width=32, heads=2, blocks=2, context=16)
TRAINING = TrainingSettings(steps=20, batch=4, warm_up=5)

Optimizer = Callable[[nn.Module], torch.optim.Optimizer]


def mlp_losses(device: torch.device, make_optimizer: Optimizer, steps: int) -> list[float]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    inputs, targets = torch.randn(8, 16), torch.randint(4, (8,))
    model = model.to(device)
    optimizer = make_optimizer(model)
    found = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(inputs.to(device)), targets.to(device))
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        found.append(loss.item())
    return found


OPTIMIZERS: dict[str, Optimizer] = {
    "sgd": lambda model: torch.optim.SGD(model.parameters(), lr=0.1),
    "momentum": lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
    "adamw": lambda model: torch.optim.AdamW(model.parameters(), lr=0.01),
}


@pytest.mark.usefixtures("no_fallbacks")
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_mlp_losses_equal_those_of_the_cpu(name: str) -> None:
    on_tb, on_cpu = (mlp_losses(device, OPTIMIZERS[name], 30) for device in (TB, CPU))
    assert on_tb == pytest.approx(on_cpu, rel=1e-5)
    assert on_tb[-1] < 0.7 * on_tb[0]


@pytest.mark.usefixtures("no_fallbacks")
def test_convolutional_gradients_equal_those_of_the_cpu() -> None:
    def gradients(device: torch.device) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64, 5))
        inputs = torch.randn(2, 3, 8, 8)
        model = model.to(device)
        loss = functional.cross_entropy(model(inputs.to(device)), torch.tensor([1, 3]).to(device))
        loss.backward()  # type: ignore[no-untyped-call]
        return [p.grad.cpu() for p in model.parameters() if p.grad is not None]

    on_tb, on_cpu = gradients(TB), gradients(CPU)
    assert len(on_tb) == 4
    for a, b in zip(on_tb, on_cpu, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.usefixtures("no_fallbacks")
def test_transformer_losses_equal_those_of_the_cpu_with_the_same_dropout_masks() -> None:
    corpus = read_corpus()
    torch.manual_seed(TRAINING.seed)
    on_tb = losses(Trainer(TB, corpus, MODEL, TRAINING), 20)
    on_cpu = losses(Trainer(CPU, corpus, MODEL, TRAINING), 20, philox_masks(TRAINING.seed))
    assert agree(on_tb, on_cpu), f"{on_tb}\n{on_cpu}"
    without_masks = losses(Trainer(CPU, corpus, MODEL, TRAINING), 20)
    assert not agree(on_tb, without_masks), "this comparison would not notice different masks"


@pytest.mark.usefixtures("no_fallbacks")
@pytest.mark.parametrize("low", [{"bf16": True}, {"fp16": True}], ids=str)
def test_transformer_converges_under_autocast_as_on_stock_cpu(low: dict[str, bool]) -> None:
    settings = replace(TRAINING, steps=60, batch=8, learning_rate=0.01, bf16="bf16" in low, fp16="fp16" in low)
    corpus = read_corpus()
    trainer = Trainer(TB, corpus, MODEL, settings)
    torch.manual_seed(settings.seed)
    on_tb = losses(trainer, settings.steps)
    on_cpu = losses(Trainer(CPU, corpus, MODEL, settings), settings.steps, philox_masks(settings.seed))
    assert agree(on_tb[:20], on_cpu[:20], relative=5e-3), f"{on_tb[:20]}\n{on_cpu[:20]}"
    last, expected = sum(on_tb[-10:]) / 10, sum(on_cpu[-10:]) / 10
    assert abs(last - expected) < 0.05 * expected
    assert last < on_tb[0] - 2
    assert trainer.model.head.weight.dtype == torch.float32


@pytest.mark.usefixtures("no_fallbacks")
def test_transformer_in_float16_skips_steps_until_the_scale_fits_and_then_improves() -> None:
    def scales(device: torch.device, scaler: torch.amp.GradScaler) -> tuple[list[float], list[float]]:
        trainer = Trainer(device, corpus, MODEL, replace(TRAINING, fp16=True, learning_rate=0.01))
        trainer.scaler = scaler
        before = [p.detach().clone() for p in trainer.model.parameters()]
        found, history = [], []
        for step in range(30):
            history += losses(trainer, 1)
            found.append(scaler.get_scale())
            if step == 0:
                assert all(bit_identical(p, q) for p, q in zip(trainer.model.parameters(), before, strict=True))
        return found, history

    corpus = read_corpus()
    on_tb, history = scales(TB, torch.tb.amp.GradScaler(init_scale=2.0**26))  # type: ignore[attr-defined]
    assert on_tb[0] == 2.0**25
    assert on_tb[-1] < on_tb[0]
    assert on_tb == sorted(on_tb, reverse=True)
    assert history[-1] < history[0] - 0.5
    on_cpu, _ = scales(CPU, torch.amp.GradScaler("cpu", init_scale=2.0**26))
    assert on_tb[:5] == on_cpu[:5]


@pytest.mark.usefixtures("no_fallbacks")
def test_gradient_scaling_skips_a_step_with_infinite_gradients() -> None:
    model = nn.Linear(2, 1).to(TB)
    before = model.weight.detach().cpu().clone()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("tb", init_scale=4.0)
    scaler.scale(model(torch.full((1, 2), float("inf"), device=TB)).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert bit_identical(model.weight.detach().cpu(), before)
    assert scaler.get_scale() == 2.0
    optimizer.zero_grad()
    scaler.scale(model(torch.ones(1, 2, device=TB)).sum()).backward()
    scaler.step(optimizer)
    assert not bit_identical(model.weight.detach().cpu(), before)


def test_deterministic_algorithms_are_bit_identical_to_the_cpu_with_the_same_threads() -> None:
    x = torch.randn(2000, 700, generator=torch.Generator().manual_seed(1))
    on_tb = x.to(TB)
    expected = [x.sum(), x.mean(0), x.t() @ x]
    torch.use_deterministic_algorithms(True)
    try:
        for _ in range(6):  # the first calls time the kernels on one and on several threads
            found = [on_tb.sum(), on_tb.mean(0), on_tb.t() @ on_tb]
            assert [bit_identical(a.cpu(), b) for a, b in zip(found, expected, strict=True)] == [True] * 3
    finally:
        torch.use_deterministic_algorithms(False)
