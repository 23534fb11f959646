from __future__ import annotations
import collections.abc
import torch
__all__: list[str] = ['add_rule', 'custom_rules', 'register', 'remove_rule', 'rules', 'unscale_', 'update_scale_', 'withdraw_scaler']
def add_rule(operation: str, policy: str) -> None:
    """
    Gives an operator of the program's own an autocast rule.
    """
def custom_rules() -> dict[str, str]:
    """
    Policies by operator, as add_rule() gave them.
    """
def register() -> bool:
    """
    Registers rules and operators. Returns whether this call did it.
    """
def remove_rule(operation: str) -> None:
    """
    Takes back what add_rule() did.
    """
def rules() -> dict[str, list[str]]:
    """
    Operators by policy, from the lists of ATen/autocast_mode.h.
    """
def unscale_(gradients: collections.abc.Sequence[torch.Tensor], found_inf: torch.Tensor, inv_scale: torch.Tensor) -> None:
    ...
def update_scale_(scale: torch.Tensor, growth_tracker: torch.Tensor, found_inf: torch.Tensor, growth_factor: float, backoff_factor: float, growth_interval: int) -> None:
    ...
def withdraw_scaler() -> None:
    """
    Takes back the two operators that register() registered.
    """
