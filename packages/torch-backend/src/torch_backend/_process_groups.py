"""init_process_group() without a backend, in a program for the CPU.

PyTorch takes the default backend of the accelerator, and raises ValueError as long as tb has none.
"""

from __future__ import annotations

import functools
from typing import Any

import torch


def default_to_the_cpus_backend() -> None:
    """Makes the choice that PyTorch makes where there is no accelerator. Called once, at import."""
    if not torch.distributed.is_available():
        return
    from torch.distributed.distributed_c10d import Backend, BackendConfig

    stock = BackendConfig.__init__

    @functools.wraps(stock)
    def __init__(self: Any, backend: Any) -> None:
        defaults = Backend.default_device_backend_map
        accelerator: torch.device = torch._C._get_accelerator()
        if str(backend) == Backend.UNDEFINED and accelerator.type == "tb" and "tb" not in defaults:
            backend = f"cpu:{defaults['cpu']}"
        stock(self, backend)

    BackendConfig.__init__ = __init__  # type: ignore[method-assign]
