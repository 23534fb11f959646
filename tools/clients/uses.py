"""Short uses of the clients, each of which chooses a device: by itself, and where the program asks for the CPU."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Use:
    """Two functions that return the devices that the client took. Those of the CPU may be none."""

    name: str
    of_default: Callable[[], list[Any]]
    of_cpu: Callable[[], list[Any]] = list


def _accelerator(**options: Any) -> list[Any]:
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, GradientState

    AcceleratorState._reset_state(True)
    GradientState._reset_state()
    return [Accelerator(**options).device]


def _training_arguments(**options: Any) -> list[Any]:
    from accelerate.state import AcceleratorState
    from transformers import TrainingArguments

    AcceleratorState._reset_state(True)
    with tempfile.TemporaryDirectory() as folder:
        return [TrainingArguments(folder, report_to=[], **options).device]


def _quiet_trainer(module: Any, **options: Any) -> Any:
    return module.Trainer(
        logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, **options
    )


def _trainer(name: str, **options: Any) -> list[Any]:
    import importlib

    run = _quiet_trainer(importlib.import_module(name), **options)
    return [run.strategy.root_device, *([run.precision_plugin.device] if "precision" in options else [])]


def _trainer_on_cpu(name: str) -> list[Any]:
    import importlib

    module = importlib.import_module(name)
    strategies = importlib.import_module(f"{name}.strategies")
    runs = [_quiet_trainer(module, strategy=strategies.SingleDeviceStrategy("cpu"))]
    runs.append(_quiet_trainer(module, accelerator="cpu"))
    return [run.strategy.root_device for run in runs]


def _fabric(package: str, **options: Any) -> list[Any]:
    import importlib

    return [importlib.import_module(package).Fabric(**options).device]


def _loaded(device: str) -> list[Any]:
    import safetensors.torch
    import torch

    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/one.safetensors"
        safetensors.torch.save_file({"a": torch.ones(2)}, path)
        opened = safetensors.safe_open(path, "pt", device=device)
        return [safetensors.torch.load_file(path, device=device)["a"].device, opened.get_tensor("a").device]


def _of(module: str, function: str, *arguments: Any) -> Callable[[], list[Any]]:
    """A function of a module that returns a device or its name; no device where the release has no such function."""

    def call() -> list[Any]:
        import importlib

        found = getattr(importlib.import_module(module), function, None)
        return [found(*arguments)] if callable(found) else []

    return call


def _keras() -> list[Any]:
    from keras.src.backend.torch import core

    return [core.DEFAULT_DEVICE]


def _lightning(name: str, fabric: str) -> list[Use]:
    return [
        Use("Trainer()", lambda: _trainer(name), lambda: _trainer_on_cpu(name)),
        Use("Trainer(accelerator='gpu')", lambda: _trainer(name, accelerator="gpu")),
        Use("Trainer(precision='bf16-mixed')", lambda: _trainer(name, precision="bf16-mixed")),
        Use("Trainer(precision='16-mixed')", lambda: _trainer(name, precision="16-mixed")),
        Use("Fabric()", lambda: _fabric(fabric), lambda: _fabric(fabric, accelerator="cpu")),
    ]


USES: dict[str, list[Use]] = {
    "accelerate": [
        Use("Accelerator()", _accelerator, lambda: _accelerator(cpu=True)),
        Use("Accelerator(mixed_precision='fp16')", lambda: _accelerator(mixed_precision="fp16")),
    ],
    "transformers": [
        Use("TrainingArguments()", _training_arguments, lambda: _training_arguments(use_cpu=True)),
        Use("TrainingArguments(bf16=True)", lambda: _training_arguments(bf16=True)),
    ],
    "lightning": _lightning("lightning.pytorch", "lightning.fabric"),
    "pytorch_lightning": _lightning("pytorch_lightning", "lightning_fabric"),
    "safetensors": [Use("load_file, safe_open", lambda: _loaded("tb"), lambda: _loaded("cpu"))],
    "peft": [Use("infer_device()", _of("peft.utils", "infer_device"))],
    "sentence_transformers": [Use("get_device_name()", _of("sentence_transformers.util", "get_device_name"))],
    "stable_baselines3": [
        Use(
            "get_device()",
            _of("stable_baselines3.common.utils", "get_device"),
            _of("stable_baselines3.common.utils", "get_device", "cpu"),
        )
    ],
    "torch_geometric": [
        Use(
            "device('auto')",
            _of("torch_geometric", "device", "auto"),
            _of("torch_geometric", "device", "cpu"),
        )
    ],
    "ignite": [Use("idist.device()", _of("ignite.distributed", "device"))],
    "keras": [Use("DEFAULT_DEVICE", _keras)],
}
"""By the names that programs import. fastai is not here: it needs a torchvision whose operators load."""
