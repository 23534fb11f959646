"""A PrivateUse1 backend that is not ours, as PyTorch's guides describe one: `torch.device("foreign")`, `torch.foreign`.

PyTorch loads it by its entry point. test_foreign_device.py compiles its extension.
"""

import sys

import torch


def _autoload() -> None:
    import _foreign_device  # noqa: F401  (its operators, its allocator and its hooks)

    torch.utils.rename_privateuse1_backend("foreign")
    torch._register_device_module("foreign", sys.modules[__name__])
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)


def is_available() -> bool:
    return True


def device_count() -> int:
    return 1


def current_device() -> int:
    return 0


def set_device(device: object) -> None:
    if torch.device("foreign", device).index if isinstance(device, int) else torch.device(device).index:
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
