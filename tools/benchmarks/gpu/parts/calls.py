"""What mapping, unmapping, events and allocations cost through the CUDA driver's table. Needs tb-device alone."""

from __future__ import annotations

import ctypes
import statistics
import sys
import time
from collections.abc import Callable

import tb_device
from tb_device import _core

from benchmarks.gpu.parts.part import Options, Result, main

MIB = 1 << 20
ROUNDS = 7


class Table:
    """Functions of the driver's table by name; a failure raises RuntimeError."""

    def __init__(self, driver: _core.Driver) -> None:
        self.self = ctypes.c_void_p(driver.self_address)
        self.functions = {}
        for _, _, name, offset in _core.slots():
            address = ctypes.c_void_p.from_address(driver.table_address + offset).value
            assert address is not None  # tb-device completes the table
            self.functions[name] = ctypes.CFUNCTYPE(ctypes.c_int32)(address)

    def call(self, name: str, *arguments: object, also: int = 0) -> None:
        """Calls a function. also: a further status that is not a failure."""
        status = self.functions[name](self.self, *arguments)
        if status not in (0, also):
            raise RuntimeError(f"{name} gave status {status}")

    def out(self, name: str, *arguments: object) -> ctypes.c_void_p:
        value = ctypes.c_void_p()
        self.call(name, *arguments, ctypes.byref(value))
        return value


def microseconds(count: int, once: Callable[[int], None]) -> float:
    """The time of one call: the median over rounds of `count` calls. Each call gets its number."""
    rounds = []
    for _ in range(ROUNDS):
        start = time.perf_counter_ns()
        for number in range(count):
            once(number)
        rounds.append((time.perf_counter_ns() - start) / count / 1000)
    return statistics.median(rounds)


class Costs:
    """Measures calls. Rows are (what, microseconds), without the cost of a call through ctypes."""

    def __init__(self, driver: _core.Driver) -> None:
        self.table = Table(driver)
        self.groups = set(driver.groups)
        self.rows: list[tuple[str, float]] = []
        count = ctypes.byref(ctypes.c_int32())
        self.overhead = microseconds(2000, lambda _: self.table.call("device_count", count))

    def add(self, what: str, value: float) -> None:
        self.rows.append((what, max(0.0, value - self.overhead)))

    def events(self) -> None:
        table = self.table
        stream = table.out("stream_create", 0, 0, ctypes.c_uint64(0))
        event = table.out("event_create", 0, ctypes.c_uint64(0))
        not_ready = 32
        self.add("event_record", microseconds(1000, lambda _: table.call("event_record", event, stream)))
        table.call("stream_synchronize", stream)
        self.add(
            "event_query, complete", microseconds(1000, lambda _: table.call("event_query", event, also=not_ready))
        )
        self.add("stream_wait_event", microseconds(500, lambda _: table.call("stream_wait_event", stream, event)))
        self.add("stream_synchronize, idle", microseconds(500, lambda _: table.call("stream_synchronize", stream)))
        table.call("event_destroy", event)
        table.call("stream_destroy", stream)

    def allocations(self) -> None:
        for size in (4096, 2 * MIB, 20 * MIB):

            def once(_: int, size: int = size) -> None:
                block = self.table.out("mem_alloc", 0, ctypes.c_uint64(size), ctypes.c_uint64(0))
                self.table.call("mem_free", 0, block)

            self.add(f"mem_alloc + mem_free, {size >> 10} KiB", microseconds(20, once))

    def mappings(self, size: int, count: int = 8) -> None:
        """Times each step for `count` pieces of memory in one range; vmm_set_access also once for the whole range."""
        times: dict[str, list[float]] = {}
        for _ in range(ROUNDS):
            self._map_once(size, count, times)
        for what, values in times.items():
            self.add(f"{what}, {size // MIB} MiB", statistics.median(values))

    def _map_once(self, size: int, count: int, times: dict[str, list[float]]) -> None:
        call, length, whole = self.table.call, ctypes.c_uint64(size), ctypes.c_uint64(size * count)
        place = self.table.out("vmm_reserve", whole, ctypes.c_uint64(0), None)
        places = [ctypes.c_void_p((place.value or 0) + size * i) for i in range(count)]
        pieces = [ctypes.c_void_p() for _ in range(count)]
        access = (ctypes.byref(ctypes.c_int32(0)), ctypes.c_uint32(1), ctypes.c_uint32(3))  # device 0, read and write

        def step(what: str, calls: list[tuple[object, ...]]) -> None:
            start = time.perf_counter_ns()
            for name, *arguments in calls:
                call(str(name), *arguments)
            times.setdefault(what, []).append((time.perf_counter_ns() - start) / len(calls) / 1000)

        none = ctypes.c_uint64(0)
        step("vmm_create", [("vmm_create", 0, length, none, ctypes.byref(piece)) for piece in pieces])
        step("vmm_map", [("vmm_map", at, length, piece, none) for at, piece in zip(places, pieces, strict=True)])
        step("vmm_set_access", [("vmm_set_access", at, length, *access) for at in places])
        step(f"vmm_set_access over {count} pieces at once", [("vmm_set_access", place, whole, *access)])
        step("vmm_unmap", [("vmm_unmap", at, length) for at in places])
        step("vmm_destroy", [("vmm_destroy", piece) for piece in pieces])
        call("vmm_release", place, whole)

    def measure(self) -> None:
        if "ASYNC" in self.groups:
            self.events()
        self.allocations()
        if "VMM" in self.groups:
            for size in (2 * MIB, 8 * MIB):
                self.mappings(size)


def part(options: Options) -> Result:
    driver = tb_device.open("cuda")
    costs = Costs(driver)
    costs.measure()
    driver.close()
    return Result(
        "passed",
        f"medians of {ROUNDS} rounds; {costs.overhead:.2f} us of ctypes a call are taken off",
        ["call", "us"],
        [[what, value] for what, value in costs.rows],
    )


if __name__ == "__main__":
    sys.exit(main(__doc__, part))
