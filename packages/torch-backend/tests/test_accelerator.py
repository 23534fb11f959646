"""Every public name of torch.accelerator works on tb. The names are those of the installed torch."""

import pytest
import torch

MiB = 1 << 20


def graph() -> None:
    x = torch.zeros(3, device="tb")
    x += 1  # warm-up
    captured = torch.accelerator.Graph()
    with torch.Stream("tb"), captured:
        x += 1
    captured.replay()
    captured.replay()
    assert x.tolist() == [3.0] * 3


def current_accelerator() -> None:
    assert torch.accelerator.current_accelerator() == torch.device("tb")
    assert torch.accelerator.current_accelerator(check_available=True) == torch.device("tb")


def device_index() -> None:
    with torch.accelerator.device_index(0):
        assert torch.accelerator.current_device_index() == 0
    with torch.accelerator.device_index(None):
        pass


def set_device_index() -> None:
    torch.accelerator.set_device_index(0)
    with pytest.raises(RuntimeError):
        torch.accelerator.set_device_index(99)
    assert torch.accelerator.current_device_index() == 0


def set_device_idx() -> None:
    with pytest.warns(FutureWarning):
        torch.accelerator.set_device_idx(0)


def current_device_idx() -> None:
    with pytest.warns(FutureWarning):
        assert torch.accelerator.current_device_idx() == 0


def set_stream() -> None:
    before, side = torch.accelerator.current_stream(), torch.Stream("tb")
    torch.accelerator.set_stream(side)
    assert torch.accelerator.current_stream() == side
    torch.accelerator.set_stream(before)
    assert torch.accelerator.current_stream() == before


def memory_allocated() -> None:
    before = torch.accelerator.memory_allocated()
    x = torch.empty(MiB, dtype=torch.uint8, device="tb")
    assert torch.accelerator.memory_allocated() >= before + MiB
    del x


def max_memory_allocated() -> None:
    assert torch.accelerator.max_memory_allocated() >= torch.accelerator.memory_allocated()


def memory_reserved() -> None:
    assert torch.accelerator.memory_reserved() >= torch.accelerator.memory_allocated()


def max_memory_reserved() -> None:
    assert torch.accelerator.max_memory_reserved() >= torch.accelerator.memory_reserved()


def memory_stats() -> None:
    assert torch.accelerator.memory_stats()["allocated_bytes.all.current"] == torch.tb.memory_allocated()


def reset_peak_memory_stats() -> None:
    torch.accelerator.reset_peak_memory_stats()
    assert torch.accelerator.max_memory_allocated() == torch.accelerator.memory_allocated()


def reset_accumulated_memory_stats() -> None:
    torch.accelerator.reset_accumulated_memory_stats()
    assert torch.accelerator.memory_stats()["allocation.all.freed"] == 0


def get_memory_info() -> None:
    free, total = torch.accelerator.get_memory_info()
    assert 0 < free <= total


def get_device_capability() -> None:
    assert torch.float32 in torch.accelerator.get_device_capability()["supported_dtypes"]


def empty_cache() -> None:
    x = torch.empty(64 * MiB, dtype=torch.uint8, device="tb")
    reserved = torch.accelerator.memory_reserved()
    del x
    torch.accelerator.empty_cache()
    assert torch.accelerator.memory_reserved() < reserved


def empty_host_cache() -> None:
    pinned = torch.empty(64 * MiB, dtype=torch.uint8, pin_memory=True)
    allocated = torch.tb.host_memory_stats()["allocated_bytes.current"]
    del pinned
    torch.accelerator.empty_host_cache()
    assert torch.tb.host_memory_stats()["allocated_bytes.current"] <= allocated - 64 * MiB


def current_device_index() -> None:
    assert torch.accelerator.current_device_index() == 0


def current_stream() -> None:
    assert torch.accelerator.current_stream() == torch.tb.current_stream()


def device_count() -> None:
    assert torch.accelerator.device_count() == torch.tb.device_count() >= 1


def is_available() -> None:
    assert torch.accelerator.is_available()


def synchronize() -> None:
    side = torch.Stream("tb")
    with side:
        torch.ones(300, 300, device="tb").mm(torch.ones(300, 300, device="tb"))
    torch.accelerator.synchronize()
    assert side.query()


CHECKS = {
    "Graph": graph,
    "current_accelerator": current_accelerator,
    "current_device_idx": current_device_idx,
    "current_device_index": current_device_index,
    "current_stream": current_stream,
    "device_count": device_count,
    "device_index": device_index,
    "empty_cache": empty_cache,
    "empty_host_cache": empty_host_cache,
    "get_device_capability": get_device_capability,
    "get_memory_info": get_memory_info,
    "is_available": is_available,
    "max_memory_allocated": max_memory_allocated,
    "max_memory_reserved": max_memory_reserved,
    "memory_allocated": memory_allocated,
    "memory_reserved": memory_reserved,
    "memory_stats": memory_stats,
    "reset_accumulated_memory_stats": reset_accumulated_memory_stats,
    "reset_peak_memory_stats": reset_peak_memory_stats,
    "set_device_idx": set_device_idx,
    "set_device_index": set_device_index,
    "set_stream": set_stream,
    "synchronize": synchronize,
}


def test_every_name_has_a_check() -> None:
    assert sorted(CHECKS) == sorted(torch.accelerator.__all__)
    assert len(CHECKS) == 23


@pytest.mark.parametrize("name", sorted(torch.accelerator.__all__))
def test_accelerator(name: str) -> None:
    torch.tb.init()
    CHECKS[name]()
