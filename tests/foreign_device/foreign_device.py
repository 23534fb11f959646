"""A PrivateUse1 backend that is not ours, as PyTorch's guides describe one: `torch.device("foreign")`, `torch.foreign`.

PyTorch loads it by its entry point. test_foreign_device.py compiles its extension.
"""

import importlib
import sys

import torch
from torch.utils.backend_registration import generate_methods_for_privateuse1_backend, rename_privateuse1_backend


def _autoload() -> None:
    importlib.import_module("_foreign_device")  # its operators, its allocator and its hooks
    rename_privateuse1_backend("foreign")
    torch._register_device_module("foreign", sys.modules[__name__])  # type: ignore[no-untyped-call]
    generate_methods_for_privateuse1_backend(for_storage=True)


def is_available() -> bool:
    return True


def device_count() -> int:
    return 1


def current_device() -> int:
    return 0


def set_device(device: torch.device | str | int) -> None:
    chosen = torch.device("foreign", device) if isinstance(device, int) else torch.device(device)
    if chosen.index:
        raise ValueError(f"there is one foreign device, and no {device}")


def synchronize(device: object = None) -> None:
    """Its work is done when a call returns."""


def manual_seed_all(seed: int) -> None:
    """Its operators draw from the CPU's generator."""


def is_initialized() -> bool:
    return True


def _is_in_bad_fork() -> bool:
    return False


def get_amp_supported_dtype() -> list[torch.dtype]:
    return [torch.float16, torch.bfloat16]
