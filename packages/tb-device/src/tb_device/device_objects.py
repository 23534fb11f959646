"""A driver's devices and their memory as objects, and copies between memory and Python's buffers."""

from __future__ import annotations

import contextlib
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _core
from .exceptions import FailedPreconditionError, InvalidArgumentError

if TYPE_CHECKING:
    from types import TracebackType


class DeviceProperties(NamedTuple):
    """The facts of one device, as its driver states them. Sizes are bytes.

    priority_range: least and greatest priority of streams; numerically smaller is more urgent.
    pci: domain, bus, device. numa_node: -1 when unknown.
    host_accessible: the host may read and write device memory through the same pointers.
    max_argument_size: bytes of all arguments of one launch; 0: no limit is known.
    lacks: what kernels do without, of "float64", "atomic64", "float_atomics", "fma" (TB_LACKS_* in tb/driver.h).
    vector_size: of the vectors with which one thread computes best, as on a processor; 0: threads run side by side.
    """

    name: str
    driver: str
    arch: str
    uuid: bytes
    total_memory: int
    max_allocation: int
    alignment: int
    compute_units: int
    priority_range: tuple[int, int]
    pci: tuple[int, int, int]
    numa_node: int
    host_accessible: bool
    max_argument_size: int
    lacks: tuple[str, ...]
    vector_size: int


class Device:
    """One device of an open driver. Made by tb_device.devices() and Driver.devices().

    driver: the Driver that it belongs to. index: its number there, from 0.
    """

    __slots__ = ("driver", "index")

    driver: _core.Driver
    index: int

    def __init__(self, driver: _core.Driver, index: int) -> None:
        self.driver = driver
        self.index = index

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and (self.driver, self.index) == (other.driver, other.index)

    def __hash__(self) -> int:
        return hash((self.driver, self.index))

    @property
    def properties(self) -> DeviceProperties:
        """The facts of the device; remembered, so without a call to the driver. Raises OutOfRangeError."""
        facts: dict[str, Any] = self.driver.device_info(self.index)
        return DeviceProperties(driver=self.driver.name, **facts)

    def memory_info(self) -> tuple[int, int]:
        """Free and total bytes."""
        return self.driver.memory_info(self.index)

    def synchronize(self) -> None:
        """Waits for all work of the device. Raises what failed in that work."""
        self.driver.synchronize(self.index)

    def allocate(self, nbytes: int) -> Memory:
        """New memory of `nbytes` bytes, with any contents. Raises OutOfMemoryError."""
        return Memory(self, nbytes)

    def __repr__(self) -> str:
        return f"<tb_device.Device {self.index} of {self.driver.name}: {self.properties.name}>"


def devices_of(driver: _core.Driver) -> list[Device]:
    """Driver.devices()."""
    return [Device(driver, index) for index in range(driver.device_count)]


class Memory:
    """Memory of a device, given back by free(), at the end of a `with` block, or with the object. See Device.allocate.

    device: where it is. nbytes: its size.
    """

    device: Device
    nbytes: int

    def __init__(self, device: Device, nbytes: int) -> None:
        if nbytes < 0:
            raise InvalidArgumentError(
                f"{nbytes} bytes cannot be allocated: give a size of 0 or more",
                driver=device.driver.name,
                function="allocate",
                device=device.index,
            )
        self.device = device
        self.nbytes = nbytes
        self._address = device.driver.mem_alloc(device.index, nbytes)
        # Unlike __del__, runs before the drivers are closed at exit.
        self._owned = weakref.finalize(self, _give_back, device.driver, device.index, self._address)

    @property
    def address(self) -> int:
        """Where it starts, as the driver counts. Raises FailedPreconditionError once it is freed."""
        if not self._owned.alive:
            raise FailedPreconditionError(
                f"this memory of {self.nbytes} bytes was freed: allocate again",
                driver=self.device.driver.name,
                function="address",
                device=self.device.index,
            )
        return self._address

    def free(self) -> None:
        """Gives the memory back at once; work on it must be done (Device.synchronize). Again: nothing happens."""
        if self._owned.detach() is not None:
            self.device.driver.mem_free(self.device.index, self._address)

    def __enter__(self) -> Memory:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.free()

    def __len__(self) -> int:
        return self.nbytes

    def __repr__(self) -> str:
        state = f"at {self._address:#x}" if self._owned.alive else "freed"
        return f"<tb_device.Memory of {self.nbytes} bytes on {self.device!r}, {state}>"


def _give_back(driver: _core.Driver, device: int, address: int) -> None:
    # A closed driver or a forked child: there is nothing of this process's to give back.
    with contextlib.suppress(FailedPreconditionError):
        driver.mem_free(device, address)


def copy(dst: object, src: object) -> None:
    """Copies all bytes of `src` to `dst`, and returns when they are there.

    Each is a Memory or a C-contiguous buffer (bytes, bytearray, memoryview, array), at least one a Memory; `dst` is
    writable. Two Memory objects may be of different devices and drivers.
    Raises InvalidArgumentError (a ValueError) when their sizes differ or `dst` is read-only, TypeError for something
    else than memory, and what the driver says.
    """
    if not isinstance(dst, Memory) and not isinstance(src, Memory):
        raise TypeError("copy is for memory of a device: make dst or src a tb_device.Memory (Device.allocate)")
    to, origin = _bytes_of("dst", dst), _bytes_of("src", src)
    if to.nbytes != origin.nbytes:
        raise InvalidArgumentError(
            f"dst has {to.nbytes} bytes and src {origin.nbytes}: they must be the same, "
            "so slice a larger buffer with memoryview(...)[...]",
            function="copy",
        )
    if isinstance(to, Memory):
        if isinstance(origin, memoryview):
            to.device.driver.copy_to_device(to.device.index, to.address, origin)
        elif to.device.driver is origin.device.driver:
            here, there = to.device, origin.device
            here.driver.copy_between(here.index, to.address, there.index, origin.address, to.nbytes)
        else:
            staged = bytearray(to.nbytes)
            copy(staged, origin)
            copy(to, staged)
    elif isinstance(origin, Memory):
        if to.readonly:
            raise InvalidArgumentError("dst is read-only: give a bytearray or another writable buffer", function="copy")
        origin.device.driver.copy_from_device(origin.device.index, to, origin.address)


def _bytes_of(what: str, given: object) -> Memory | memoryview:
    if isinstance(given, Memory):
        return given
    try:
        view = memoryview(given)  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(
            f"{what} is a {type(given).__name__}: give a tb_device.Memory or a buffer such as a bytearray"
        ) from None
    if not view.c_contiguous:
        raise InvalidArgumentError(f"{what} is not contiguous: copy it first, such as bytes({what})", function="copy")
    return view
