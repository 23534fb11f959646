"""timm: training steps of small models, and what its training scripts use."""

from __future__ import annotations

import functools
from typing import Any

import torch

try:
    import torchvision  # noqa: F401
except RuntimeError:
    # Beside a torch of another build torchvision's operators do not load, and its import asks for these two.
    for _name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{_name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

import timm
from timm.data import Mixup
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import ModelEmaV3

from clients.checks import Checks, Ran

checks = Checks("timm")


def images() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.rand(2, 3, 64, 64, generator=generator), torch.tensor([0, 3])


def make(device: str, name: str, **options: Any) -> Any:
    torch.manual_seed(0)
    return timm.create_model(name, num_classes=4, **options).to(device)


def train(device: str, name: str, memory_format: torch.memory_format = torch.contiguous_format, **options: Any) -> Ran:
    model = make(device, name, **options).to(memory_format=memory_format)
    optimizer = create_optimizer_v2(model, "adamw", lr=1e-3)
    inputs, targets = (tensor.to(device) for tensor in images())
    losses = []
    for _ in range(2):
        loss = torch.nn.functional.cross_entropy(model(inputs.to(memory_format=memory_format)), targets)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return Ran(next(model.parameters()).device, losses)


checks.add("resnet10t", functools.partial(train, name="resnet10t"), 1e-2)
checks.add(
    "resnet10t, channels last", functools.partial(train, name="resnet10t", memory_format=torch.channels_last), 1e-2
)
checks.add(
    "vision transformer",
    functools.partial(train, name="vit_tiny_patch16_224", img_size=64, depth=2, embed_dim=48, num_heads=3),
    1e-2,
)
checks.add("convnext_atto", functools.partial(train, name="convnext_atto"), 1e-2)
checks.add("mobilenetv3_small_050", functools.partial(train, name="mobilenetv3_small_050", drop_rate=0.0), 1e-2)


@checks.check("features without a head", 1e-3)
def features(device: str) -> Ran:
    model = make(device, "resnet10t").eval()
    with torch.no_grad():
        found = model.forward_features(images()[0].to(device))
    return Ran(found.device, found.cpu())


@checks.check("averaged weights", 1e-4)
def averaged(device: str) -> Ran:
    model = make(device, "resnet10t")
    average = ModelEmaV3(model, decay=0.5)
    with torch.no_grad():
        model.fc.weight.add_(1.0)
    average.update(model)
    return Ran(average.module.fc.weight.device, average.module.fc.weight.detach().cpu())


@checks.check("mixup", 1e-5)
def mixup(device: str) -> Ran:
    import numpy

    numpy.random.seed(0)
    mix = Mixup(mixup_alpha=1.0, num_classes=4)
    inputs, targets = mix(*(tensor.to(device) for tensor in images()))
    return Ran(inputs.device, [inputs.cpu(), targets.cpu()])


@checks.check("cosine schedule", 1e-6)
def schedule(device: str) -> Ran:
    model = make(device, "resnet10t")
    optimizer = create_optimizer_v2(model, "sgd", lr=1.0)
    steps = CosineLRScheduler(optimizer, t_initial=4)
    rates = []
    for epoch in range(4):
        steps.step(epoch)
        rates.append(optimizer.param_groups[0]["lr"])
    return Ran(next(model.parameters()).device, rates)
