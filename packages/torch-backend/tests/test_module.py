"""torch.tb as a module: the names that PyTorch looks for, amp, and the fallback statistics."""

import pytest
import torch

EXPECTED = [
    "is_available", "is_initialized", "init", "device_count", "current_device", "set_device", "synchronize",
    "device", "device_of", "_is_in_bad_fork", "_lazy_init", "manual_seed", "manual_seed_all", "initial_seed", "seed",
    "seed_all", "get_rng_state", "get_rng_state_all", "set_rng_state", "set_rng_state_all", "default_generators",
    "Stream", "Event", "stream", "current_stream", "default_stream", "set_stream", "StreamContext",
    "memory_allocated", "memory_reserved", "max_memory_allocated", "max_memory_reserved", "memory_stats",
    "memory_summary", "mem_get_info", "empty_cache", "reset_peak_memory_stats", "reset_accumulated_memory_stats",
    "set_per_process_memory_fraction", "get_amp_supported_dtype", "amp", "get_device_name", "get_device_properties",
    "get_device_capability", "is_bf16_supported", "can_device_access_peer", "fallbacks", "reset_fallbacks",
    "set_fallback_mode",
]  # fmt: skip


@pytest.mark.parametrize("name", EXPECTED)
def test_torch_tb_has_the_name(name: str) -> None:
    assert hasattr(torch.tb, name)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"torch\.tb.*nothing_like_it"):
        torch.tb.nothing_like_it  # noqa: B018


def test_it_is_importable_as_torch_tb() -> None:
    import importlib

    assert importlib.import_module("torch.tb") is torch.tb is torch.get_device_module("tb")


def test_fsdp_finds_a_handle_like_cudas() -> None:
    from torch.distributed.device_mesh import _get_device_handle

    handle = _get_device_handle("tb")
    assert handle is torch.tb
    event = handle.Event()
    event.record(handle.current_stream())
    handle.Stream().wait_event(event)
    assert handle.current_device() == 0
    assert handle.device_count() >= 1


def test_autocast_casts_and_restores() -> None:
    x, w = torch.randn(4, 4, device="tb"), torch.randn(4, 4, device="tb")
    with torch.tb.amp.autocast(dtype=torch.bfloat16):
        assert (x @ w).dtype == torch.bfloat16
        assert torch.is_autocast_enabled("tb")
    with torch.autocast("tb", dtype=torch.float16):
        assert (x @ w).dtype == torch.float16
    assert (x @ w).dtype == torch.float32
    assert set(torch.tb.get_amp_supported_dtype()) == {torch.bfloat16, torch.float16}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.int32])
def test_autocast_to_another_dtype_warns_as_on_the_cpu_and_is_off(dtype: torch.dtype) -> None:
    def said(device: str) -> str:
        with pytest.warns(UserWarning, match="not supported. Disabling autocast") as caught:
            context = torch.autocast(device, dtype=dtype)
        with context:
            assert not torch.is_autocast_enabled(device)
            assert torch.mm(torch.ones(2, 2, device=device), torch.ones(2, 2, device=device)).dtype == torch.float32
        return str(caught[0].message)

    assert said("tb") == said("cpu").replace("CPU", "tb")


def test_grad_scaler_skips_steps_with_infinite_gradients() -> None:
    weight = torch.ones(3, device="tb", requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=1.0)
    scaler = torch.tb.amp.GradScaler(init_scale=4.0)
    scaler.scale((weight * float("inf")).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [1, 1, 1]
    assert scaler.get_scale() == 2.0
    optimizer.zero_grad()
    scaler.scale(weight.sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [0, 0, 0]


def test_fallback_statistics_are_reachable() -> None:
    torch.tb.reset_fallbacks()
    assert not torch.tb.fallbacks()
    with pytest.raises(ValueError, match="allow"):
        torch.tb.set_fallback_mode("sometimes")
