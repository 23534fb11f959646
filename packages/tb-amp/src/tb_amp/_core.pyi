from __future__ import annotations
__all__: list[str] = ['add_rule', 'custom_rules', 'register', 'remove_rule', 'rules', 'withdraw_scaler']
def add_rule(operation: str, policy: str) -> None:
    """
    Adds an autocast rule for an operator that PyTorch's lists do not contain.
    """
def custom_rules() -> dict[str, str]:
    """
    The policies of add_rule()'s rules by operator.
    """
def register() -> bool:
    """
    Registers rules and operators. Returns whether this call did it.
    """
def remove_rule(operation: str) -> None:
    """
    Removes a rule of add_rule().
    """
def rules() -> dict[str, list[str]]:
    """
    Operators by policy, from the lists of ATen/autocast_mode.h.
    """
def withdraw_scaler() -> None:
    """
    Removes the two operators that register() registered.
    """
