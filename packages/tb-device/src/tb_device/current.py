"""The default driver's devices as functions: count, current one, properties, memory. The first use opens the driver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from . import _core
from .device_objects import Device, DeviceProperties
from .discovery import default_driver


def is_open() -> bool:
    """Whether the default driver is open and usable. Opens nothing."""
    return _core.is_open()


def device_count() -> int:
    """The number of devices. Raises UnavailableError when no driver is usable."""
    if not _core.is_open() and not _core.forked():
        default_driver()
    return _core.device_count()


def devices() -> list[Device]:
    """The devices of the default driver, in their order. Raises UnavailableError when no driver is usable."""
    return default_driver().devices()


def current_device() -> int:
    """This thread's current device: 0 until set_device. Opens nothing."""
    return _core.current_device()


def set_device(device: int) -> None:
    """Makes `device` this thread's current one. Raises OutOfRangeError."""
    device_count()
    _core.set_current_device(device)


@contextmanager
def device(device: int) -> Iterator[int]:
    """Makes `device` this thread's current one within a `with` block. Raises OutOfRangeError."""
    before = current_device()
    set_device(device)
    try:
        yield device
    finally:
        set_device(before)


def get_device_properties(device: int | None = None) -> DeviceProperties:
    """The facts of a device, by default the current one; remembered, so without a call to the driver."""
    return Device(default_driver(), current_device() if device is None else device).properties


def memory_info(device: int | None = None) -> tuple[int, int]:
    """Free and total bytes of a device, by default the current one."""
    return default_driver().memory_info(current_device() if device is None else device)


def synchronize(device: int | None = None) -> None:
    """Waits for all work of a device, by default the current one. Raises what failed in that work."""
    default_driver().synchronize(current_device() if device is None else device)
