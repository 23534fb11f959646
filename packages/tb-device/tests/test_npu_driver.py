"""How the NPU driver handles the peculiarities of libascendcl, on the simulated library."""

from __future__ import annotations

import ctypes
import mmap
import threading
from pathlib import Path

import pytest
import tb_device
from sim_vendor.simulated import Control
from simulated_npu import D2H, H2D, NOT_READY, OLDEST, TIMING, Held, Npu, control, library, npu

__all__ = ["control", "library", "npu"]  # fixtures

SIZE = 1 << 16
INVALID_ARGUMENT = 3


def test_queries_of_streams_and_events_answer_in_opposite_senses_and_are_read_so(npu: Npu) -> None:
    stream, event = npu.stream(), npu.event()
    with Held(npu, stream):
        assert npu.slots.event_record(event, stream) == 0
        assert npu.slots.stream_query(stream) == NOT_READY
        assert npu.slots.event_query(event) == NOT_READY
    assert npu.slots.stream_query(stream) == 0
    assert npu.slots.event_query(event) == 0
    assert npu.slots.event_destroy(event) == npu.slots.stream_destroy(stream) == 0


def test_pageable_memory_is_copied_after_what_the_stream_still_has_to_do(
    control: Control, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TB_SIMNPU_DELAY", "20000")
    npu = Npu(library)
    stream, block = npu.stream(), npu.alloc(SIZE)
    back = ctypes.create_string_buffer(SIZE)
    assert npu.fill(stream, block, 7, SIZE) == 0
    assert npu.copy(stream, back, block, SIZE, D2H) == 0
    assert back.raw == bytes([7]) * SIZE  # the copy is complete on return, and in order
    assert npu.fill(stream, block, 8, SIZE) == 0
    assert npu.copy(stream, block, bytes([9]) * SIZE, SIZE, H2D) == 0
    assert npu.copy(stream, back, block, SIZE, D2H) == 0
    assert back.raw == bytes([9]) * SIZE
    npu.free(block)
    assert npu.slots.stream_destroy(stream) == 0
    npu.driver.close()


def test_pinned_memory_is_copied_later(npu: Npu) -> None:
    stream, block, pinned = npu.stream(), npu.alloc(SIZE), npu.pinned(SIZE)
    assert pinned.value
    ctypes.memset(pinned, 1, SIZE)
    with Held(npu, stream):
        assert npu.copy(stream, block, pinned, SIZE, H2D) == 0
        ctypes.memset(pinned, 2, SIZE)  # written before the stream reaches the copy, so that the device reads it
    back = ctypes.create_string_buffer(SIZE)
    assert npu.copy(stream, back, block, SIZE, D2H) == 0
    assert back.raw == bytes([2]) * SIZE
    npu.free(block)
    assert npu.slots.mem_free_host(pinned) == npu.slots.stream_destroy(stream) == 0


def test_memory_that_somebody_else_pinned_is_known_as_pinned(npu: Npu, library: Path) -> None:
    acl = ctypes.CDLL(str(library))
    block, stream, foreign = npu.alloc(SIZE), npu.stream(), ctypes.c_void_p()
    assert npu.slots.device_activate(0) == 0
    assert acl.aclrtMallocHost(ctypes.byref(foreign), ctypes.c_size_t(SIZE)) == 0
    with Held(npu, stream):  # a copy of pageable memory would wait for the held stream and hang
        assert npu.copy(stream, foreign, block, SIZE, D2H) == 0
        assert npu.slots.stream_query(stream) == NOT_READY
    assert acl.aclrtFreeHost(foreign) == 0
    npu.free(block)
    assert npu.slots.stream_destroy(stream) == 0


@pytest.mark.parametrize("hidden", ["", OLDEST], ids=["newest", "oldest"])
def test_every_event_can_be_waited_for_and_those_with_timing_have_a_time(
    control: Control, library: Path, monkeypatch: pytest.MonkeyPatch, hidden: str
) -> None:
    monkeypatch.setenv("TB_SIMNPU_HIDE", hidden)
    npu = Npu(library)
    stream, other, plain, start, end = npu.stream(), npu.stream(), npu.event(), npu.event(TIMING), npu.event(TIMING)
    elapsed = ctypes.c_int64(-7)
    assert [npu.slots.event_query(event) for event in (plain, start, end)] == [0, 0, 0]  # no record: complete
    for event in (plain, start, end, plain):  # one is recorded twice, because an old event accepts one record only
        assert npu.slots.event_record(event, stream) == 0
        assert npu.slots.stream_wait_event(other, event) == 0
    assert npu.slots.event_synchronize(end) == npu.slots.stream_synchronize(other) == 0
    failed_precondition = 9
    assert npu.slots.event_elapsed_ns(plain, end, ctypes.byref(elapsed)) == failed_precondition
    assert elapsed.value == -7
    assert npu.slots.event_elapsed_ns(start, end, ctypes.byref(elapsed)) == 0
    forwards = elapsed.value
    assert forwards >= 0
    assert npu.slots.event_elapsed_ns(end, start, ctypes.byref(elapsed)) == 0  # an error for the library
    assert elapsed.value == -forwards
    for event in (plain, start, end):
        assert npu.slots.event_destroy(event) == 0
    assert npu.slots.stream_destroy(stream) == npu.slots.stream_destroy(other) == 0
    npu.driver.close()


@pytest.mark.parametrize("hidden", ["", OLDEST], ids=["newest", "oldest"])
def test_a_thread_without_a_device_may_call_and_one_with_another_device_keeps_it(
    control: Control, library: Path, monkeypatch: pytest.MonkeyPatch, hidden: str
) -> None:
    monkeypatch.setenv("TB_SIMNPU_HIDE", hidden)
    npu = Npu(library)
    acl = ctypes.CDLL(str(library))
    found: list[object] = []

    def work() -> None:
        device = ctypes.c_int32(-1)
        found.append(acl.aclrtGetDevice(ctypes.byref(device)))
        block = npu.alloc(SIZE)
        npu.free(block)
        assert npu.slots.device_activate(1) == 0
        npu.driver.mem_set(0, (inner := npu.alloc(SIZE)).value or 0, 1, 1, SIZE)
        npu.free(inner)
        found.append(acl.aclrtGetDevice(ctypes.byref(device)))
        found.append(device.value)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [107002, 0, 1]
    npu.driver.close()


def test_unsupported_is_an_error_with_the_librarys_code_and_text(npu: Npu, control: Control) -> None:
    block = npu.alloc(SIZE)
    control.fault("aclrtMemsetAsync", 0, 207000)
    with pytest.raises(NotImplementedError) as raised:
        npu.driver.mem_set(0, block.value or 0, 1, 1, SIZE)
    assert isinstance(raised.value, tb_device.Error)
    assert raised.value.native_code == 207000
    text = str(raised.value)
    assert "aclrtMemsetAsync failed: not supported by this device or this CANN (207000): EE1001" in text
    npu.free(block)


@pytest.mark.parametrize(
    ("code", "status", "words"),
    [
        (207001, 8, "out of device memory"),
        (107000, 3, "invalid parameter"),
        (507010, 33, "heartbeat"),
        (507046, 4, "timeout"),
        (507054, 15, "hardware fault"),
        (207008, 14, "streams are used up"),
        (507899, 13, "internal error of the library"),
        (999999, 2, "a code that the driver does not know"),
    ],
)
def test_codes_become_statuses_and_keep_their_number(
    npu: Npu, control: Control, code: int, status: int, words: str
) -> None:
    control.fault("aclrtMallocAlign32", 0, code)
    with pytest.raises(tb_device.Error) as raised:
        npu.driver.mem_alloc(0, SIZE)
    assert (raised.value.status, raised.value.native_code) == (status, code)
    assert words in str(raised.value)
    assert f"({code})" in str(raised.value)


def test_a_failure_of_queued_work_is_reported_once_and_the_device_goes_on(npu: Npu, control: Control) -> None:
    stream, block = npu.stream(), npu.alloc(SIZE)
    internal = 13
    for ask in (npu.slots.stream_synchronize, npu.slots.stream_query):
        control.fail_task(0, 507015)
        with Held(npu, second := npu.stream()):
            assert npu.fill(stream, block, 1, SIZE) == 0
        assert npu.slots.stream_destroy(second) == 0
        while (status := ask(stream)) == NOT_READY:
            pass
        assert status == internal
        assert ask(stream) == 0
    control.fail_task(0, 507015)
    with pytest.raises(tb_device.Error, match=r"work on the device failed \(507015\): EZ9999"):
        npu.driver.mem_set(0, block.value or 0, 1, 1, SIZE)
    npu.driver.mem_set(0, block.value or 0, 1, 1, SIZE)
    npu.free(block)
    assert npu.slots.stream_destroy(stream) == 0


def test_opening_and_asking_for_facts_sets_no_device(npu: Npu, control: Control) -> None:
    before = control.calls("aclrtSetDevice")
    assert npu.driver.device_info(1)["name"] == "Ascend910B2"
    assert npu.driver.query(0, "npu.ai_cores") == 24
    npu.driver.synchronize(0)
    assert control.calls("aclrtSetDevice") == before
    assert control.live() == "1 initialised"


def test_a_library_that_somebody_else_initialised_stays_so(control: Control, library: Path) -> None:
    acl = ctypes.CDLL(str(library))
    assert acl.aclInit(None) == 0
    npu = Npu(library)
    npu.free(npu.alloc(SIZE))
    npu.driver.close()
    assert control.live() == "1 initialised"
    assert acl.aclFinalize() == 0


def test_two_drivers_share_the_devices_and_the_last_one_resets_them(control: Control, library: Path) -> None:
    first, second = Npu(library), Npu(library)
    first.free(first.alloc(SIZE))
    first.driver.close()
    block = second.alloc(SIZE)
    second.driver.mem_set(0, block.value or 0, 1, 1, SIZE)
    second.free(block)
    second.driver.close()


def test_streams_beyond_the_devices_limit_are_refused_with_what_to_do(
    control: Control, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TB_SIMNPU_STREAMS", "3")
    npu = Npu(library)
    streams = [npu.stream() for _ in range(3)]
    unavailable = 14
    assert npu.slots.stream_create(0, 0, ctypes.c_uint64(0), ctypes.byref(ctypes.c_void_p())) == unavailable
    for stream in streams:
        assert npu.slots.stream_destroy(stream) == 0
    npu.driver.close()


def test_devices_that_do_not_reach_each_other_copy_through_the_host(
    control: Control, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TB_SIMNPU_NO_PEERS", "1")
    npu = Npu(library)
    assert "PEER" not in npu.driver.groups
    near, far = npu.alloc(SIZE, 0), npu.alloc(SIZE, 1)
    npu.driver.copy_to_device(0, near.value or 0, b"\5" * SIZE)
    npu.driver.copy_between(1, far.value or 0, 0, near.value or 0, SIZE)
    back = bytearray(SIZE)
    npu.driver.copy_from_device(1, back, far.value or 0)
    assert back == b"\5" * SIZE
    npu.free(near, 0)
    npu.free(far, 1)
    npu.driver.close()


def test_an_address_that_is_given_out_again_before_the_free_returns_is_known(npu: Npu, control: Control) -> None:
    again: list[int] = []
    block = npu.alloc(SIZE)
    control.after("aclrtFree", lambda: again.append(npu.alloc(SIZE).value or 0))
    npu.free(block)
    assert again == [block.value]  # the simulation gives the lowest address first
    npu.free(ctypes.c_void_p(again[0]))


def test_a_range_that_is_registered_again_before_its_unregistering_returns_is_known(npu: Npu, control: Control) -> None:
    with mmap.mmap(-1, SIZE) as memory:
        page = ctypes.c_char.from_buffer(memory)
        start = ctypes.c_void_p(ctypes.addressof(page))

        def register() -> int:
            return int(npu.slots.mem_register_host(0, start, ctypes.c_uint64(SIZE), ctypes.c_uint64(0)))

        statuses = [register()]
        control.after("aclrtHostUnregister", lambda: statuses.append(register()))
        statuses += [npu.slots.mem_unregister_host(start), npu.slots.mem_unregister_host(start)]
        assert statuses == [0, 0, 0, 0]
        del page


def test_a_second_free_while_the_first_is_under_way_is_refused(npu: Npu, control: Control) -> None:
    statuses: list[int] = []
    block = npu.alloc(SIZE)
    control.after("aclrtFree", lambda: statuses.append(npu.slots.mem_free(0, block)))
    npu.free(block)
    assert statuses == [INVALID_ARGUMENT]
