"""Every call of libcuda fails once: the CUDA driver reports libcuda's code and text, and no object stays alive.

The program below uses every function of the table. For each function of libcuda, each of its calls in the program fails
in turn. A release of the simulation does its work even when it fails, as a vendor's does.
"""

from __future__ import annotations

import ctypes
from ctypes import c_char_p, c_int32, c_uint32, c_void_p
from pathlib import Path

import pytest
from sim_vendor.simulated import Control
from simulated_cuda import FUNCTIONS, Failed, RawDriver, control, image, library, u64

__all__ = ["control", "image", "library"]  # fixtures

UNKNOWN, ILLEGAL_ADDRESS = 999, 700
FAILED_PRECONDITION, LOST = 9, 33
SIZE = 4096
# A caller does not see failures of these: the driver does without, or calls them for itself.
UNSEEN = {
    "cuDevicePrimaryCtxGetState",  # the driver takes it that no other code has a context
    "cuStreamQuery",  # the driver calls it for itself, and takes the stream as busy
    "cuStreamIsCapturing",  # libcuda's own check follows
}

_HostCall = ctypes.CFUNCTYPE(None, c_void_p, c_int32)
_ran: list[int] = []
host_call = _HostCall(lambda user, status: _ran.append(status))


class GraphTable(ctypes.Structure):
    _fields_ = (("struct_size", c_uint32), ("version", c_uint32), ("functions", c_void_p * 9))


class Copy2D(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("kind", c_int32),
        ("dst", c_void_p),
        ("src", c_void_p),
        *((name, ctypes.c_uint64) for name in ("dst_pitch", "src_pitch", "width", "height")),
    )


class Launch(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("arg_count", c_uint32),
        ("grid", c_uint32 * 3),
        ("block", c_uint32 * 3),
        ("shared_size", ctypes.c_uint64),
        ("args", c_void_p),
        ("arg_sizes", c_void_p),
        ("next", c_void_p),
    )


