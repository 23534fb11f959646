"""Captures that can be interrupted: what they have runs once, where the host needs it or at their end."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator

import pytest
import tb_device
import tb_stream
from conftest import INTERRUPTED, Export, Work
from tb_device import FailedPreconditionError
from tb_testing import OFFSETS


class Capture:
    """An interruptible capture of a stream of its own, by the C table."""

    def __init__(self, export: Export) -> None:
        self.table = export.table.contents
        self.stream = tb_stream.Stream()
        self.interruptions = 0
        self._handle = ctypes.c_void_p()
        self._note = INTERRUPTED(self._count)
        assert self.table.capture_begin(0, self.stream.handle, 0, ctypes.byref(self._handle)) == 0
        assert self.table.capture_allow_interruption(self._handle, self._note, None) == 0

    def _count(self, _user: int) -> None:
        self.interruptions += 1

    def interrupt(self, reason: str) -> bool:
        """Whether the stream captures afterwards."""
        captures = ctypes.c_int32(7)
        assert self.table.capture_interrupt(self.stream.handle, reason.encode(), ctypes.byref(captures)) == 0
        return bool(captures.value)

    def complete(self) -> int:
        """The number of events that are in use."""
        events = ctypes.c_uint64()
        assert self.table.capture_complete(self._handle, ctypes.byref(events)) == 0
        return events.value

    @property
    def reason(self) -> str:
        return str(self.table.capture_interruption(self._handle).decode())

    def launch(self) -> None:
        assert self.table.capture_launch(self._handle, self.stream.handle) == 0

    def drop(self) -> None:
        self.table.capture_destroy(self._handle)


@pytest.fixture
def capture(export: Export) -> Iterator[Capture]:
    made = Capture(export)
    yield made
    made.drop()


def test_completed_work_runs_once_and_can_be_launched_again(capture: Capture, work: Work) -> None:
    log: list[int] = []
    for number in range(3):
        work.call(capture.stream, lambda number=number: log.append(number))
    assert capture.complete() == 0
    capture.stream.synchronize()
    assert (log, capture.reason, capture.interruptions) == ([0, 1, 2], "", 0)
    assert capture.complete() == 0  # nothing more
    capture.launch()
    capture.stream.synchronize()
    assert log == [0, 1, 2] * 2


def test_a_component_interrupts_with_a_reason_and_the_rest_runs_as_it_is(capture: Capture, work: Work) -> None:
    log: list[str] = []
    work.call(capture.stream, lambda: log.append("captured"))
    assert not capture.interrupt("no graph holds this")
    assert not capture.interrupt("nor that")
    work.call(capture.stream, lambda: log.append("as it is"))
    capture.complete()
    capture.stream.synchronize()
    assert (log, capture.reason, capture.interruptions) == (["captured", "as it is"], "no graph holds this", 1)


ASKS: dict[str, Callable[[tb_stream.Stream, tb_stream.Event], object]] = {
    "stream_synchronize": lambda stream, event: stream.synchronize(),
    "stream_query": lambda stream, event: stream.query(),
    "device_synchronize": lambda stream, event: tb_stream.synchronize(),
    "event_synchronize": lambda stream, event: event.synchronize(),
    "event_query": lambda stream, event: event.query(),
}


@pytest.mark.parametrize("function", ASKS)
def test_who_asks_about_captured_work_ends_the_capture(capture: Capture, work: Work, function: str) -> None:
    log: list[str] = []
    event = tb_stream.Event()
    work.call(capture.stream, lambda: log.append("captured"))
    event.record(capture.stream)
    ASKS[function](capture.stream, event)
    work.call(capture.stream, lambda: log.append("as it is"))
    assert capture.complete() == 1  # the event
    capture.stream.synchronize()
    event.synchronize()
    assert log == ["captured", "as it is"]
    assert function in capture.reason


def test_work_of_others_is_asked_about_without_an_interruption(capture: Capture, work: Work) -> None:
    other, event = tb_stream.Stream(), tb_stream.Event()
    work.call(other, lambda: None)
    event.record(other)
    other.synchronize()
    event.synchronize()
    assert capture.reason == ""
    capture.complete()


def test_a_stream_that_joined_goes_on_behind_the_launch(capture: Capture, work: Work) -> None:
    log: list[str] = []
    other = tb_stream.Stream()
    work.call(capture.stream, lambda: log.append("fork"))
    other.wait_stream(capture.stream)
    work.call(other, lambda: log.append("aside"))
    other.synchronize()  # not joined yet
    assert log == ["fork", "aside"]
    work.call(other, lambda: log.append("free"))
    other.synchronize()
    capture.complete()
    assert log == ["fork", "aside", "free"]


def test_the_default_stream_may_wait_for_captured_work(capture: Capture, work: Work) -> None:
    log: list[str] = []
    work.call(capture.stream, lambda: log.append("captured"))
    tb_stream.default_stream().wait_stream(capture.stream)
    work.call(tb_stream.default_stream(), lambda: log.append("behind"))
    tb_stream.synchronize()
    capture.complete()
    assert log == ["captured", "behind"]
    assert "default stream" in capture.reason


def test_other_captures_refuse_as_before(work: Work) -> None:
    with pytest.raises(FailedPreconditionError, match="captures"), tb_stream.capture():
        tb_stream.current_stream().synchronize()


def address_of(name: str) -> int:
    driver = tb_device.default_driver()
    return int(ctypes.c_void_p.from_address(driver.table_address + OFFSETS[name]).value or 0)


def test_the_drivers_table_is_its_own_again_afterwards(export: Export, work: Work) -> None:
    before = address_of("stream_synchronize")
    capture = Capture(export)
    during = address_of("stream_synchronize")
    capture.complete()
    capture.drop()
    assert before == address_of("stream_synchronize") != during
