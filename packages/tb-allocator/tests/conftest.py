"""Streams straight from the driver, work that a test holds back, and Python processes of their own."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tb_allocator
import tb_device
from tb_device import _core as device_core

HOST_CALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32)
OFFSETS = {name: offset for _, _, name, offset in device_core.slots()}


def slot(name: str) -> Callable[..., int]:
    """A function of the driver's table, by name: takes ctypes values after self and returns the status."""
    driver = tb_device.default_driver()
    address = ctypes.c_void_p.from_address(driver.table_address + OFFSETS[name]).value
    assert address is not None
    function = ctypes.CFUNCTYPE(ctypes.c_int32)(address)
    return lambda *arguments: function(ctypes.c_void_p(driver.self_address), *arguments)


class Stream:
    """A stream of device 0, with the protocol that tb-allocator takes."""

    def __init__(self) -> None:
        handle = ctypes.c_void_p()
        device, priority, flags = ctypes.c_int32(0), ctypes.c_int32(0), ctypes.c_uint64(0)
        assert slot("stream_create")(device, priority, flags, ctypes.byref(handle)) == 0
        self.handle = handle
        self._kept: list[object] = []
        self._gates: list[threading.Event] = []

    def __tb_stream__(self) -> tuple[int, int]:
        assert self.handle.value
        return 0, self.handle.value

    def call(self, function: Callable[[], object]) -> None:
        """Runs `function` in the order of the stream."""
        native = HOST_CALL(lambda _user, _status: function() and None)
        self._kept.append(native)
        assert slot("stream_host_call")(self.handle, native, None) == 0

    def hold(self) -> threading.Event:
        """Stops the stream until the returned event is set, 20 s at most."""
        gate = threading.Event()
        self._gates.append(gate)
        self.call(lambda: gate.wait(20))
        return gate

    def end(self) -> None:
        for gate in self._gates:
            gate.set()
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


class Python:
    """A fresh Python process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.limit = 60  # seconds

    def output(self, code: str, **environment: str) -> str:
        """What it printed; fails the test unless it ended well and printed no error."""
        clean = {key: value for key, value in os.environ.items() if not key.startswith("TB_") or key == "TB_DRIVER"}
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(code)],
            env={**clean, **environment},
            capture_output=True,
            text=True,
            timeout=self.limit,
            cwd=self.folder,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.strip()


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
    """The CPU driver calls itself CUDA's: what doors promise about streams there is seen on streams that tests hold."""
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
