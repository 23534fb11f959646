"""Streams: the pool, the current stream of a thread, waiting and ordering."""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path

import pytest
import tb_device
import tb_stream
from conftest import Python, Work


def test_the_default_stream_is_one_and_current_until_another_is_set() -> None:
    default = tb_stream.default_stream()
    assert tb_stream.default_stream(0) == default
    assert tb_stream.current_stream() == default
    assert (default.device, default.priority) == (0, 0)


def test_the_pool_hands_out_32_streams_in_turn() -> None:
    streams = [tb_stream.Stream() for _ in range(64)]
    assert len({stream.handle for stream in streams}) == 32
    assert streams[:32] == streams[32:]
    assert tb_stream.default_stream() not in streams


def test_each_priority_has_its_own_pool_and_is_clamped_to_the_range_of_the_device() -> None:
    least, greatest = tb_device.get_device_properties(0).priority_range
    urgent, normal = tb_stream.Stream(priority=greatest), tb_stream.Stream(priority=least)
    assert (urgent.priority, normal.priority) == (greatest, least)
    assert tb_stream.Stream(priority=-1000).priority == greatest
    assert tb_stream.Stream(priority=1000).priority == least
    if greatest != least:
        assert urgent not in [tb_stream.Stream(priority=least) for _ in range(32)]


def test_with_makes_a_stream_current_and_puts_back_the_one_before_also_nested_and_after_an_error() -> None:
    default = tb_stream.current_stream()
    first, second = tb_stream.Stream(), tb_stream.Stream()
    with first as entered:
        assert entered is first
        assert tb_stream.current_stream() == first
        with second, second:
            assert tb_stream.current_stream() == second
        assert tb_stream.current_stream() == first
        with pytest.raises(KeyError), second:
            raise KeyError
        assert tb_stream.current_stream() == first
    assert tb_stream.current_stream() == default


def test_exit_without_enter_is_refused() -> None:
    with pytest.raises(ValueError, match="without __enter__"):
        tb_stream.Stream().__exit__(None, None, None)


def test_the_stream_context_takes_none_for_no_change() -> None:
    before, other = tb_stream.current_stream(), tb_stream.Stream()
    with tb_stream.stream(None) as nothing:
        assert nothing is None
        assert tb_stream.current_stream() == before
    with tb_stream.stream(other):
        assert tb_stream.current_stream() == other
    assert tb_stream.current_stream() == before


def test_the_current_stream_belongs_to_the_thread() -> None:
    seen: list[tb_stream.Stream] = []
    stream = tb_stream.Stream()
    with stream:
        thread = threading.Thread(target=lambda: seen.append(tb_stream.current_stream()))
        thread.start()
        thread.join()
        assert tb_stream.current_stream() == stream
    assert seen == [tb_stream.default_stream()]


def test_set_current_stream_lasts() -> None:
    stream = tb_stream.Stream()
    tb_stream.set_current_stream(stream)
    try:
        assert tb_stream.current_stream() == stream
    finally:
        tb_stream.set_current_stream(tb_stream.default_stream())
    assert tb_stream.current_stream() == tb_stream.default_stream()


def test_query_tells_whether_work_is_left_and_does_not_wait_for_it(work: Work) -> None:
    stream = tb_stream.Stream()
    assert stream.query()
    gate = work.hold(stream)
    begin = time.monotonic()
    assert not stream.query()
    assert time.monotonic() - begin < 5
    gate.set()
    stream.synchronize()
    assert stream.query()


@pytest.mark.parametrize("wait", ["stream", "device", "event"])
def test_waiting_covers_the_work_queued_and_lets_other_threads_run_python(work: Work, wait: str) -> None:
    stream = tb_stream.Stream()
    gate = work.hold(stream)
    done: list[int] = []
    work.call(stream, lambda: done.append(1))
    event = stream.record_event()
    threading.Timer(0.05, gate.set).start()  # the timer's thread needs the GIL to open the gate
    {"stream": stream.synchronize, "device": tb_stream.synchronize, "event": event.synchronize}[wait]()
    assert done == [1]


def test_wait_stream_orders_later_work_after_the_other_stream(work: Work) -> None:
    first, second = tb_stream.Stream(), tb_stream.Stream()
    order: list[str] = []
    gate = work.hold(first)
    work.call(first, lambda: order.append("first"))
    second.wait_stream(first)
    work.call(second, lambda: order.append("second"))
    assert not second.query()
    gate.set()
    second.synchronize()
    assert order == ["first", "second"]


def test_streams_are_not_ordered_without_a_wait(work: Work) -> None:
    first, second = tb_stream.Stream(), tb_stream.Stream()
    order: list[str] = []
    gate = work.hold(first)
    work.call(first, lambda: order.append("first"))
    work.call(second, lambda: order.append("second"))
    second.synchronize()
    assert order == ["second"]
    gate.set()


def test_the_failure_of_queued_work_is_raised_by_the_next_synchronize_once(work: Work) -> None:
    stream = tb_stream.Stream()
    work.fail(stream, b"planted")
    with pytest.raises(tb_device.Error, match="planted") as caught:
        stream.synchronize()
    assert caught.value.status == 13
    stream.synchronize()


@pytest.mark.parametrize(
    "call",
    [
        lambda device: tb_stream.Stream(device),
        lambda device: tb_stream.current_stream(device),
        lambda device: tb_stream.default_stream(device),
        lambda device: tb_stream.synchronize(device),
    ],
)
@pytest.mark.parametrize("device", [-1, 1, 127, 128, 2**31 - 1])
def test_a_missing_device_is_refused_with_the_range(call, device) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(tb_device.OutOfRangeError, match=f"device {device} asked, but the driver has 1 device"):
        call(device)


