"""
Registers tb devices with PyTorch's C++ side. Use torch.tb and torch_backend instead.
"""
from __future__ import annotations
import torch
import typing
__all__: list[str] = ['can_access_peer', 'current_device', 'default_generator', 'device_count', 'device_properties', 'elapsed_time', 'empty_cache', 'exchange_device', 'host_statistics', 'in_bad_fork', 'set_memory_limit']
def _connect() -> None:
    """
    Takes the other components' function tables. ImportError: one is missing or does not match.
    """
def _open() -> None:
    """
    Opens the process's driver. RuntimeError with the driver's own reason.
    """
def _register() -> None:
    """
    Registers guard, allocators, hooks and `.data` support. Once a process; touches no device.
    """
def _set_ready() -> None:
    """
    The operators are registered: devices may be used from now on.
    """
def can_access_peer(device: int, peer: int) -> bool:
    """
    Whether `device` reaches the memory of `peer` directly.
    """
def current_device() -> int:
    """
    This thread's current device.
    """
def default_generator(device: int) -> torch.Generator:
    """
    The device's own torch.Generator.
    """
def device_count() -> int:
    """
    Number of devices; 0 on any failure. Opens the driver.
    """
def device_properties(device: int) -> dict[str, typing.Any]:
    """
    Facts about a device; sizes in bytes.
    """
def elapsed_time(start: int, end: int) -> float:
    """
    Milliseconds between two recorded events, given by their event_id.
    """
def empty_cache(device: int) -> None:
    """
    Gives cached memory back to the driver; device -1: all.
    """
def exchange_device(device: int) -> int:
    """
    Makes `device` this thread's current one (-1: no change) and returns the one before.
    """
def host_statistics() -> dict[str, int]:
    """
    Statistics of the pinned memory.
    """
def in_bad_fork() -> bool:
    """
    True in a forked child of a process that had used a driver.
    """
def set_memory_limit(device: int, bytes: int) -> None:
    """
    Limit of reserved memory on a device in bytes; 2**64 - 1: none.
    """
