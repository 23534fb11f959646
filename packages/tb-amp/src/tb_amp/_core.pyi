from __future__ import annotations
import collections.abc
import torch
__all__: list[str] = ['register', 'rules', 'unscale_', 'update_scale_']
def register() -> bool:
    """
    Registers rules and operators. Returns whether this call did it.
    """
def rules() -> dict[str, list[str]]:
    """
    Operators by policy, from the lists of ATen/autocast_mode.h.
    """
def unscale_(gradients: collections.abc.Sequence[torch.Tensor], found_inf: torch.Tensor, inv_scale: torch.Tensor) -> None:
    ...
def update_scale_(scale: torch.Tensor, growth_tracker: torch.Tensor, found_inf: torch.Tensor, growth_factor: float, backoff_factor: float, growth_interval: int) -> None:
    ...
