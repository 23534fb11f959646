"""torch.tb: streams and events, also through torch.Stream, torch.Event and torch.accelerator."""

import time

import pytest
import torch
from torch_backend._testing import held


def test_default_stream_is_number_0_and_current_at_first() -> None:
    assert torch.tb.default_stream().stream_id == 0
    assert torch.tb.current_stream() == torch.tb.default_stream()
    assert torch.accelerator.current_stream() == torch.tb.current_stream()


def test_stream_context_sets_and_restores() -> None:
    side = torch.tb.Stream()
    assert side != torch.tb.default_stream()
    with torch.tb.stream(side) as inside:
        assert inside == side == torch.tb.current_stream()
    with side:
        assert torch.tb.current_stream() == side
    with torch.tb.stream(None):
        assert torch.tb.current_stream() == torch.tb.default_stream()
    assert torch.tb.current_stream() == torch.tb.default_stream()


def test_stream_is_current_for_its_thread_only() -> None:
    import threading

    seen = []
    with torch.tb.stream(torch.tb.Stream()):
        thread = threading.Thread(target=lambda: seen.append(torch.tb.current_stream()))
        thread.start()
        thread.join()
    assert seen == [torch.tb.default_stream()]


@pytest.mark.parametrize("stream_class", [torch.Stream, "tb"])
@pytest.mark.parametrize("event_class", [torch.Event, "tb"])
def test_generic_and_tb_streams_and_events_mix(stream_class: object, event_class: object) -> None:
    stream = torch.tb.Stream() if stream_class == "tb" else torch.Stream(device="tb")
    event = torch.tb.Event(enable_timing=True) if event_class == "tb" else torch.Event("tb", enable_timing=True)
    event.record(stream)
    torch.tb.current_stream().wait_event(event)
    stream.wait_stream(torch.tb.current_stream())
    event.synchronize()
    assert event.query()
    stream.synchronize()
    assert stream.query()


def test_a_cpu_stream_is_refused_by_name() -> None:
    class Foreign(torch.Stream):
        pass

    with pytest.raises(RuntimeError):
        torch.tb.set_stream(Foreign(stream_id=1, device_index=0, device_type=0))
    assert torch.tb.current_stream() == torch.tb.default_stream()


def test_a_fresh_event_is_complete_and_waiting_for_it_does_nothing() -> None:
    event = torch.tb.Event()
    assert event.query()
    event.synchronize()
    torch.tb.current_stream().wait_event(event)


def test_event_becomes_complete_with_the_work_before_it() -> None:
    side = torch.tb.Stream()
    x = torch.ones(400, device="tb")
    x + 1  # warm-up, because the first call of a kernel waits
    torch.tb.synchronize()
    with held(side) as gate:
        with torch.tb.stream(side):
            result = x + 1
        event = side.record_event()
        assert not event.query()
        assert not side.query()
        gate.open()
        event.synchronize()
        assert event.query()
        assert side.query()
    assert result.sum().item() == 800


def test_elapsed_time_is_in_milliseconds() -> None:
    start, end = torch.tb.Event(enable_timing=True), torch.tb.Event(enable_timing=True)
    begin = time.perf_counter()
    start.record()
    with held():
        least = time.perf_counter()
        time.sleep(0.05)
        least = (time.perf_counter() - least) * 1e3
    end.record()
    end.synchronize()
    wall = (time.perf_counter() - begin) * 1e3
    measured = start.elapsed_time(end)
    assert least <= measured <= wall + 1, (least, measured, wall)  # the two clocks may differ by 1 ms


def test_elapsed_time_of_unrecorded_events_is_refused() -> None:
    with pytest.raises(RuntimeError, match="record"):
        torch.tb.Event(enable_timing=True).elapsed_time(torch.tb.Event(enable_timing=True))


def test_elapsed_time_without_timing_is_refused() -> None:
    start, end = torch.tb.Event(), torch.tb.Event()
    start.record()
    end.record()
    end.synchronize()
    with pytest.raises((RuntimeError, ValueError)):
        start.elapsed_time(end)


def test_interprocess_events_are_refused() -> None:
    with pytest.raises(NotImplementedError, match="between processes"):
        torch.tb.Event(interprocess=True)


def test_priorities_are_accepted_and_clamped() -> None:
    properties = torch.tb.get_device_properties()
    for priority in (properties.priority_greatest, properties.priority_least, -1000, 1000):
        assert torch.tb.Stream(priority=priority).query()


def test_wait_stream_orders_work_across_streams() -> None:
    side = torch.tb.Stream()
    x = torch.zeros(300, device="tb")
    x.fill_(1).add(1)  # warm-up, because the first call of a kernel waits
    torch.tb.synchronize()
    with held(side):
        with torch.tb.stream(side):
            x.fill_(7)
        torch.tb.current_stream().wait_stream(side)
        y = x + 1
        assert not torch.tb.current_stream().query()
    assert y.sum().item() == 300 * 8


def test_streams_that_do_not_wait_for_each_other_are_in_no_order() -> None:
    """The negative control: without wait_stream the same program reads the old values."""
    side = torch.tb.Stream()
    x = torch.ones(300, device="tb")
    x.fill_(1).add(1)
    torch.tb.synchronize()
    with held(side):
        with torch.tb.stream(side):
            x.fill_(7)
        y = x + 1
        assert y.sum().item() == 300 * 2


@pytest.mark.parametrize("recorded", [True, False])
def test_memory_used_on_a_side_stream_is_reused_only_after_that_work_when_recorded(recorded: bool) -> None:
    """A block that was not recorded is reused at once. Without that case, the recorded one would prove nothing."""
    side = torch.tb.Stream()
    torch.tb.synchronize()
    torch.tb.empty_cache()
    value = torch.full((1 << 18,), 3.0, device="tb")
    value.sum()  # warm-up, because the first call of a kernel waits
    address = value.data_ptr()
    torch.tb.synchronize()
    with held(side):
        with torch.tb.stream(side):
            total = value.sum()
        if recorded:
            value.record_stream(side)
        del value
        other = torch.full((1 << 18,), 7.0, device="tb")
        torch.tb.current_stream().synchronize()
        # Freed memory may have been joined to free memory before it.
        assert (abs(other.data_ptr() - address) < 4 << 18) is not recorded
    side.synchronize()
    assert total.item() == (3.0 if recorded else 7.0) * (1 << 18)


def test_backward_of_work_on_a_side_stream_is_right() -> None:
    side = torch.tb.Stream()
    for _ in range(5):
        weight = torch.randn(64, 64, device="tb", requires_grad=True)
        side.wait_stream(torch.tb.current_stream())
        with torch.tb.stream(side):
            loss = ((weight @ weight).tanh() ** 2).mean()
        torch.tb.current_stream().wait_stream(side)
        loss.backward()
        reference = weight.detach().cpu().requires_grad_()
        ((reference @ reference).tanh() ** 2).mean().backward()
        torch.testing.assert_close(weight.grad.cpu(), reference.grad)
        assert weight.grad.device.type == "tb"


def test_synchronize_waits_for_every_stream_of_the_device() -> None:
    sides = [torch.tb.Stream() for _ in range(3)]
    for side in sides:
        with held(side) as gate:
            gate.open_once_this_thread_waits()
            torch.tb.synchronize()
            assert side.query()


def test_the_native_handle_is_the_drivers_one_and_stays_the_same() -> None:
    first, second = torch.tb.Stream(), torch.tb.Stream()
    assert first.native_handle == first.native_handle
    assert first.native_handle != second.native_handle
