"""Clients with one function that answers "which device?": what it answers instead of the CPU."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from torch_backend.integrations.client import Client, Function, Shape, Value
from torch_backend.integrations.device import instead_of_cpu, tb_is_current


def _device(original: Function) -> Function:
    """For a function that chooses a torch.device whenever it is called."""
    return _device_if(lambda *_, **__: True)(original)


def _device_if(chooses: Callable[..., bool]) -> Callable[[Function], Function]:
    """For a function that returns a torch.device, and chooses it only if `chooses`, called after it, says so."""

    def replacement(original: Function) -> Function:
        @functools.wraps(original)
        def device(*args: Any, **kwargs: Any) -> Any:
            found = original(*args, **kwargs)
            return instead_of_cpu(found) if chooses(*args, **kwargs) else found

        return device

    return replacement


def _name(original: Function) -> Function:
    """For a function that returns the name of a device, and chooses it if it gets no argument."""

    @functools.wraps(original)
    def name(*args: Any, **kwargs: Any) -> Any:
        found = original(*args, **kwargs)
        return found if args or kwargs else _name_instead_of_cpu(found)

    return name


def _name_instead_of_cpu(name: str) -> str:
    return "tb" if name == "cpu" and tb_is_current() else name


def _is_auto(device: Any = "auto", *_: Any, **__: Any) -> bool:
    return isinstance(device, str) and device == "auto"


def _fastai_may_choose(*_: Any, **__: Any) -> bool:
    from fastai.torch_core import defaults

    return defaults.use_cuda is not False  # fastai keeps `use` there, and False asks for the CPU


def _keras_device(name: str) -> str:
    return name if "KERAS_TORCH_DEVICE" in os.environ else _name_instead_of_cpu(name)


_TABLE: list[tuple[str, str, str, str, Shape | Value, Callable[[Any], Any]]] = [
    # package, distribution, module, place, what the replacement needs of it, replacement
    ("peft", "peft", "peft.utils.other", "infer_device", Shape([], (), ["cpu"]), _name),
    (
        *("sentence_transformers", "sentence-transformers", "sentence_transformers.util.environment"),
        *("get_device_name", Shape([], (), ["cpu"]), _name),
    ),
    (
        *("stable_baselines3", "stable-baselines3", "stable_baselines3.common.utils"),
        *("get_device", Shape(["device"], (), ["auto"]), _device_if(_is_auto)),
    ),
    (
        *("torch_geometric", "torch-geometric", "torch_geometric.device"),
        *("device", Shape(["device"], (), ["auto", "cpu"]), _device_if(_is_auto)),
    ),
    (
        *("fastai", "fastai", "fastai.torch_core"),
        *("default_device", Shape(["use"], ["use_cuda"], ["cpu"]), _device_if(_fastai_may_choose)),
    ),
    (
        *("ignite", "pytorch-ignite", "ignite.distributed.comp_models.base"),
        *("_SerialModel.device", Shape(["self"], (), ["cpu"]), _device),
    ),
    ("keras", "keras", "keras.src.backend.torch.core", "DEFAULT_DEVICE", Value(str), _keras_device),
]

CLIENTS: dict[str, Client] = {}
for _package, _distribution, _module, _place, _shape, _replacement in _TABLE:
    CLIENTS[_package] = Client(_package, _distribution)
    CLIENTS[_package].mend(_module, _place, _shape)(_replacement)
