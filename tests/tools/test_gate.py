"""The gate that keeps a stream busy holds only that stream, and opens however the test ends."""

from __future__ import annotations

import threading
import time

import pytest
import torch
from torch_backend._testing import held


def test_work_waits_behind_the_gate_until_it_opens() -> None:
    x = torch.ones(3, device="tb")
    stream = torch.accelerator.current_stream()
    x + 1  # the first call of a kernel waits
    with held() as gate:
        event = stream.record_event()
        y = x + 1
        assert not stream.query()
        assert not event.query()
        gate.open()
        event.synchronize()
        assert event.query()
    assert y.tolist() == [2.0, 2.0, 2.0]


def test_work_before_the_gate_is_done_when_the_block_begins() -> None:
    side = torch.Stream(device="tb")
    with side:
        for _ in range(20):
            torch.ones(1 << 18, device="tb").sin_()
        before = side.record_event()
    with held(side):
        assert before.query()
        assert not side.query()


def test_only_the_given_stream_is_held() -> None:
    side = torch.Stream(device="tb")
    with held(side):
        assert (torch.ones(3, device="tb") + 1).tolist() == [2.0, 2.0, 2.0]
        assert not side.query()
    side.synchronize()


def test_leaving_the_block_opens_the_gate() -> None:
    with held():
        y = torch.ones(3, device="tb") + 1
    assert y.tolist() == [2.0, 2.0, 2.0]


def test_a_failing_block_opens_the_gate_and_its_error_stays() -> None:
    begin = time.monotonic()
    with pytest.raises(ZeroDivisionError), held(seconds=30):
        _ = 1 // 0
    torch.accelerator.synchronize()
    assert time.monotonic() - begin < 10


def test_a_block_that_waits_for_its_own_gate_gets_an_error() -> None:
    with pytest.raises(TimeoutError, match=r"opened by itself after 0\.2 s.*Call open\(\)"), held(seconds=0.2):
        torch.accelerator.synchronize()


def test_a_block_that_fails_after_such_a_wait_raises_its_own_error_with_a_note() -> None:
    def wait_and_fail() -> None:
        with held(seconds=0.2):
            torch.accelerator.synchronize()
            _ = 1 // 0

    with pytest.raises(ZeroDivisionError) as raised:
        wait_and_fail()
    assert "opened by itself" in raised.value.__notes__[0]


def test_a_stream_that_does_not_reach_the_gate_is_an_error_and_goes_on_afterwards() -> None:
    with held() as gate:
        with pytest.raises(TimeoutError, match=r"did not reach the gate in 0\.1 s"), held(seconds=0.1):
            raise AssertionError("the block of a gate that was not reached ran")
        gate.open()
        torch.accelerator.synchronize()


def test_the_gate_opens_once_its_thread_waits_and_not_before() -> None:
    with held() as gate:
        gate.open_once_this_thread_waits()
        end = time.monotonic() + 0.1
        # The thread computes, and releases Python's lock now and then.
        while time.monotonic() < end:
            pass
        assert not torch.accelerator.current_stream().query()
        torch.accelerator.synchronize()
        assert torch.accelerator.current_stream().query()


def test_a_thread_that_waits_for_pythons_lock_is_not_asleep() -> None:
    ended = threading.Event()

    def compute() -> None:
        while not ended.is_set():
            pass

    threads = [threading.Thread(target=compute) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        with held() as gate:
            gate.open_once_this_thread_waits()
            end = time.monotonic() + 0.3
            while time.monotonic() < end:
                pass
            assert not torch.accelerator.current_stream().query()
            torch.accelerator.synchronize()
    finally:
        ended.set()
        for thread in threads:
            thread.join()
