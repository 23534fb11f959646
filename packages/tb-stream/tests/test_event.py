"""Events: points in a stream, time between them, and the pool they come from."""

from __future__ import annotations

import gc
import time

import pytest
import tb_device
import tb_stream
from conftest import Work


def test_an_event_without_a_record_is_complete_and_nothing_waits_for_it() -> None:
    event = tb_stream.Event()
    assert event.query()
    event.synchronize()
    event.wait(tb_stream.Stream())
    assert (event.device, event.handle) == (None, 0)


def test_an_event_is_complete_when_the_work_before_its_record_is_done(work: Work) -> None:
    stream = tb_stream.Stream()
    gate = work.hold(stream)
    event = tb_stream.Event()
    event.record(stream)
    assert event.device == 0
    assert not event.query()
    gate.set()
    event.synchronize()
    assert event.query()


def test_record_takes_the_current_stream_by_default(work: Work) -> None:
    stream = tb_stream.Stream()
    work.hold(stream)
    event = tb_stream.Event()
    with stream:
        event.record()
    assert not event.query()


def test_a_second_record_moves_the_point_and_a_wait_made_before_keeps_the_first(work: Work) -> None:
    ahead, held, waiting = tb_stream.Stream(), tb_stream.Stream(), tb_stream.Stream()
    event = ahead.record_event()
    event.wait(waiting)
    work.hold(held)
    assert held.record_event(event) is event
    assert not event.query()
    waiting.synchronize()  # would hang if it waited for the second record


def test_wait_orders_the_current_stream_by_default(work: Work) -> None:
    first, second = tb_stream.Stream(), tb_stream.Stream()
    gate = work.hold(first)
    event = first.record_event()
    with second:
        event.wait()
    assert not second.query()
    gate.set()
    second.synchronize()


@pytest.mark.parametrize("blocking", [False, True])
def test_elapsed_time_is_the_milliseconds_between_two_points(work: Work, blocking: bool) -> None:
    stream = tb_stream.Stream()
    start, end = (tb_stream.Event(enable_timing=True, blocking=blocking) for _ in range(2))
    begin = time.monotonic()
    start.record(stream)
    work.call(stream, lambda: time.sleep(0.03))
    end.record(stream)
    end.synchronize()
    wall = (time.monotonic() - begin) * 1000
    assert 29 <= start.elapsed_time(end) <= wall


def test_elapsed_time_names_the_missing_record_flag_or_completion(work: Work) -> None:
    stream = tb_stream.Stream()
    plain, first, second = tb_stream.Event(), tb_stream.Event(enable_timing=True), tb_stream.Event(enable_timing=True)
    with pytest.raises(ValueError, match="must be recorded"):
        first.elapsed_time(second)
    first.record(stream)
    plain.record(stream)
    with pytest.raises(ValueError, match="enable_timing=True"):
        first.elapsed_time(plain)
    gate = work.hold(stream)
    second.record(stream)
    with pytest.raises(tb_device.FailedPreconditionError, match="not complete"):
        first.elapsed_time(second)
    gate.set()
    second.synchronize()
    assert first.elapsed_time(second) >= 0


def test_a_dropped_event_is_used_again_also_while_pending(work: Work) -> None:
    held, free, waiting = tb_stream.Stream(), tb_stream.Stream(), tb_stream.Stream()
    gate = work.hold(held)
    event = held.record_event()
    handle = event.handle
    waiting.wait_event(event)
    del event
    gc.collect()
    again = free.record_event()
    assert again.handle == handle
    again.synchronize()  # waits for the new record, not for the held stream
    assert not waiting.query()  # the earlier wait still waits for the held stream
    gate.set()
    waiting.synchronize()


def test_events_with_other_flags_come_from_another_pool() -> None:
    stream = tb_stream.Stream()
    plain = stream.record_event()
    handle = plain.handle
    del plain
    gc.collect()
    timed = tb_stream.Event(enable_timing=True)
    timed.record(stream)
    assert timed.handle != handle


def test_the_failure_of_the_marked_work_is_raised_by_synchronize(work: Work) -> None:
    stream = tb_stream.Stream()
    work.fail(stream, b"planted")
    event = stream.record_event()
    with pytest.raises(tb_device.Error, match="planted"):
        event.synchronize()
