"""Checks for packages that a part needs. Each function returns a sentence about what is missing, or None."""

from __future__ import annotations

import importlib.util


def missing_torch() -> str | None:
    """Why no part that needs torch can run here; None when torch is there."""
    if importlib.util.find_spec("torch") is None:
        return "torch is not installed"
    return None


def missing_reference(device: str) -> str | None:
    """Why the device that tb is compared with cannot be used; None when it can."""
    import torch

    if device != "cuda":
        return None
    if torch.version.cuda is None:
        return f"this needs torch.cuda, and torch {torch.__version__} is built without CUDA"
    if not torch.cuda.is_available():
        return f"this needs torch.cuda, and torch {torch.__version__} finds no CUDA device that it can use"
    return None


def missing_backend() -> str | None:
    """Why tb tensors cannot be made here; None when they can. Opens the driver and makes one."""
    if importlib.util.find_spec("torch_backend") is None:
        return "this needs torch-backend, which is not installed"
    import torch

    try:
        torch.ones(1, device="tb").item()
    except RuntimeError as error:
        return f"torch.device('tb') cannot be used: {str(error).splitlines()[0]}"
    return None
