"""safetensors: devices by name, with two of them (TB_CPU_DEVICES=2)."""

from __future__ import annotations

import functools
import tempfile
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load, load_file, load_model, save, save_file, save_model

from clients.checks import Checks, Ran

checks = Checks("safetensors")


def tensors() -> dict[str, torch.Tensor]:
    torch.manual_seed(0)
    return {"a": torch.randn(4, 3), "b": torch.arange(5), "c": torch.randn(2).bfloat16()}


def compared(device: str, named: Any, found: dict[str, torch.Tensor]) -> Ran:
    where = next(iter(found.values())).device
    asked = torch.device("cpu" if device == "cpu" else named)
    exact = where.type == asked.type and asked.index in (None, where.index)
    return Ran(where, [exact, {name: tensor.cpu() for name, tensor in sorted(found.items())}])


def load_named(device: str, named: Any) -> Ran:
    with tempfile.TemporaryDirectory() as folder:
        save_file(tensors(), f"{folder}/file.safetensors")
        found = load_file(f"{folder}/file.safetensors", device="cpu" if device == "cpu" else named)
        return compared(device, named, found)


def open_named(device: str, named: Any) -> Ran:
    with tempfile.TemporaryDirectory() as folder:
        save_file(tensors(), f"{folder}/file.safetensors")
        where = "cpu" if device == "cpu" else named
        with safe_open(f"{folder}/file.safetensors", framework="pt", device=where) as file:
            return compared(device, named, {name: file.get_tensor(name) for name in file.keys()})  # noqa: SIM118


for _named in ("tb", "tb:0", "tb:1", torch.device("tb"), torch.device("tb:1")):
    checks.add(f"load_file(device={_named!r})", functools.partial(load_named, named=_named), 0)
for _named in ("tb", "tb:1"):
    checks.add(f"safe_open(device={_named!r})", functools.partial(open_named, named=_named), 0)


@checks.check("safe_open's slices", 0)
def slices(device: str) -> Ran:
    with tempfile.TemporaryDirectory() as folder:
        save_file(tensors(), f"{folder}/file.safetensors")
        with safe_open(f"{folder}/file.safetensors", framework="pt", device=device) as file:
            part = file.get_slice("a")[1:3]
        return Ran(part.device, part.cpu())


@checks.check("save_model and load_model", 0)
def models(device: str) -> Ran:
    torch.manual_seed(0)
    net = torch.nn.Linear(3, 2).to(device)
    other = torch.nn.Linear(3, 2).to(device)
    with tempfile.TemporaryDirectory() as folder:
        save_model(net, f"{folder}/model.safetensors")
        load_model(other, f"{folder}/model.safetensors", device=device)
    return Ran(other.weight.device, other.weight.detach().cpu())


@checks.check("save and load bytes", 0)
def in_memory(device: str) -> Ran:
    where = {name: tensor.to(device) for name, tensor in tensors().items()}
    return Ran(where["a"].device, dict(sorted(load(save(where)).items())))
