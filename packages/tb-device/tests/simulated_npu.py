"""Fixtures and helpers of the tests that run the NPU driver on the simulated libascendcl."""

from __future__ import annotations

import ctypes
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import tb_device
from conftest import Slots
from sim_vendor.simulated import ROOT, Control, build

H2D, D2H, D2D = 1, 2, 3
NOT_READY = 32
TIMING = 1
GRANULE = 2 << 20


def functions() -> dict[str, str]:
    """The functions of libascendcl that the driver knows: REQUIRED or OPTIONAL, by name."""
    text = (ROOT / "packages/tb-device/drivers/npu/functions.inc").read_text()
    found = {name: need for need, name in re.findall(r"^TB_ACL\((\w+), (\w+)", text, re.MULTILINE)}
    return found | dict.fromkeys(re.findall(r"^TB_ACL_TEXT\((\w+)\)", text, re.MULTILINE), "REQUIRED")


OPTIONAL = [name for name, need in functions().items() if need == "OPTIONAL"]
# Hides the optional functions, as a CANN would lack them that is as old as the driver accepts.
OLDEST = ",".join(name for name in OPTIONAL if name != "aclrtCreateEventWithFlag")


@pytest.fixture(scope="session")
def library() -> Path:
    return build("npu")


@pytest.fixture
def control(library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Control]:
    """The simulated library, uninitialised. Checks after the test that no object is left and none was misused."""
    monkeypatch.delenv("TB_SIMNPU_HIDE", raising=False)
    control = Control("npu", library)
    before = control.live()  # a failed test may have left objects
    yield control
    control.fault(None, -1, 0)
    assert control.live() == before
    assert control.misuse() == ""


class Npu:
    """An open NPU driver with its raw table."""

    def __init__(self, library: Path) -> None:
        self.driver = tb_device.load_driver("npu", {"library": library})
        self.slots = Slots(self.driver)

    def out(self, name: str, *arguments: object) -> int:
        """Calls a function whose last parameter is an out-pointer; gives the value. The status must be 0."""
        value = ctypes.c_void_p()
        assert getattr(self.slots, name)(*arguments, ctypes.byref(value)) == 0
        return value.value or 0

    def alloc(self, size: int, device: int = 0) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.driver.mem_alloc(device, size))

    def free(self, block: ctypes.c_void_p, device: int = 0) -> None:
        assert block.value
        self.driver.mem_free(device, block.value)

    def pinned(self, size: int) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.out("mem_alloc_host", 0, ctypes.c_uint64(size), ctypes.c_uint64(0)))

    def stream(self) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.out("stream_create", 0, 0, ctypes.c_uint64(0)))

    def event(self, flags: int = 0) -> ctypes.c_void_p:
        return ctypes.c_void_p(self.out("event_create", 0, ctypes.c_uint64(flags)))

    def copy(self, stream: ctypes.c_void_p, dst: object, src: object, size: int, kind: int) -> int:
        return int(self.slots.mem_copy(0, stream, dst, src, ctypes.c_uint64(size), kind))

    def fill(self, stream: ctypes.c_void_p, dst: ctypes.c_void_p, byte: int, size: int) -> int:
        return int(self.slots.mem_set(0, stream, dst, byte, 1, ctypes.c_uint64(size)))


@pytest.fixture
def npu(control: Control, library: Path) -> Iterator[Npu]:
    npu = Npu(library)
    yield npu
    npu.driver.close()


_HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32)


class Held:
    """A stream that goes on when this is left."""

    def __init__(self, npu: Npu, stream: ctypes.c_void_p) -> None:
        self._npu, self._stream = npu, stream
        self._go_on = threading.Event()
        self._function = _HOST_FUNCTION(self._hold)

    def _hold(self, user: int, status: int) -> None:
        self._go_on.wait(30)

    def __enter__(self) -> Held:
        assert self._npu.slots.stream_host_call(self._stream, self._function, None) == 0
        return self

    def __exit__(self, *_: object) -> None:
        self._go_on.set()
        assert self._npu.slots.stream_synchronize(self._stream) == 0
