"""torch.tb: memory statistics, limits, out of memory, pinned memory, resizing."""

import gc

import pytest
import torch
from conftest import Script
from torch_backend.conformance.bits import bit_identical

MiB = 1 << 20


@pytest.fixture(autouse=True)
def clean() -> None:
    gc.collect()
    torch.tb.synchronize()
    torch.tb.empty_cache()


def test_statistics_follow_a_tensors_life() -> None:
    before = torch.tb.memory_allocated()
    x = torch.empty(8 * MiB, dtype=torch.uint8, device="tb")
    assert torch.tb.memory_allocated() >= before + 8 * MiB
    assert torch.tb.memory_reserved() >= torch.tb.memory_allocated()
    del x
    assert torch.tb.memory_allocated() == before


def test_peak_is_kept_until_reset() -> None:
    torch.tb.reset_peak_memory_stats()
    before = torch.tb.max_memory_allocated()
    del_me = torch.empty(16 * MiB, dtype=torch.uint8, device="tb")
    del del_me
    assert torch.tb.max_memory_allocated() >= before + 16 * MiB
    torch.tb.reset_peak_memory_stats()
    assert torch.tb.max_memory_allocated() == torch.tb.memory_allocated()
    assert torch.tb.max_memory_reserved() == torch.tb.memory_reserved()


def test_accumulated_statistics_can_be_reset() -> None:
    del_me = torch.empty(MiB, dtype=torch.uint8, device="tb")
    del del_me
    torch.tb.reset_accumulated_memory_stats()
    assert torch.tb.memory_stats()["allocation.all.allocated"] == 0
    x = torch.empty(MiB, dtype=torch.uint8, device="tb")
    assert torch.tb.memory_stats()["allocation.all.allocated"] == 1
    del x


def test_statistics_have_pytorchs_names() -> None:
    stats = torch.tb.memory_stats()
    for group in ("allocation", "segment", "active", "inactive_split", "allocated_bytes", "reserved_bytes",
                  "active_bytes", "inactive_split_bytes", "requested_bytes"):  # fmt: skip
        for pool in ("all", "small_pool", "large_pool"):
            for value in ("current", "peak", "allocated", "freed"):
                assert stats[f"{group}.{pool}.{value}"] >= 0
    assert stats["num_ooms"] >= 0
    assert stats["num_device_alloc"] >= 0


def test_summary_is_readable() -> None:
    text = torch.tb.memory_summary()
    assert "allocated memory" in text
    assert "large pool" in text
    assert "large pool" not in torch.tb.memory_summary(abbreviated=True)


def test_empty_cache_gives_memory_back() -> None:
    x = torch.empty(64 * MiB, dtype=torch.uint8, device="tb")
    reserved = torch.tb.memory_reserved()
    del x
    torch.tb.empty_cache()
    assert torch.tb.memory_reserved() <= reserved - 64 * MiB


def test_memory_info_is_within_the_device() -> None:
    free, total = torch.tb.mem_get_info()
    assert 0 < free <= total


def test_out_of_memory_is_torchs_exception_with_the_figures_and_the_device_stays_usable() -> None:
    ooms = torch.tb.memory_stats()["num_ooms"]
    with pytest.raises(torch.OutOfMemoryError, match=r"(?s)(allocate|memory).*(B|bytes)"):
        torch.empty(1 << 50, dtype=torch.uint8, device="tb")
    assert torch.tb.memory_stats()["num_ooms"] == ooms + 1
    assert torch.ones(3, device="tb").sum().item() == 3


def test_memory_fraction_limits_and_1_removes_the_limit() -> None:
    total = torch.tb.get_device_properties().total_memory
    fraction = (torch.tb.memory_reserved() + 64 * MiB) / total
    torch.tb.set_per_process_memory_fraction(fraction)
    try:
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(256 * MiB, dtype=torch.uint8, device="tb")
    finally:
        torch.tb.set_per_process_memory_fraction(1)
    assert torch.empty(256 * MiB, dtype=torch.uint8, device="tb").numel() == 256 * MiB
    with pytest.raises(ValueError, match="0 to 1"):
        torch.tb.set_per_process_memory_fraction(1.5)


def test_an_empty_tensor_knows_its_device_and_has_no_memory() -> None:
    x = torch.empty(0, device="tb")
    assert x.device.type == "tb"
    assert x.data_ptr() == 0


def test_pin_memory_really_pins() -> None:
    x = torch.arange(100.0)
    pinned = x.pin_memory()
    assert not x.is_pinned()
    assert pinned.is_pinned()
    assert pinned[10:].is_pinned()
    assert bit_identical(pinned, x)
    assert torch.tb.host_memory_stats()["active_bytes.current"] >= pinned.nbytes
    assert torch.empty(3, pin_memory=True).is_pinned()


def test_pinned_memory_copies_both_ways_without_blocking_and_right() -> None:
    for _ in range(5):
        source = torch.randn(1 << 16).pin_memory()
        expected = source.clone()
        on_device = source.to("tb", non_blocking=True)
        del source  # the allocator keeps the memory until the copy is done
        torch.empty(1 << 16, pin_memory=True).fill_(-1)
        back = (on_device * 2).to("cpu", non_blocking=True)
        torch.tb.synchronize()
        assert bit_identical(back, expected * 2)


def test_pinned_cache_can_be_emptied() -> None:
    pinned = torch.empty(64 * MiB, dtype=torch.uint8, pin_memory=True)
    allocated = torch.tb.host_memory_stats()["allocated_bytes.current"]
    del pinned
    torch.tb.empty_host_cache()
    assert torch.tb.host_memory_stats()["allocated_bytes.current"] <= allocated - 64 * MiB


def test_data_loader_pins_batches() -> None:
    data = torch.utils.data.TensorDataset(torch.arange(8.0))
    batches = [batch for (batch,) in torch.utils.data.DataLoader(data, batch_size=4, pin_memory=True)]
    assert all(batch.is_pinned() for batch in batches)
    assert torch.cat(batches).tolist() == list(range(8))


def test_resizing_a_storage_keeps_its_bytes() -> None:
    x = torch.arange(10, dtype=torch.uint8, device="tb")
    storage = x.untyped_storage()
    storage.resize_(1000)
    assert storage.nbytes() == 1000
    assert x.tolist() == list(range(10))
    storage.resize_(5)
    assert storage.nbytes() == 5
    assert storage.cpu().tolist() == list(range(5))
    storage.resize_(0)
    assert storage.nbytes() == 0


def test_memory_of_a_dead_tensor_is_reused_on_its_stream() -> None:
    x = torch.empty(MiB, device="tb")
    address = x.data_ptr()
    del x
    assert torch.empty(MiB, device="tb").data_ptr() == address


def test_tensors_alive_at_exit_are_no_problem(script: Script) -> None:
    code = """
    import atexit, sys, torch
    keep = torch.ones(1000, device="tb")
    torch.tb.kept = [torch.ones(1000, device="tb"), torch.empty(10, pin_memory=True)]
    sys.kept = torch.randn(100, 100, device="tb").requires_grad_()
    loss = (sys.kept @ sys.kept).sum()
    loss.backward()
    """
    assert script(code, TB_FALLBACK="allow").stderr == ""
