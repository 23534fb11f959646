"""Streams, events, threads and devices across the components."""

from __future__ import annotations

import threading

import pytest
import torch
from conftest import Script
from torch_backend._testing import held
from torch_backend.conformance.bits import bit_identical

ELEMENTS = 1 << 18  # whole blocks of the allocator


def is_at(x: torch.Tensor, address: int) -> bool:
    """Whether x reuses the memory at this address, which may since have been joined to free memory before it."""
    return abs(x.data_ptr() - address) < 4 * ELEMENTS


def test_work_of_a_side_stream_is_seen_after_its_event() -> None:
    side = torch.Stream(device="tb")
    ready = torch.Event(device="tb")
    source = torch.full((1000,), 2.0, device="tb")
    started = torch.accelerator.current_stream().record_event()
    with side:
        side.wait_event(started)
        result = source
        for _ in range(10):
            result = result * 2
        ready.record(side)
    torch.accelerator.current_stream().wait_event(ready)
    assert set((result + 1).tolist()) == {2049.0}


@pytest.mark.parametrize("recorded", [True, False])
def test_memory_used_on_another_stream_is_reused_only_after_that_work_if_it_was_recorded(recorded: bool) -> None:
    """Without record_stream, the negative control, the program gets the memory again and the other stream reads it."""
    side = torch.Stream(device="tb")
    torch.accelerator.synchronize()
    torch.accelerator.empty_cache()
    block = torch.full((ELEMENTS,), 2.0, device="tb")
    block + block  # warm-up, because the first call of a kernel waits
    address = block.data_ptr()
    torch.accelerator.synchronize()
    with held(side):
        with side:
            total = block + block
        if recorded:
            block.record_stream(side)
        del block
        other = torch.full((ELEMENTS,), -1.0, device="tb")
        torch.accelerator.current_stream().synchronize()
        assert is_at(other, address) is not recorded
    side.synchronize()
    assert set(total.tolist()) == {4.0 if recorded else -2.0}
    del other
    assert is_at(torch.full((ELEMENTS,), 5.0, device="tb"), address), "the memory serves again afterwards"


def test_memory_recorded_on_many_streams_waits_for_each() -> None:
    sides = [torch.Stream(device="tb") for _ in range(3)]
    for last in range(3):
        torch.accelerator.synchronize()
        torch.accelerator.empty_cache()
        block = torch.full((ELEMENTS,), 2.0, device="tb")
        address = block.data_ptr()
        torch.accelerator.synchronize()
        with held(sides[last]):
            for side in sides:
                block.record_stream(side)
            del block
            assert not is_at(torch.full((ELEMENTS,), -1.0, device="tb"), address), last


def test_copies_that_do_not_block_arrive_in_order() -> None:
    pinned = torch.arange(10_000, dtype=torch.float32).pin_memory()
    assert pinned.is_pinned()
    on_device = pinned.to("tb", non_blocking=True)
    back = torch.empty(10_000, pin_memory=True)
    back.copy_(on_device * 2, non_blocking=True)
    torch.accelerator.synchronize()
    assert bit_identical(back, pinned * 2)


def test_threads_train_at_once_and_each_gets_its_own_result() -> None:
    def descend(start: float, results: dict[float, float]) -> None:
        x = torch.full((64,), start, device="tb", requires_grad=True)
        for _ in range(20):
            (gradient,) = torch.autograd.grad((x * x).sum(), x)
            x = (x - 0.1 * gradient).detach().requires_grad_()
        results[start] = x.sum().item()

    results: dict[float, float] = {}
    threads = [threading.Thread(target=descend, args=(float(i), results)) for i in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {float(i): pytest.approx(64 * i * 0.8**20, rel=1e-4) for i in range(1, 5)}


def test_a_failing_kernel_is_reported_once_with_its_name_and_the_device_stays_usable() -> None:
    x = torch.ones(3, device="tb")
    outside = torch.tensor([7], device="tb")
    with pytest.raises((RuntimeError, IndexError), match="gather"):
        torch.gather(x, 0, outside).cpu()
    torch.accelerator.synchronize()
    assert (x + 1).tolist() == [2.0, 2.0, 2.0]


def test_wrong_shapes_raise_at_the_call() -> None:
    with pytest.raises(RuntimeError, match="size of tensor"):
        torch.ones(3, device="tb") + torch.ones(4, device="tb")


def test_two_devices_hold_and_exchange_tensors(script: Script) -> None:
    code = """
        import torch
        assert torch.tb.device_count() == 2
        x = torch.arange(4.0, device="tb:1") * 2
        y = x.to("tb:0") + 1
        assert (x.device.index, y.device.index) == (1, 0)
        try:
            x + y
        except RuntimeError as error:
            assert "same device" in str(error), error
        else:
            raise AssertionError("tensors of two devices were added")
        print(y.tolist())
    """
    done = script(code, TB_CPU_DEVICES="2")
    assert done.stdout.strip() == "[1.0, 3.0, 5.0, 7.0]"


def test_exit_with_work_queued_ends_well(script: Script) -> None:
    code = """
        import torch
        x = torch.ones(300, 300, device="tb")
        for _ in range(200):
            x = x @ x / 300
    """
    done = script(code)
    assert done.stderr == ""


def test_the_same_seed_gives_the_same_numbers_on_every_thread_count(script: Script) -> None:
    code = """
        import torch
        torch.manual_seed(5)
        x = torch.randn(10_000, device="tb")
        y = torch.nn.functional.dropout(torch.ones(10_000, device="tb"), 0.3)
        print(x.double().sum().item(), y.count_nonzero().item())
    """
    first, second = (script(code, OMP_NUM_THREADS=threads).stdout for threads in ("1", "2"))
    assert first == second


def test_short_kernels_get_no_intra_op_threads_where_the_number_of_threads_was_set(script: Script) -> None:
    """PyTorch applies the number to each thread at the thread's first kernel, which overrides the worker's choice."""
    names = script(
        """
import os, torch
torch.set_num_threads(2)
x = torch.ones(200_000, device="tb")
for _ in range(3):
    (x + x).frac()  # tb cuts neither into parts
torch.tb.synchronize()
names = [open(f"/proc/self/task/{task}/comm").read().strip() for task in os.listdir("/proc/self/task")]
print(sum(name.startswith("tb-cpu") for name in names))
"""
    )
    assert names.stdout.split() == ["1"], names.stderr
