"""Streams made by the driver itself, work that a test holds back, and separate Python processes."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tb_allocator
import tb_device

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared" / "testing"))

from tb_testing import OFFSETS, HostCalls, Python, slot

__all__ = ["Python", "Stream", "slot"]


class Stream:
    """A stream of device 0 with the stream protocol of tb-allocator."""

    def __init__(self) -> None:
        handle = ctypes.c_void_p()
        device, priority, flags = ctypes.c_int32(0), ctypes.c_int32(0), ctypes.c_uint64(0)
        assert slot("stream_create")(device, priority, flags, ctypes.byref(handle)) == 0
        self.handle = handle
        self._calls = HostCalls()

    def __tb_stream__(self) -> tuple[int, int]:
        assert self.handle.value
        return 0, self.handle.value

    def call(self, function: Callable[[], object]) -> None:
        """Queues a call of `function` on the stream."""
        self._calls.queue(self.handle, function)

    def hold(self) -> threading.Event:
        """Stops the stream until the returned event is set, 20 s at most."""
        return self._calls.gate(self.handle)

    def end(self) -> None:
        self._calls.open_gates()
        tb_device.synchronize()
        assert slot("stream_destroy")(self.handle) == 0


@pytest.fixture
def make_stream() -> Iterator[Callable[[], Stream]]:
    made: list[Stream] = []

    def make() -> Stream:
        made.append(Stream())
        return made[-1]

    yield make
    for stream in made:
        stream.end()


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    """Each test starts without cached memory and leaves none in use."""
    tb_allocator.empty_cache()
    tb_allocator.empty_host_cache()
    tb_allocator.reset_peak_memory_stats()
    tb_allocator.reset_accumulated_memory_stats()
    yield
    assert tb_allocator.memory_allocated() == 0
    assert tb_allocator.host_memory_stats()["allocated_bytes.all.current"] == 0


@pytest.fixture
def python(tmp_path: Path) -> Python:
    return Python(tmp_path)


class _Info(ctypes.Structure):
    """tb_driver_info of tb/driver.h."""

    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("dlpack_type", ctypes.c_int32),
        ("name", ctypes.c_char * 32),
        ("vendor", ctypes.c_char * 64),
        ("version", ctypes.c_char * 64),
        ("native", ctypes.c_char * 32),
    ]


@pytest.fixture
def says_cuda() -> Iterator[None]:
    """Makes the CPU driver report CUDA's name, so that tests can hold the streams that CUDA interfaces use."""
    signature = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
    place = ctypes.c_void_p.from_address(tb_device.default_driver().table_address + OFFSETS["get_info"])
    assert place.value is not None
    original = place.value

    def get_info(driver: int, out: int) -> int:
        status = signature(original)(driver, out)
        info = _Info.from_address(out)
        info.dlpack_type, info.native = 2, b"cuda"
        return status

    replacement = signature(get_info)
    place.value = ctypes.cast(replacement, ctypes.c_void_p).value
    yield
    place.value = original
