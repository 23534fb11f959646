"""
The C++ core of tb_device: drivers loaded, checked and completed. Use tb_device instead.
"""
from __future__ import annotations
import collections.abc
import tb_device.device_objects
import typing
__all__: list[str] = ['Driver', 'about', 'builtin_drivers', 'builtin_entry', 'current_device', 'default_or_none', 'device_count', 'ensure_usable', 'export_facts', 'fault_arm', 'fault_counts', 'forked', 'importers', 'is_open', 'leak_live', 'load_library', 'message', 'open_builtin', 'races_clear', 'races_found', 'set_current_device', 'set_default', 'slots']
class Driver:
    """
    An open driver. Made by tb_device.load_driver and tb_device.default_driver. Addresses are plain integers, sizes bytes; every method raises tb_device.Error with the driver's own text.
    """
    def __repr__(self) -> str:
        ...
    def close(self) -> None:
        """
        The end of the driver; refused with FailedPreconditionError while objects of it live.
        """
    def copy_between(self, dst_device: int, dst: int, src_device: int, src: int, size: int) -> None:
        """
        Copies between two addresses on devices of this driver and waits for it.
        """
    def copy_from_device(self, device: int, dst: bytearray | memoryview, src: int) -> None:
        """
        Fills a writable contiguous buffer from an address on the device and waits for it.
        """
    def copy_to_device(self, device: int, dst: int, src: bytes | bytearray | memoryview) -> None:
        """
        Copies a contiguous buffer to an address on the device and waits for it.
        """
    def device_info(self, device: int) -> dict[str, typing.Any]:
        """
        The facts of one device.
        """
    def devices(self) -> list[tb_device.device_objects.Device]:
        """
        The devices, in their order.
        """
    def has_extension(self, name: str, version: int) -> bool:
        """
        Whether the driver itself has this version of an extension, such as tb.graph.
        """
    def mem_alloc(self, device: int, size: int) -> int:
        """
        The address of `size` new bytes; OutOfMemoryError.
        """
    def mem_free(self, device: int, address: int) -> None:
        """
        Gives memory back at once, waiting for nothing; 0 is allowed.
        """
    def mem_set(self, device: int, dst: int, pattern: int, pattern_size: int, count: int) -> None:
        """
        Writes `count` times the low `pattern_size` (1, 2, 4) bytes of `pattern` and waits for it.
        """
    def memory_info(self, device: int) -> tuple[int, int]:
        """
        Free and total bytes of a device.
        """
    def query(self, device: int, key: str) -> int:
        """
        A fact of the vendor's own by its key.
        """
    def synchronize(self, device: int) -> None:
        """
        Waits for all work of a device; raises what failed.
        """
    @property
    def device_count(self) -> int:
        """
        The number of devices; the same as long as the driver is open.
        """
    @property
    def functions(self) -> list[str]:
        """
        The functions that the driver itself has, in the order of the table.
        """
    @property
    def groups(self) -> list[str]:
        """
        What the driver itself offers, by group name; the host emulates everything else.
        """
    @property
    def info(self) -> dict[str, typing.Any]:
        """
        name, vendor, version, native, dlpack_type, abi, build_id.
        """
    @property
    def is_open(self) -> bool:
        """
        False once close() has succeeded.
        """
    @property
    def layers(self) -> list[str]:
        """
        The names of the layers around it, outermost first (tb_device.layers).
        """
    @property
    def name(self) -> str:
        """
        The driver's name for itself, such as "cpu".
        """
    @property
    def path(self) -> str:
        """
        Of the library, or what was embedded.
        """
    @property
    def self_address(self) -> int:
        """
        The address that every function of the table takes first.
        """
    @property
    def table_address(self) -> int:
        """
        Of the completed tb_driver_api, for ctypes; valid for the life of the process.
        """
def _connect(opener: typing.Any, exception: typing.Any) -> None:
    """
    Takes the functions that open the default driver and make exceptions.
    """
def _note_importer(component: str, slots_hash: str) -> None:
    """
    Takes what a component that imports tb-device's table was compiled with (tb/component_python.h).
    """
def _shutdown() -> None:
    """
    Waits for all devices and closes every driver; after it every call to a driver is refused.
    """
def about() -> dict[str, typing.Any]:
    """
    version, platform, device_abi, c_api, and the hash of the slot list this was built with.
    """
def builtin_drivers() -> list[tuple[str, int]]:
    """
    The built-in drivers by name, each with its place in the search for a default driver; 0: not searched.
    """
def builtin_entry(name: str) -> int:
    """
    The address of a built-in driver's tb_driver_open_v1, for the contract kit, which opens it raw.
    """
def current_device() -> int:
    """
    This thread's current device.
    """
def default_or_none() -> Driver | None:
    """
    The default driver if it is open.
    """
def device_count() -> int:
    """
    The number of devices of the default driver.
    """
def ensure_usable() -> None:
    """
    Raises FailedPreconditionError in a forked child and after the end.
    """
def export_facts(capsule: typing.Any) -> dict[str, typing.Any]:
    """
    What a component's `_tb_export` says of itself: component, version, platform, c_api.
    """
def fault_arm(driver: Driver, options: str) -> None:
    """
    Arms the layer fault with "key=value,..."; "" disarms it. Counts from 0 again.
    """
def fault_counts(driver: Driver) -> tuple[int, int]:
    """
    Calls to the chosen functions, and faults given, since the layer was armed.
    """
def forked() -> bool:
    """
    Whether this is a forked child of a process that had used a driver.
    """
def importers() -> dict[str, str]:
    """
    The components that imported tb-device's table, each with the hash of its slot list.
    """
def is_open() -> bool:
    """
    Whether the default driver is open and usable.
    """
def leak_live(driver: Driver) -> list[tuple[str, int, int, int, str]]:
    """
    What the layer leak sees alive: kind, handle, bytes, number and function of the call that made it.
    """
def load_library(path: str, name: str, options: collections.abc.Mapping[str, str]) -> Driver:
    """
    Opens a driver library. Options not given come from TB_<NAME>_<OPTION>.
    """
def message(status: int, text: str, driver: str, function: str, device: int, native_code: int) -> str:
    """
    The whole text of a failure, as exceptions show it.
    """
def open_builtin(name: str, options: collections.abc.Mapping[str, str]) -> Driver:
    """
    Opens a driver that is part of this module: cpu, cuda, npu, sim or replay.
    """
def races_clear(driver: Driver) -> None:
    """
    Forgets the races that the layer found.
    """
def races_found(driver: Driver) -> list[tuple[tuple[typing.Any, ...], tuple[typing.Any, ...], int, int, bool]]:
    """
    What the layer races found: the two sides, address, bytes, and whether the memory was reused. A side has its work, the memory's name in it, whether it writes, whether on the host, stream (0: the default one), device, and frames of Python: of the call, and of the launch of its graph.
    """
def set_current_device(device: int) -> None:
    """
    Sets this thread's current device.
    """
def set_default(driver: Driver) -> None:
    """
    Makes an open driver the process's default, once.
    """
def slots() -> list[tuple[str, str, str, int]]:
    """
    The driver table: group, REQUIRED or OPTIONAL, name and byte offset of each function, in order.
    """
_tb_export: typing.Any
