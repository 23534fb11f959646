"""Every function can be called on every driver: what a driver lacks, the host does or refuses with a reason."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Iterator
from ctypes import byref, c_int32, c_int64, c_uint32, c_uint64, c_void_p
from pathlib import Path

import pytest
import tb_device
from conftest import OFFSETS, BuildDriver, Slots
from device_table import describe
from tb_device import Driver, _core

NOT_READY, UNSUPPORTED, NOT_FOUND, INVALID, OUT_OF_RANGE = 32, 12, 5, 3, 11
HostFunction = ctypes.CFUNCTYPE(None, c_void_p, c_int32)


class PointerInfo(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("kind", c_int32),
        ("device", c_int32),
        ("reserved", c_uint32),
        ("base", c_void_p),
        ("size", c_uint64),
    )


class Copy2D(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("kind", c_int32),
        ("dst", c_void_p),
        ("src", c_void_p),
        ("dst_pitch", c_uint64),
        ("src_pitch", c_uint64),
        ("width", c_uint64),
        ("height", c_uint64),
    )


@pytest.fixture(params=[(), ("WITH_ASYNC",)], ids=["core_only", "with_async"])
def driver(request: pytest.FixtureRequest, build_driver: BuildDriver) -> Iterator[Driver]:
    made = tb_device.load_driver(build_driver("COUNT=2", *request.param))
    yield made
    made.close()


@pytest.fixture
def core_only(build_driver: BuildDriver) -> Iterator[Driver]:
    made = tb_device.load_driver(build_driver("COUNT=2"))
    yield made
    made.close()


def stream_of(driver: Driver, device: int = 0) -> c_void_p:
    stream = c_void_p()
    assert Slots(driver).stream_default(c_int32(device), byref(stream)) == 0
    return stream


def test_no_function_of_the_completed_table_is_null(driver: Driver) -> None:
    for _, _, name, offset in _core.slots():
        assert c_void_p.from_address(driver.table_address + offset).value, name


def test_groups_say_what_the_driver_itself_offers(core_only: Driver) -> None:
    assert core_only.groups == ["CORE"]


def test_functions_that_are_present_are_the_drivers_own_pointers(build_driver: BuildDriver) -> None:
    library = build_driver("COUNT=2", "WITH_ASYNC", name="cheap")
    first, second = tb_device.load_driver(library), tb_device.load_driver(library)
    try:
        for name, offset in OFFSETS.items():
            here = c_void_p.from_address(first.table_address + offset).value
            assert here == c_void_p.from_address(second.table_address + offset).value, name
        own = c_void_p.from_address(first.table_address + OFFSETS["event_query"]).value
        stood_in = c_void_p.from_address(first.table_address + OFFSETS["vmm_map"]).value
        assert owner_of(own).endswith("/libcheap.so")
        assert "_core" in owner_of(stood_in)
    finally:
        first.close()
        second.close()


def owner_of(address: int | None) -> str:
    """The path of the library that contains a code address."""
    assert address is not None
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, *_, path = line.split(maxsplit=5)
        low, high = (int(part, 16) for part in span.split("-"))
        if low <= address < high:
            return path.strip()
    raise AssertionError(hex(address))


def test_no_function_of_the_cpu_driver_is_forwarded() -> None:
    driver = tb_device.load_driver("cpu", {"devices": 1})
    assert {"ASYNC", "PIN", "PTR", "HOSTCALL", "TIMING", "CLOSURE"} <= set(driver.groups)
    driver.close()


def test_default_stream_is_the_same_each_time_and_one_a_device(driver: Driver) -> None:
    assert stream_of(driver).value == stream_of(driver).value
    assert stream_of(driver, 0).value != stream_of(driver, 1).value


def test_streams_and_events_of_a_driver_without_them_are_complete(core_only: Driver) -> None:
    slots = Slots(core_only)
    stream, event = c_void_p(), c_void_p()
    assert slots.stream_create(c_int32(1), c_int32(0), c_uint64(0), byref(stream)) == 0
    assert slots.event_create(c_int32(1), c_uint64(1), byref(event)) == 0
    assert slots.event_query(event) == 0
    assert slots.event_record(event, stream) == 0
    assert slots.stream_wait_event(stream_of(core_only), event) == 0
    assert [slots.stream_query(stream), slots.stream_synchronize(stream), slots.event_synchronize(event)] == [0, 0, 0]
    with pytest.raises(tb_device.FailedPreconditionError, match="2 streams, events or allocations are still alive"):
        core_only.close()
    assert [slots.event_destroy(event), slots.stream_destroy(stream)] == [0, 0]
    assert slots.event_query(event) == INVALID
    assert slots.stream_destroy(stream_of(core_only)) == INVALID


def test_memory_arrives_with_the_hosts_stream_dropped(core_only: Driver) -> None:
    address = core_only.mem_alloc(0, 8)
    core_only.copy_to_device(0, address, b"abcdefgh")  # the probe fails if a stream arrives
    core_only.mem_set(0, address, 0x5A59, 2, 2)
    back = bytearray(8)
    core_only.copy_from_device(0, back, address)
    core_only.mem_free(0, address)
    assert back == b"YZYZefgh"


# rules: device_memory_info.absent
def test_memory_info_counts_what_was_allocated(driver: Driver) -> None:
    assert driver.memory_info(0) == (1 << 20, 1 << 20)
    address = driver.mem_alloc(0, 1000)
    assert driver.memory_info(0) == ((1 << 20) - 1000, 1 << 20)
    assert driver.memory_info(1) == (1 << 20, 1 << 20)
    driver.mem_free(0, address)
    assert driver.memory_info(0) == (1 << 20, 1 << 20)


def test_pointer_info_knows_interior_pointers_and_forgets_freed_ones(driver: Driver) -> None:
    slots = Slots(driver)
    address = driver.mem_alloc(1, 100)
    info = PointerInfo(struct_size=ctypes.sizeof(PointerInfo))
    assert slots.mem_get_info(c_void_p(address + 99), byref(info)) == 0
    assert (info.kind, info.device, info.base, info.size) == (2, 1, address, 100)
    assert slots.mem_get_info(c_void_p(address + 100), byref(info)) == NOT_FOUND
    driver.mem_free(1, address)
    assert slots.mem_get_info(c_void_p(address), byref(info)) == NOT_FOUND


def test_host_memory_is_aligned_and_pageable(driver: Driver) -> None:
    slots = Slots(driver)
    out = c_void_p()
    assert slots.mem_alloc_host(c_int32(0), c_uint64(1000), c_uint64(0), byref(out)) == 0
    assert out.value
    assert out.value % 64 == 0
    ctypes.memset(out.value, 1, 1000)
    assert slots.mem_free_host(out) == 0
    assert slots.mem_free_host(None) == 0
    assert slots.mem_alloc_host(c_int32(0), c_uint64(1 << 62), c_uint64(0), byref(out)) == 8


def test_pitched_copy_leaves_the_padding_alone(driver: Driver) -> None:
    source, target = ctypes.create_string_buffer(b"abXXcdXXefXX", 12), ctypes.create_string_buffer(b"-" * 9, 9)
    copy = Copy2D(ctypes.sizeof(Copy2D), 1, ctypes.addressof(target), ctypes.addressof(source), 3, 4, 2, 3)
    assert Slots(driver).mem_copy_2d(c_int32(0), stream_of(driver), byref(copy)) == 0
    assert target.raw == b"ab-cd-ef-"
    copy.dst_pitch = 1
    assert Slots(driver).mem_copy_2d(c_int32(0), stream_of(driver), byref(copy)) == INVALID


def test_copies_between_devices_go_through_the_host(driver: Driver) -> None:
    slots = Slots(driver)
    can = c_int32(7)
    assert slots.peer_can_access(c_int32(0), c_int32(1), byref(can)) == 0
    assert can.value == 0
    assert slots.peer_enable(c_int32(0), c_int32(1)) == UNSUPPORTED
    here, there = driver.mem_alloc(0, 5), driver.mem_alloc(1, 5)
    driver.copy_to_device(0, here, b"hello")
    status = slots.peer_copy(stream_of(driver), c_void_p(there), c_int32(1), c_void_p(here), c_int32(0), c_uint64(5))
    back = bytearray(5)
    driver.copy_from_device(1, back, there)
    driver.mem_free(0, here)
    driver.mem_free(1, there)
    assert (status, bytes(back)) == (0, b"hello")


def test_host_call_runs_once_in_order_and_never_inside_the_call(driver: Driver) -> None:
    slots, stream = Slots(driver), stream_of(driver)
    gate = threading.Event()
    seen: list[object] = []

    def first(user: int | None, status: int) -> None:
        gate.wait(10)
        seen.append(("first", user, status, threading.get_ident() != caller))

    def second(user: int | None, status: int) -> None:
        seen.append(("second", user, status))

    caller = threading.get_ident()
    functions = HostFunction(first), HostFunction(second)
    assert slots.stream_host_call(stream, functions[0], c_void_p(5)) == 0
    assert slots.stream_host_call(stream, functions[1], c_void_p(6)) == 0
    assert slots.stream_query(stream) == NOT_READY
    assert seen == []
    gate.set()
    assert slots.stream_synchronize(stream) == 0
    assert seen == [("first", 5, 0, True), ("second", 6, 0)]
    assert slots.stream_query(stream) == 0


def test_work_enqueued_after_a_host_call_waits_for_it(driver: Driver) -> None:
    slots, stream = Slots(driver), stream_of(driver)
    address = driver.mem_alloc(0, 1)
    driver.mem_set(0, address, 1, 1, 1)
    gate = threading.Event()
    seen: list[int] = []

    def look(user: int | None, status: int) -> None:
        gate.wait(10)
        seen.append(ctypes.string_at(address, 1)[0])

    function = HostFunction(look)
    assert slots.stream_host_call(stream, function, None) == 0
    later = threading.Thread(target=lambda: driver.mem_set(0, address, 2, 1, 1))
    later.start()
    time.sleep(0.05)
    gate.set()
    later.join(10)
    after = ctypes.string_at(address, 1)[0]
    driver.mem_free(0, address)
    assert (seen, after) == ([1], 2)


def test_another_stream_does_not_wait_for_a_host_call(driver: Driver) -> None:
    slots = Slots(driver)
    gate = threading.Event()
    function = HostFunction(lambda user, status: gate.wait(10) and None)
    assert slots.stream_host_call(stream_of(driver, 0), function, None) == 0
    assert slots.stream_query(stream_of(driver, 1)) == 0
    assert slots.stream_synchronize(stream_of(driver, 1)) == 0
    assert slots.stream_query(stream_of(driver, 0)) == NOT_READY
    gate.set()
    assert slots.device_synchronize(c_int32(0)) == 0


@pytest.mark.parametrize("name", ["vmm_map", "module_load", "ipc_export_memory", "closure_reserve", "event_elapsed_ns"])
def test_functions_without_emulation_are_refused_by_name_and_group(driver: Driver, name: str) -> None:
    group = next(group for group, _, slot, _ in _core.slots() if slot == name)
    arguments = [c_void_p()] * 5
    assert getattr(Slots(driver), name)(*arguments) == UNSUPPORTED
    assert f"probe has no function {name} (group {group} not offered)" in describe(UNSUPPORTED, name, -1)


# rules: device_query.absent get_extension.absent device_activate.absent device_reset.absent
def test_optional_facts_have_their_stated_answers(driver: Driver) -> None:
    slots = Slots(driver)
    with pytest.raises(tb_device.NotFoundError, match=r"probe answers no keys, so not 'probe\.clock' either"):
        driver.query(0, "probe.clock")
    assert slots.get_extension(b"tb.graph", c_uint32(1), None, c_uint32(0)) == NOT_FOUND
    assert slots.device_activate(c_int32(1)) == 0
    assert slots.device_activate(c_int32(2)) == OUT_OF_RANGE
    assert slots.device_reset(c_int32(0)) == UNSUPPORTED


def test_out_parameters_stay_untouched_when_an_emulated_function_refuses(driver: Driver) -> None:
    slots = Slots(driver)
    out, number, unchanged = c_void_p(1), c_int64(1), c_uint64(1)
    slots.mem_alloc_host(c_int32(9), c_uint64(1), c_uint64(0), byref(out))
    slots.device_query(c_int32(0), b"key", byref(number))
    slots.device_memory_info(c_int32(9), byref(unchanged), byref(unchanged))
    slots.vmm_reserve(c_uint64(1), c_uint64(1), None, byref(out))
    assert (out.value, number.value, unchanged.value) == (1, 1, 1)
