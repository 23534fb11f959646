"""Autocast rules for operators of one's own."""

from typing import Any

import torch
from torch._library.custom_ops import CustomOpDef

from . import _core

Operator = str | torch._ops.OpOverload | torch._ops.OpOverloadPacket | CustomOpDef


def add_rule(operator: Operator, policy: str) -> None:
    """Tells autocast how to call an operator that PyTorch's lists do not name, on PrivateUse1 devices.

    Arguments:
        operator: what torch.library.custom_op returned, one of torch.ops, or a name: "mylib::attend",
            "mylib::attend.overload". Of torch.ops.mylib.attend all overloads get the rule.
        policy: "lower_precision_fp", "fp32", or "promote", as in rules(). Tensors that are floating, on the device and
            not float64 are cast, also those in lists; other arguments stay as they are.

    ValueError where there is no such operator, where it writes to an argument, or where it has a rule already.
    """
    for name in _names(operator):
        _core.add_rule(name, policy)


def remove_rule(operator: Operator) -> None:
    """Takes back what add_rule() did for this operator. ValueError where it did nothing."""
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