class Foreign:
    def __init__(self, version: int, handle: int) -> None:
        self.answer = (version, handle)

    def __tb_stream__(self) -> tuple[int, int]:
        return self.answer


def test_an_object_with_the_protocol_stands_for_its_stream(work: Work) -> None:
    stream, other = tb_stream.Stream(), tb_stream.Stream()
    assert stream.__tb_stream__() == (0, stream.handle)
    gate = work.hold(stream)
    other.wait_stream(Foreign(0, stream.handle))
    assert not other.query()
    gate.set()
    tb_stream.set_current_stream(Foreign(0, stream.handle))
    try:
        assert tb_stream.current_stream() == stream
    finally:
        tb_stream.set_current_stream(tb_stream.default_stream())


def test_an_object_with_a_wrong_protocol_is_refused() -> None:
    stream = tb_stream.Stream()
    with pytest.raises(ValueError, match="version 0"):
        stream.wait_stream(Foreign(7, stream.handle))
    with pytest.raises(tb_device.NotFoundError, match="neither a default stream nor one of the pool"):
        stream.wait_stream(Foreign(0, 12345))
    with pytest.raises(TypeError, match="__tb_stream__"):
        stream.wait_stream(3)


def test_equal_means_the_same_stream() -> None:
    stream = tb_stream.Stream()
    with stream:
        again = tb_stream.current_stream()
    assert again == stream
    assert hash(again) == hash(stream)
    assert stream != tb_stream.Stream()
    assert stream != "stream"
    assert f"{stream.handle:#x}" in repr(stream)


def test_the_native_handle_is_the_drivers_one_and_stays_the_same() -> None:
    first, second = tb_stream.Stream(), tb_stream.Stream()
    assert first.native == first.native
    assert first.native != second.native


def test_a_native_handle_that_the_driver_does_not_offer_is_not_implemented(python: Python, tmp_path: Path) -> None:
    source = Path(tb_device.__file__).parent / "new_driver" / "c" / "mychip.c"  # level 0: no native streams
    library = tmp_path / "libmychip.so"
    command = ["cc", "-shared", "-fPIC", "-I", tb_device.get_include(), str(source), "-o", str(library)]
    subprocess.run(command, check=True)
    code = """
    import tb_stream
    try:
        tb_stream.Stream().native
    except NotImplementedError as error:
        print(error)
    """
    assert "NATIVE" in python.output(code, TB_DRIVER=str(library))


def test_two_devices_have_their_own_streams_and_with_changes_the_device(python: Python) -> None:
    code = """
    import tb_device, tb_stream
    assert tb_stream.default_stream(0) != tb_stream.default_stream(1)
    stream = tb_stream.Stream(device=1)
    assert (stream.device, tb_device.current_device()) == (1, 0)
    with stream:
        assert tb_device.current_device() == 1
        assert tb_stream.current_stream() == stream
        assert tb_stream.current_stream(0) == tb_stream.default_stream(0)
        assert tb_stream.Stream().device == 1
        with tb_stream.Stream(device=0):
            assert tb_device.current_device() == 0
        assert tb_device.current_device() == 1
    assert tb_device.current_device() == 0
    assert tb_stream.current_stream(1) == tb_stream.default_stream(1)
    event = stream.record_event()
    assert event.device == 1
    tb_stream.default_stream(0).wait_event(event)  # across devices
    tb_stream.synchronize(0)
    try:
        event.record(tb_stream.default_stream(0))
    except ValueError as error:
        print("one event for each device" in str(error))
    """
    assert python.output(code, TB_CPU_DEVICES="2") == "True"


def test_devices_beyond_the_first_eight_work_the_same(python: Python) -> None:
    code = """
    import threading, tb_stream
    streams = [tb_stream.Stream(device=device) for device in range(12)]
    for stream in streams:
        tb_stream.set_current_stream(stream)
    assert [tb_stream.current_stream(device) for device in range(12)] == streams
    seen = []
    thread = threading.Thread(target=lambda: seen.extend(tb_stream.current_stream(device) for device in range(12)))
    thread.start()
    thread.join()
    print(seen == [tb_stream.default_stream(device) for device in range(12)])
    """
    assert python.output(code, TB_CPU_DEVICES="12") == "True"


def test_a_forked_child_is_refused_with_the_reason(python: Python) -> None:
    code = """
    import os, tb_device, tb_stream
    event = tb_stream.Event()
    event.record(tb_stream.Stream())
    child = os.fork()
    if child == 0:
        for call in (tb_stream.Stream, tb_stream.default_stream().synchronize, tb_stream.Event().record):
            try:
                call()
            except tb_device.FailedPreconditionError as error:
                assert "fork" in str(error), error
            else:
                os._exit(1)
        del event
        os._exit(0)
    print(os.waitpid(child, 0)[1])
    """
    assert python.output(code) == "0"


def test_a_process_ends_well_with_streams_events_and_work_left(python: Python) -> None:
    code = """
    import atexit, tb_stream
    streams = [tb_stream.Stream() for _ in range(3)]
    event = streams[0].record_event()
    streams[1].wait_event(event)
    class Late:
        def __del__(self):
            event.__class__()
            assert tb_stream.current_stream().handle
    late = Late()
    with streams[1]:
        print("end")
    """
    assert python.output(code) == "end"
