"""safetensors: names of tb devices, for which its compiled part takes the index of the accelerator instead."""

from __future__ import annotations

import functools
from typing import Any

from torch_backend.integrations.client import Client, Function, Shape
from torch_backend.integrations.device import current_tb, tb_is_current

safetensors = Client("safetensors", "safetensors")
CLIENTS = {"safetensors": safetensors}

_SAFE_OPEN = Shape(["filename", "framework", "device"])


@safetensors.mend("safetensors", "safe_open", _SAFE_OPEN)
@safetensors.mend("safetensors.torch", "safe_open", _SAFE_OPEN)
def _safe_open(original: Function) -> Function:
    @functools.wraps(original, updated=())
    def safe_open(filename: Any, framework: str, device: Any = "cpu", **kwargs: Any) -> Any:
        return original(filename, framework, device=_index(device), **kwargs)

    return safe_open


def _index(device: Any) -> Any:
    """The index of a tb device; other devices as they are."""
    import torch

    if (isinstance(device, torch.device) or str(device).split(":")[0] == "tb") and tb_is_current():
        asked = torch.device(device)
        if asked.type == "tb":
            return current_tb().index if asked.index is None else asked.index
    return device
