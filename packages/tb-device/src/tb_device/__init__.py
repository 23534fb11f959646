"""Devices behind one C table: drivers found, loaded, checked and completed.

A driver is a shared library with one function, tb_driver_open_v1 (`tb_device.get_include()` has its header). Importing
this package opens no driver; the first use does.

>>> import tb_device
>>> [device] = tb_device.devices()
>>> with device.allocate(5) as memory:
...     tb_device.copy(memory, b"hello")
...     back = bytearray(5)
...     tb_device.copy(back, memory)
>>> back
bytearray(b'hello')
"""

import atexit

from . import _core
from ._core import Driver
from .current import (
    current_device,
    device,
    device_count,
    devices,
    get_device_properties,
    is_open,
    memory_info,
    set_device,
    synchronize,
)
from .device_objects import Device, DeviceProperties, Memory, copy
from .discovery import Candidate, default_driver, drivers, load_driver, open_default, use_driver
from .discovery import open_driver as open
from .exceptions import (
    AbiMismatchError,
    AlreadyExistsError,
    DeadlineExceededError,
    DeviceLostError,
    Error,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OutOfMemoryError,
    OutOfRangeError,
    UnavailableError,
    UnsupportedError,
    exception,
)
from .headers import get_include

__version__: str = str(_core.about()["version"])

_core._connect(open_default, exception)
atexit.register(_core._shutdown)  # exit handlers run last first, so those of users come before

__all__ = [
    "AbiMismatchError",
    "AlreadyExistsError",
    "Candidate",
    "DeadlineExceededError",
    "Device",
    "DeviceLostError",
    "DeviceProperties",
    "Driver",
    "Error",
    "FailedPreconditionError",
    "InvalidArgumentError",
    "Memory",
    "NotFoundError",
    "OutOfMemoryError",
    "OutOfRangeError",
    "UnavailableError",
    "UnsupportedError",
    "__version__",
    "copy",
    "current_device",
    "default_driver",
    "device",
    "device_count",
    "devices",
    "drivers",
    "exception",
    "get_device_properties",
    "get_include",
    "is_open",
    "load_driver",
    "memory_info",
    "open",
    "set_device",
    "synchronize",
    "use_driver",
]
