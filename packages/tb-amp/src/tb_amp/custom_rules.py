"""Autocast rules for operators that PyTorch's lists do not contain."""

from typing import Any

import torch
from torch._library.custom_ops import CustomOpDef

from . import _core

Operator = str | torch._ops.OpOverload | torch._ops.OpOverloadPacket | CustomOpDef


def add_rule(operator: Operator, policy: str) -> None:
    """Adds an autocast rule for an operator that PyTorch's lists do not contain, on PrivateUse1 devices.

    Arguments:
        operator: what torch.library.custom_op returned, one of torch.ops, or a name: "mylib::attend",
            "mylib::attend.overload". For torch.ops.mylib.attend all overloads get the rule.
        policy: "lower_precision_fp", "fp32" or "promote", as in rules(). Floating-point tensors on the device are cast,
            also those in lists, except float64 ones; other arguments are not changed.

    ValueError: there is no such operator, it writes to an argument, or it has a rule already.
    """
    for name in _names(operator):
        _core.add_rule(name, policy)


def remove_rule(operator: Operator) -> None:
    """Removes the rule that add_rule() added for this operator. ValueError: there is none."""
    for name in _names(operator):
        _core.remove_rule(name)


def _names(operator: Operator) -> list[str]:
    if isinstance(operator, str):
        return [operator]
    if isinstance(operator, CustomOpDef):
        operator = operator._opoverload
    packet: Any = operator
    several = isinstance(operator, torch._ops.OpOverloadPacket)
    return [getattr(packet, overload).name() for overload in packet.overloads()] if several else [packet.name()]
