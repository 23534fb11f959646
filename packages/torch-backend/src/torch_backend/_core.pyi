"""
Registers tb devices with PyTorch's C++ side. Use torch.tb and torch_backend instead.
"""
from __future__ import annotations
import collections.abc
import torch
import typing
__all__: list[str] = ['can_access_peer', 'current_device', 'default_generator', 'device_count', 'device_properties', 'elapsed_time', 'empty_cache', 'exchange_device', 'host_statistics', 'in_bad_fork', 'set_memory_limit']
def _connect() -> None:
    """
    Imports the other components' function tables. ImportError: one is missing or does not match.
    """
def _frames_of_memory_place(place: int) -> list[tuple[int, int]]:
    """
    The frames of such a place, innermost first, as (address of the code, address of the instruction).
    """
def _open() -> None:
    """
    Opens the process's driver. RuntimeError with the driver's own reason.
    """
def _record_memory_places(which: int, offsets: tuple[int, int, int, int, int]) -> None:
    """
    Events of the memory history keep their place in Python from now on: 0 none, 1 those of allocations, 2 all. `offsets`: as of _watch_streams.
    """
def _register() -> None:
    """
    Registers guard, allocators, hooks and `.data` support, once a process. Uses no device.
    """
def _register_first_use() -> None:
    """
    Operators that C++ calls make tb ready, until _unregister_first_use().
    """
def _set_ready() -> None:
    """
    Called when the operators are registered: from now on devices may be used.
    """
def _unregister_first_use() -> None:
    """
    Called before the operators are registered.
    """
def _watch_streams(reporter: collections.abc.Callable[[], None], offsets: tuple[int, int, int, int, int]) -> bool:
    """
    Tells the layer races what operators use from now on; reporter() is called after one in which a race was found. `offsets`: what tb_ops._frames.find() returns, or five times -1. False: the driver was opened without the layer.
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
    The default torch.Generator of a device.
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
    Returns cached memory to the driver; device -1: of all devices.
    """
def exchange_device(device: int) -> int:
    """
    Makes `device` this thread's current one (-1: no change) and returns the previous one.
    """
def host_statistics() -> dict[str, int]:
    """
    Statistics of pinned memory.
    """
def in_bad_fork() -> bool:
    """
    True in a forked child of a process that had used a driver.
    """
def set_memory_limit(device: int, bytes: int) -> None:
    """
    Limits the reserved memory on a device, in bytes; 2**64 - 1 removes the limit.
    """
