"""The device that a client takes where it would take the CPU, and the state of its random numbers."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


def tb_is_current() -> bool:
    """Whether tb is this process's accelerator and there is a device of it."""
    import torch

    accelerator = torch.accelerator.current_accelerator(check_available=True)
    return accelerator is not None and accelerator.type == "tb"


def current_tb() -> torch.device:
    """The current tb device of this thread, with its index."""
    import torch

    return torch.device("tb", torch.accelerator.current_device_index())


def instead_of_cpu(device: torch.device) -> torch.device:
    """The device that a client chose by itself, or tb if that is the CPU."""
    return current_tb() if device.type == "cpu" and tb_is_current() else device


def save_random_state(folder: Any, process: int) -> None:
    """Writes the state of tb's random numbers into a client's checkpoint, if this process has used tb."""
    import torch

    if torch.tb.is_initialized():  # type: ignore[attr-defined]
        torch.save(torch.tb.get_rng_state_all(), _random_state(folder, process))  # type: ignore[attr-defined]


def load_random_state(folder: Any, process: int) -> None:
    """Restores what `save_random_state` wrote; nothing if the checkpoint has no such file."""
    import torch

    path = _random_state(folder, process)
    if path.exists() and tb_is_current():
        states = torch.load(path, weights_only=True)
        for index, state in enumerate(states[: torch.accelerator.device_count()]):
            torch.tb.set_rng_state(state, index)  # type: ignore[attr-defined]


def _random_state(folder: Any, process: int) -> pathlib.Path:
    return pathlib.Path(folder) / f"tb_random_state_{process}.pt"
