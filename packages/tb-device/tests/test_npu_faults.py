"""Every call of libascendcl fails once, in turn: nothing crashes or leaks, and the error has the library's code."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import pytest
import tb_device
from conftest import Slots
from sim_vendor.simulated import Control
from simulated_npu import D2D, D2H, GRANULE, H2D, OLDEST, TIMING, control, functions, library
from tb_device import _core

__all__ = ["control", "library"]  # fixtures

CODE, INTERNAL = 507899, 13
DEVICE_LOST = 33
SIZE = 1 << 16
REFUSALS = (3, 5, 9, 11, 12)  # a release that gives one of these leaves the object alive

# The driver calls these for itself. If one fails, the driver logs it and releases the object later.
UNASKED = {
    "aclrtGetCurrentContext",
    "aclrtSetCurrentContext",
    "aclrtGetDevice",
    "aclrtSetDevice",
    "aclrtStreamQuery",
    "aclrtQueryEventStatus",
    "aclrtSynchronizeStream",
    "aclrtDestroyStream",
    "aclrtDestroyEvent",
    "aclrtFree",
    "aclrtFreeHost",
    "aclrtFreePhysical",
    "aclrtResetDevice",
    "aclFinalize",
    "aclrtPointerGetAttributes",
    "aclrtReleaseMemAddress",
    "aclrtUnmapMem",
}


class Failed(Exception):
    """A function of the table failed; the client then releases its objects."""


class Copy2d(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("kind", ctypes.c_int32),
        ("dst", ctypes.c_void_p),
        ("src", ctypes.c_void_p),
        ("dst_pitch", ctypes.c_uint64),
        ("src_pitch", ctypes.c_uint64),
        ("width", ctypes.c_uint64),
        ("height", ctypes.c_uint64),
    ]


class Client:
    """Uses every function of the driver and releases every object, also after failures."""

    def __init__(self, driver: _core.Driver) -> None:
        self.driver = driver
        self.slots = Slots(driver)
        self.undo: list[Callable[[], int]] = []
        self.failures: list[int] = []
        self.stream: ctypes.c_void_p | None = None
        self.kept: list[object] = []  # objects that queued work still uses

    def do(self, name: str, *arguments: object) -> None:
        if status := getattr(self.slots, name)(*arguments):
            self.failures.append(status)
            raise Failed(name)

    def make(self, name: str, *arguments: object, undo: Callable[[ctypes.c_void_p], int]) -> ctypes.c_void_p:
        out = ctypes.c_void_p()
        self.do(name, *arguments, ctypes.byref(out))
        self.undo.append(lambda: undo(out))
        return out

    def finish(self) -> None:
        if self.stream is not None and (status := self.slots.stream_synchronize(self.stream)):
            self.failures.append(status)
            assert self.slots.stream_synchronize(self.stream) == 0  # no queued work is left before memory is freed
        while self.undo:
            back = self.undo.pop()
            if status := back():
                self.failures.append(status)
                if status in REFUSALS:
                    assert back() == 0, "a refused release works the second time"

    def u64(self, value: int) -> ctypes.c_uint64:
        return ctypes.c_uint64(value)

    def run(self, between: Callable[[], None] = lambda: None) -> None:
        try:
            self.work()
        except Failed:
            pass
        finally:
            between()
            self.finish()

    def work(self) -> None:
        slots, u64 = self.slots, self.u64
        near = self.make("mem_alloc", 0, u64(SIZE), u64(0), undo=lambda block: slots.mem_free(0, block))
        far = self.make("mem_alloc", 1, u64(SIZE), u64(0), undo=lambda block: slots.mem_free(1, block))
        stream = self.make("stream_create", 0, 0, u64(0), undo=slots.stream_destroy)
        self.stream = stream
        pinned = self.make("mem_alloc_host", 0, u64(SIZE), u64(0), undo=slots.mem_free_host)
        self.do("device_memory_info", 0, *(ctypes.byref(ctypes.c_uint64()) for _ in range(2)))
        start = self.make("event_create", 0, u64(TIMING), undo=slots.event_destroy)
        end = self.make("event_create", 0, u64(TIMING), undo=slots.event_destroy)
        self.do("event_record", start, stream)
        self.do("mem_set", 0, stream, near, 0x01020304, 4, u64(SIZE // 4))
        self.do("mem_set", 0, stream, near, 5, 1, u64(SIZE))
        self.do("mem_copy", 0, stream, ctypes.c_void_p((near.value or 0) + 64), near, u64(SIZE // 2), D2D)
        self.do("mem_copy", 0, stream, near, pinned, u64(SIZE), H2D)
        host = ctypes.create_string_buffer(SIZE)
        self.do("mem_copy", 0, stream, host, near, u64(SIZE), D2H)
        rows = Copy2d(ctypes.sizeof(Copy2d), H2D, near.value, pinned.value, 64, 64, 32, 16)
        self.do("mem_copy_2d", 0, stream, ctypes.byref(rows))
        self.do("event_record", end, stream)
        self.do("stream_wait_event", stream, start)
        self.do("peer_copy", stream, far, 1, near, 0, u64(SIZE))
        self.do("device_activate", 1)  # not the device that the calls below use
        self.do("event_synchronize", end)
        self.do("event_elapsed_ns", start, end, ctypes.byref(ctypes.c_int64()))
        self.do("stream_synchronize", stream)
        self.do("stream_query", stream)
        native = ctypes.c_uint64()
        self.do("stream_native", stream, ctypes.byref(native))
        self.make("stream_wrap", 0, native, undo=slots.stream_destroy)
        self.host_call(stream)
        self.register()
        self.map(stream)
        self.do("device_synchronize", 0)

    def host_call(self, stream: ctypes.c_void_p) -> None:
        called = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32)(lambda user, status: None)
        self.kept.append(called)
        self.do("stream_host_call", stream, called, None)
        self.do("stream_synchronize", stream)

    def register(self) -> None:
        if "mem_register_host" not in self.driver.functions:
            return
        room = ctypes.create_string_buffer(3 * 4096)
        page = ctypes.c_void_p((ctypes.addressof(room) + 4095) // 4096 * 4096)
        self.do("mem_register_host", 0, page, self.u64(4096), self.u64(0))
        self.undo.append(lambda: self.slots.mem_unregister_host(page) if room else 1)

    def map(self, stream: ctypes.c_void_p) -> None:
        if "VMM" not in self.driver.groups:
            return
        slots, u64 = self.slots, self.u64
        size = u64(2 * GRANULE)
        place = self.make("vmm_reserve", size, u64(0), None, undo=lambda it: slots.vmm_release(it, size))
        physical = self.make("vmm_create", 0, size, u64(0), undo=slots.vmm_destroy)
        self.do("vmm_map", place, size, physical, u64(0))
        self.undo.append(lambda: slots.vmm_unmap(place, size))
        self.do("vmm_set_access", place, size, ctypes.byref(ctypes.c_int32(0)), 1, 3)
        self.do("mem_set", 0, stream, place, 1, 1, size)
        self.do("stream_synchronize", stream)


def run_client(library: Path) -> tuple[list[int], str]:
    """Runs a client; gives the statuses of failed calls, and the error text if opening failed."""
    try:
        driver = tb_device.load_driver("npu", {"library": library})
    except tb_device.Error as error:
        return [], str(error)
    client = Client(driver)
    client.run()
    driver.close()
    return client.failures, ""


@pytest.mark.parametrize("hidden", ["", OLDEST], ids=["newest", "oldest"])
def test_the_failure_of_each_call_is_reported_and_leaves_nothing_behind(
    control: Control, library: Path, monkeypatch: pytest.MonkeyPatch, hidden: str
) -> None:
    monkeypatch.setenv("TB_SIMNPU_HIDE", hidden)
    assert run_client(library) == ([], "")
    assert control.live() == ""
    reached = set()
    for nth in range(100000):
        control.fault(None, nth, CODE)
        failures, refusal = run_client(library)
        count, function = control.fired()
        assert control.live() == "", f"call {nth}, of {function}, left this behind"
        if count == 0:
            break
        reached.add(function)
        if refusal:
            assert f"{function} failed: internal error of the library ({CODE}): EE1001" in refusal
        elif not failures:
            assert function in UNASKED, f"no report that call {nth}, of {function}, failed"
        else:
            assert set(failures) == {INTERNAL}
    used = {name for name in functions() if name not in ("aclGetRecentErrMsg", "aclrtGetSocName")}
    unused = {"aclrtCreateEventWithFlag", "aclrtGetDevice"}  # the driver uses newer functions instead
    assert reached == (used - unused if not hidden else used - set(hidden.split(",")))


def test_objects_that_a_failing_library_kept_are_released_once_it_works_again(control: Control, library: Path) -> None:
    for nth in range(0, 200, 7):
        control.fault(None, nth, 507010, persistent=True)
        try:
            driver = tb_device.load_driver("npu", {"library": library})
        except tb_device.Error as error:
            refusal = str(error)
            control.fault(None, -1, 0)
        else:
            refusal = "507010"
            client = Client(driver)
            fired: list[int] = []

            def recovers(fired: list[int] = fired) -> None:
                fired.append(control.fired()[0])
                control.fault(None, -1, 0)

            client.run(recovers)
            assert client.failures[:1] == ([DEVICE_LOST] if fired[0] else [])
            driver.close()
        assert "507010" in refusal
        assert control.live() == ""


def test_queued_work_that_fails_is_reported_with_code_and_text(control: Control, library: Path) -> None:
    driver = tb_device.load_driver("npu", {"library": library})
    block = driver.mem_alloc(0, SIZE)
    for code in (507013, 507015, 507054):
        control.fail_task(0, code)
        with pytest.raises(tb_device.Error) as raised:
            driver.mem_set(0, block, 1, 1, SIZE)
        assert raised.value.native_code == code
        assert "injected fault of a task" in str(raised.value)
        driver.synchronize(0)
    driver.mem_free(0, block)
    driver.close()