class Program:
    """Uses every function and releases every object, also after failures, which `failures` lists."""

    def __init__(self, library: Path, image: Path) -> None:
        self.failures: list[Failed] = []
        self._back: list[tuple[object, ...]] = []
        self._image = image.read_bytes()
        self._library = library

    def run(self) -> list[str]:
        """Runs the program and gives the driver's log."""
        try:
            driver = RawDriver(self._library)
        except Failed as error:
            self.failures.append(error)
            return []
        self.driver = driver
        parts = [self.facts, self.memory, self.streams, self.peers, self.kernels, self.sharing]
        for part in [*parts, *([self.addresses] if driver.offers("vmm_map") else [])]:
            self._back.clear()
            self.attempt(part)
            for stream in [words for words in self._back if words[0] == "stream_destroy"]:
                self.attempt(driver.call, "stream_synchronize", stream[1])
            for words in reversed(self._back):
                self.give_back(*words)
        if any(error.status == LOST for error in self.failures):
            for device in (0, 1):  # as the error text says; frees the memory of the device too
                driver.call("device_reset", device)
        driver.call("close")  # no object is alive, so close must succeed
        return driver.logged

    def give_back(self, *words: object) -> None:
        try:
            self.driver.call(*words)  # type: ignore[arg-type]
        except Failed as error:
            self.failures.append(error)
            if error.status == FAILED_PRECONDITION:  # the object is still alive
                self.attempt(self.driver.call, *words)

    def attempt(self, function: object, *arguments: object) -> None:
        try:
            function(*arguments)  # type: ignore[operator]
        except Failed as error:
            self.failures.append(error)

    def made(self, value: c_void_p, *release: object) -> c_void_p:
        self._back.append(tuple(value if word is made else word for word in release))
        return value

    def block(self, device: int = 0, size: int = SIZE) -> c_void_p:
        return self.made(self.driver.out("mem_alloc", device, u64(size), u64(0)), "mem_free", device, made)

    def stream(self, device: int = 0) -> c_void_p:
        return self.made(self.driver.out("stream_create", device, 0, u64(0)), "stream_destroy", made)

    def event(self, flags: int = 0) -> c_void_p:
        return self.made(self.driver.out("event_create", 0, u64(flags)), "event_destroy", made)

    def facts(self) -> None:
        room = ctypes.create_string_buffer(1024)
        for name, arguments in (("get_info", ()), ("device_get_info", (0,))):
            c_uint32.from_buffer(room).value = len(room)
            self.driver.call(name, *arguments, room)
        self.driver.out("device_query", 0, c_char_p(b"cuda.warp_size"))
        free = ctypes.c_uint64()
        self.driver.out("device_memory_info", 0, ctypes.byref(free))
        self.driver.call("device_activate", 1)
        self.driver.call("device_synchronize", 0)

    def memory(self) -> None:
        call = self.driver.call
        stream, block, other = self.stream(), self.block(), self.block()
        pinned = self.made(self.driver.out("mem_alloc_host", 0, u64(SIZE), u64(0)), "mem_free_host", made)
        self._own = ctypes.create_string_buffer(SIZE)
        call("mem_register_host", 0, self._own, u64(SIZE), u64(0))
        self._back.append(("mem_unregister_host", self._own))
        for width in (1, 2, 4):
            call("mem_set", 0, stream, block, c_uint32(7), c_uint32(width), u64(SIZE // 4))
        call("mem_copy", 0, stream, block, pinned, u64(SIZE), 1)
        call("mem_copy", 0, stream, other, block, u64(SIZE), 3)
        call("mem_copy", 0, stream, pinned, other, u64(SIZE), 2)
        inside = c_void_p((block.value or 0) + 64)
        call("mem_copy", 0, stream, inside, block, u64(1024), 3)  # overlaps
        pitched = Copy2D(ctypes.sizeof(Copy2D), 3, other.value, block.value, 64, 64, 32, 8)
        call("mem_copy_2d", 0, stream, ctypes.byref(pitched))
        room = ctypes.create_string_buffer(64)
        c_uint32.from_buffer(room).value = len(room)
        call("mem_get_info", inside, room)
        if self.driver.offers("mem_alloc_async"):
            ordered = self.driver.out("mem_alloc_async", stream, u64(SIZE), u64(0))
            self._back.append(("mem_free_async", stream, ordered))
            call("mem_set", 0, stream, ordered, c_uint32(1), c_uint32(1), u64(SIZE))
        call("stream_synchronize", stream)
        call("device_memory_info", 0, ctypes.byref(ctypes.c_uint64()), ctypes.byref(ctypes.c_uint64()))

    def streams(self) -> None:
        call = self.driver.call
        stream, other, start, end = self.stream(), self.stream(), self.event(1), self.event(1)
        call("event_record", start, stream)
        call("stream_host_call", stream, host_call, None)
        call("event_record", end, stream)
        call("stream_wait_event", other, end)
        call("event_synchronize", end)
        call("event_query", end)
        self.driver.out("event_elapsed_ns", start, end)
        native = self.driver.out("stream_native", stream)
        self.made(self.driver.out("stream_wrap", 0, u64(native.value or 0)), "stream_destroy", made)
        self.driver.call("stream_synchronize", other)
        self.driver.call("stream_query", other)
        self.driver.out("stream_default", 0)

    def addresses(self) -> None:
        least, size = ctypes.c_uint64(), ctypes.c_uint64()
        self.driver.call("vmm_granularity", 0, ctypes.byref(least), ctypes.byref(size))
        place = self.driver.out("vmm_reserve", size, u64(0), None)
        self._back.append(("vmm_release", place, size))
        physical = self.made(self.driver.out("vmm_create", 0, size, u64(0)), "vmm_destroy", made)
        self.driver.call("vmm_map", place, size, physical, u64(0))
        self._back.append(("vmm_unmap", place, size))
        device = c_int32(0)
        self.driver.call("vmm_set_access", place, size, ctypes.byref(device), c_uint32(1), c_uint32(3))

    def peers(self) -> None:
        can = c_int32()
        self.driver.call("peer_can_access", 0, 1, ctypes.byref(can))
        self.driver.call("peer_enable", 0, 1)
        self._back.append(("peer_disable", 0, 1))
        here, there, stream = self.block(0), self.block(1), self.stream()
        self.driver.call("peer_copy", stream, there, 1, here, 0, u64(SIZE))

    def kernels(self) -> None:
        block, stream = self.block(), self.stream()
        module = self.driver.out("module_load", 0, c_char_p(self._image), u64(len(self._image)), c_char_p(b""))
        self._back.append(("module_unload", module))
        fill = self.driver.out("module_function", module, c_char_p(b"tb_contract_fill"))
        size = ctypes.c_uint64()
        self.driver.call(
            "module_global", module, c_char_p(b"tb_contract_answer"), ctypes.byref(c_void_p()), ctypes.byref(size)
        )
        room = ctypes.create_string_buffer(64)
        c_uint32.from_buffer(room).value = len(room)
        self.driver.call("function_get_info", fill, room)
        values = (block, c_uint32(3), c_uint32(32))
        pointers = (c_void_p * 3)(*(ctypes.addressof(value) for value in values))
        threes = (c_uint32 * 3)(1, 1, 1)
        launch = Launch(
            ctypes.sizeof(Launch), 3, threes, (c_uint32 * 3)(32, 1, 1), 64 << 10, ctypes.addressof(pointers), None, None
        )
        self.driver.call("launch", stream, fill, ctypes.byref(launch))
        self.graphs(stream, block)

    def graphs(self, stream: c_void_p, block: c_void_p) -> None:
        table = GraphTable(ctypes.sizeof(GraphTable))
        self.driver.call("get_extension", c_char_p(b"tb.graph"), c_uint32(1), ctypes.byref(table), ctypes.sizeof(table))
        begin, active, end, count, destroy, instantiate, start, update, destroy_exec = table.functions
        extension = self.driver.extension
        extension("capture_begin", begin, stream, u64(0))
        graph = c_void_p()
        try:
            self.driver.call("mem_set", 0, stream, block, c_uint32(7), c_uint32(1), u64(SIZE))
            self.driver.call("stream_host_call", stream, host_call, None)
            extension("capture_is_active", active, stream, ctypes.byref(c_int32()))
        except Failed as error:
            self.failures.append(error)
        extension("capture_end", end, stream, ctypes.byref(graph))
        try:
            extension("graph_node_count", count, graph, ctypes.byref(ctypes.c_uint64()))
            executable = c_void_p()
            extension("graph_instantiate", instantiate, graph, u64(0), ctypes.byref(executable))
            try:
                extension("graph_launch", start, executable, stream)
                extension("graph_update", update, executable, graph)
            finally:
                extension("graph_exec_destroy", destroy_exec, executable)
        finally:
            extension("graph_destroy", destroy, graph)

    def sharing(self) -> None:
        handle = ctypes.create_string_buffer(128)
        c_uint32.from_buffer(handle).value = len(handle)
        event = self.event(4)
        self.driver.call("ipc_export_event", event, handle)
        self.made(self.driver.out("ipc_import_event", 0, handle), "event_destroy", made)
        block = self.block()
        self.driver.call("ipc_export_memory", block, handle)
        try:  # CUDA refuses an import in the exporting process; the contract's IPC cases use another one
            self.driver.out("ipc_import_memory", 0, handle)
        except Failed as error:
            if "use it directly" not in error.text:
                self.failures.append(error)


made = object()  # stands for the new object in the arguments of a release
OFTEN = 60  # at most so many calls of one function fail in turn


def test_the_program_uses_every_function_of_libcuda(control: Control, library: Path, image: Path) -> None:
    before = {symbol: control.calls(symbol) for _, _, symbol in FUNCTIONS}
    program = Program(library, image)
    logged = program.run()
    assert [str(error) for error in program.failures] == []
    assert logged == []
    unused = {symbol for symbol, count in before.items() if control.calls(symbol) == count}
    # The driver calls the first only after a loss, and the second only for memory of another process.
    assert unused <= {"cuDevicePrimaryCtxReset_v2", "cuIpcCloseMemHandle"}


@pytest.mark.parametrize("code", [UNKNOWN, ILLEGAL_ADDRESS])
@pytest.mark.parametrize("symbol", [symbol for _, _, symbol in FUNCTIONS if not symbol.startswith("cuGetError")])
def test_each_failing_call_is_reported_and_no_object_stays_alive(
    control: Control, library: Path, image: Path, symbol: str, code: int
) -> None:
    name = next(name for _, name, each in FUNCTIONS if each == symbol)
    for nth in range(OFTEN):
        control.fault(symbol, nth, code)
        program = Program(library, image)
        logged = program.run()
        fired, where = control.fired()
        control.fault(None, -1, 0)
        assert control.live() == "", f"call {nth}: {program.failures} {logged}"
        if not fired:
            break
        assert where == symbol
        by_caller = [error for error in program.failures if error.native_code == code]
        by_log = [text for text in logged if str(code) in text and name in text]
        assert by_caller or by_log or name in UNSEEN, f"call {nth} of {symbol} failed unseen: {program.failures}"
        for error in by_caller[:1]:
            assert str(code) in error.text
            assert "CUDA_ERROR_" in error.text
