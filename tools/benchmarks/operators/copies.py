"""Copies of floats from the host to an idle device, against stock cpu's `copy_` between two tensors of the host.

The time includes the wait for the device, so that a copy counts only when it is complete.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from benchmarks.interleave import Call, Plan

SIZES = {
    "4 B": 4,
    "256 B": 256,
    "4 KiB": 4 << 10,
    "64 KiB": 64 << 10,
    "256 KiB": 256 << 10,
    "1 MiB": 1 << 20,
    "4 MiB": 4 << 20,
    "16 MiB": 16 << 20,
    "64 MiB": 64 << 20,
}
Way = Callable[[torch.Tensor, torch.Tensor], object]
# Ways to copy `x`, on the host, to the device of `y`.
WAYS: dict[str, Way] = {
    "copy_": lambda x, y: y.copy_(x),
    "copy_ non_blocking": lambda x, y: y.copy_(x, non_blocking=True),
    "to": lambda x, y: x.to(y.device),
    "to non_blocking": lambda x, y: x.to(y.device, non_blocking=True),
}
PINNED = "pinned copy_ non_blocking"


def _subject(device: torch.device, way: Way, size: int, pinned: bool) -> Call:
    x = torch.rand(size // 4)
    y = torch.zeros(size // 4, device=device)
    if device.type == "cpu":
        return lambda: y.copy_(x)
    if pinned:
        x = x.pin_memory()
    return lambda: way(x, y)


def _plan(size: int) -> Plan:
    """A plan whose blocks take some milliseconds."""
    return Plan(calls=max(2, min(500, (32 << 20) // max(size, 1))), rounds=31, wait_inside=True, warm=2)


def _cases() -> dict[str, tuple[Callable[[torch.device], Call], Plan]]:
    def make(way: Way, size: int, pinned: bool) -> Callable[[torch.device], Call]:
        return lambda device: _subject(device, way, size, pinned)

    found = {}
    for label, size in SIZES.items():
        for name, way in WAYS.items():
            found[f"{name} {label}"] = make(way, size, False), _plan(size)
        found[f"{PINNED} {label}"] = make(WAYS["copy_ non_blocking"], size, True), _plan(size)
    return found


COPIES = _cases()
