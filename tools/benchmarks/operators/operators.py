"""Host-side cost of single operators on 1 element: the calling thread's time per call.

The time excludes the wait for the device, unless the operator itself waits (device to host). A block has few enough
calls that no queue fills, since a call would then wait. A few untimed calls precede it for every subject, because the
device's worker has fallen asleep and the first call has to wake it. The cost of waking it has its own row.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from benchmarks.interleave import Call, Plan

PLAN = Plan(calls=200, rounds=31, wait_inside=False, warm=5)
PLAN_AFTER_PAUSE = Plan(calls=1, rounds=101, wait_inside=False, pause=0.001)


def _one(device: torch.device) -> torch.Tensor:
    return torch.ones(1, device=device)


def _empty(device: torch.device) -> Call:
    return lambda: torch.empty(1, device=device)


def _add(device: torch.device) -> Call:
    x, y = _one(device), _one(device)
    return lambda: torch.add(x, y)


def _add_in_place(device: torch.device) -> Call:
    x, y = _one(device), _one(device)
    return lambda: x.add_(y)


def _mul_scalar(device: torch.device) -> Call:
    x = _one(device)
    return lambda: torch.mul(x, 1.5)


def _relu(device: torch.device) -> Call:
    x = _one(device)
    return lambda: torch.relu(x)


def _sum(device: torch.device) -> Call:
    x = _one(device)
    return lambda: torch.sum(x)


def _mm(device: torch.device) -> Call:
    x, y = torch.ones(1, 1, device=device), torch.ones(1, 1, device=device)
    return lambda: torch.mm(x, y)


def _cat(device: torch.device) -> Call:
    parts = [_one(device), _one(device)]
    return lambda: torch.cat(parts)


def _view(device: torch.device) -> Call:
    x = _one(device)
    return lambda: x.view(1, 1)


def _copy(device: torch.device) -> Call:
    source, target = _one(device), _one(device)
    return lambda: target.copy_(source)


def _host_to_device(device: torch.device) -> Call:
    source, target = torch.ones(1), _one(device)
    return lambda: target.copy_(source)


def _device_to_host(device: torch.device) -> Call:
    source, target = _one(device), torch.ones(1)
    return lambda: target.copy_(source)


# All operate on 1 element, so that the cost is that of the call.
OPERATORS: dict[str, Callable[[torch.device], Call]] = {
    "empty": _empty,
    "add": _add,
    "add in place": _add_in_place,
    "mul by a number": _mul_scalar,
    "relu": _relu,
    "sum": _sum,
    "mm": _mm,
    "cat": _cat,
    "view": _view,
    "copy": _copy,
    "copy host to device": _host_to_device,
    "copy device to host": _device_to_host,
}
AFTER_PAUSE: dict[str, Callable[[torch.device], Call]] = {"add after 1 ms of idleness": _add}
