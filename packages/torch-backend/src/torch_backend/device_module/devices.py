"""torch.tb: devices and their properties."""

import dataclasses
from typing import Any

import torch

from torch_backend import _state

Device = torch.device | str | int | None


def device_index(device: Device = None) -> int:
    """The number of a device given as torch.device, "tb:1", number, or None for this thread's current one.

    ValueError: a device of another type or a negative number. The upper end is not checked here but by the function
    that uses the number.
    """
    if device is None:
        return current_device()
    if isinstance(device, int):
        if device < 0:
            raise ValueError(f"expected a device number of 0 or more, but got {device}")
        return device
    device = torch.device(device)
    if device.type != "tb":
        raise ValueError(f"expected a tb device, but got '{device}'")
    return current_device() if device.index is None else device.index


def is_available() -> bool:
    """Whether tb can be used: all components, a driver and at least one device were found. Never raises."""
    return _state.failure() is None and device_count() > 0


def device_count() -> int:
    """The number of tb devices, 0 if tb cannot be used. Opens the driver; never raises."""
    if _state.failure() is not None:
        return 0
    from torch_backend import _core

    return _core.device_count()


def current_device() -> int:
    """The number of this thread's current device; 0 until set."""
    _state.initialize()
    from torch_backend import _core

    return _core.current_device()


def set_device(device: Device) -> None:
    """Makes a device this thread's current one. A negative number changes nothing. RuntimeError: no such device."""
    _exchange_device(device if isinstance(device, int) else device_index(device))


def _exchange_device(device: int) -> int:
    _state.initialize()
    from torch_backend import _core

    return _core.exchange_device(device)


_maybe_exchange_device = _exchange_device


def _get_device_index(device: Device, optional: bool = False, allow_cpu: bool = False) -> int:
    """As torch.cuda._get_device_index: a device's number; -1 for the CPU if `allow_cpu`.

    `optional`: None means the current device; otherwise it is a ValueError.
    """
    if device is None and not optional:
        raise ValueError("expected a tb device with a number, but got None")
    if allow_cpu and device is not None and not isinstance(device, int) and torch.device(device).type == "cpu":
        return -1
    return device_index(device)


def synchronize(device: Device = None) -> None:
    """Waits for all streams of a device; follows torch.cuda.synchronize.

    Raises the exception of queued work that failed, with the name of its operation. Before the first use of tb it does
    nothing without a device, because PyTorch's profiler calls it in programs that never use tb.
    """
    if device is None and not _state.was_used():
        return
    _state.initialize()
    number = device_index(device)
    torch._C._accelerator_synchronizeDevice(number)


class device:
    """Context manager: makes `device` current inside the block; follows torch.cuda.device. None changes nothing."""

    def __init__(self, device: Device) -> None:
        self.idx = -1 if device is None else device if isinstance(device, int) else device_index(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        self.prev_idx = _exchange_device(self.idx)

    def __exit__(self, *exc_info: object) -> None:
        _exchange_device(self.prev_idx)


class device_of(device):
    """As `device`, with the device of a tensor or storage. Changes nothing if that is not on tb."""

    def __init__(self, obj: torch.Tensor | torch.UntypedStorage | torch.TypedStorage) -> None:
        super().__init__(obj.device.index if obj.device.type == "tb" else -1)


@dataclasses.dataclass(frozen=True)
class DeviceProperties:
    """Properties of a device, as the driver reports them.

    total_memory: bytes. multi_processor_count: compute units. host_accessible: the host can read and write device
    memory through the same pointer. uuid: 16 bytes. Lower stream priorities are more urgent.
    """

    name: str
    arch: str
    uuid: bytes
    total_memory: int
    multi_processor_count: int
    host_accessible: bool
    priority_least: int
    priority_greatest: int
    driver: str
    driver_version: str


def get_device_properties(device: Device = None) -> DeviceProperties:
    """The properties of a device. RuntimeError: there is no such device."""
    number = device_index(device)
    from torch_backend import _core

    return DeviceProperties(**_core.device_properties(number))


def get_device_name(device: Device = None) -> str:
    """The name that the driver gives the device."""
    return get_device_properties(device).name


def get_device_capability(device: Device = None) -> dict[str, Any]:
    """A dict of `arch`, `driver` (its name) and `supported_dtypes`, a set; follows torch.xpu.get_device_capability."""
    properties = get_device_properties(device)
    supported = torch._C._accelerator_getDeviceCapability(device_index(device))
    return {"arch": properties.arch, "driver": properties.driver, **supported}


def can_device_access_peer(device: Device, peer_device: Device) -> bool:
    """Whether `device` can access the memory of `peer_device` directly; follows torch.cuda.can_device_access_peer."""
    number, peer = device_index(device), device_index(peer_device)
    _state.initialize()
    from torch_backend import _core

    return number != peer and _core.can_access_peer(number, peer)
