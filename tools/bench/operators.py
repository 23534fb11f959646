"""Host-side cost of single operators: what the caller's thread pays per call.

The wait for the device is outside the time, except where the operator itself waits (device to host). A block has few
enough calls that no queue fills up and pushes back.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from bench.interleave import Call, Plan

PLAN = Plan(calls=200, pairs=31, wait_inside=False)


def _empty(device: torch.device) -> Call:
    return lambda: torch.empty(16, device=device)


def _add(device: torch.device) -> Call:
    x, y = torch.ones(1, device=device), torch.ones(1, device=device)
    return lambda: torch.add(x, y)


def _mul_scalar(device: torch.device) -> Call:
    x = torch.ones(1, device=device)
    return lambda: torch.mul(x, 1.5)


def _view(device: torch.device) -> Call:
    x = torch.ones(4, 4, device=device)
    return lambda: x.view(16)


def _sum(device: torch.device) -> Call:
    x = torch.ones(64, device=device)
    return lambda: torch.sum(x)


def _mm(device: torch.device) -> Call:
    x, y = torch.ones(8, 8, device=device), torch.ones(8, 8, device=device)
    return lambda: torch.mm(x, y)


def _cat(device: torch.device) -> Call:
    parts = [torch.ones(8, device=device), torch.ones(8, device=device)]
    return lambda: torch.cat(parts)


def _host_to_device(device: torch.device) -> Call:
    source, target = torch.ones(1), torch.ones(1, device=device)
    return lambda: target.copy_(source)


def _device_to_host(device: torch.device) -> Call:
    source, target = torch.ones(1, device=device), torch.ones(1)
    return lambda: target.copy_(source)


OPERATORS: dict[str, Callable[[torch.device], Call]] = {
    "empty": _empty,
    "add of 1 element": _add,
    "mul scalar": _mul_scalar,
    "view": _view,
    "sum": _sum,
    "mm 8x8": _mm,
    "cat": _cat,
    "copy 4 bytes host to device": _host_to_device,
    "copy 4 bytes device to host": _device_to_host,
}
