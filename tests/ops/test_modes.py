"""Under each mode of PyTorch, of the process or of a thread, tb behaves as stock CPU does."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch.nn import functional
from torch_backend._testing import held
from torch_backend.conformance.bits import bit_identical

DTYPES = [
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64, torch.complex128, torch.complex32),
    *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.uint16, torch.bool, torch.float8_e4m3fn),
]
Make = Callable[[str, torch.dtype], torch.Tensor]


@pytest.fixture(autouse=True)
def _modes_as_before() -> Iterator[None]:
    yield
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = True  # type: ignore[attr-defined]
    torch.set_flush_denormal(False)
    torch.set_default_dtype(torch.float32)
    torch.accelerator.synchronize()


def ones(device: str, dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return torch.ones(shape, device=device).to(dtype)


def with_buffer(tensor: torch.Tensor) -> torch.nn.Module:
    module = torch.nn.Module()
    module.register_buffer("buffer", tensor)
    return module


@contextlib.contextmanager
def queued(call: Callable[[], torch.Tensor]) -> Iterator[torch.Tensor]:
    """Makes a call whose work stays queued until the block waits for it or ends."""
    call()  # makes the types known
    torch.accelerator.synchronize()
    with held() as gate:
        result = call()
        gate.open_once_this_thread_waits()
        yield result


# ---- new memory -----------------------------------------------------------------------------------------------------

NEW_MEMORY: dict[str, Make] = {
    "empty": lambda d, t: torch.empty(3, 5, device=d, dtype=t),
    "empty, a number": lambda d, t: torch.empty((), device=d, dtype=t),
    "empty, nothing": lambda d, t: torch.empty(0, 3, device=d, dtype=t),
    "empty, channels last": lambda d, t: torch.empty(2, 3, 4, 5, device=d, dtype=t, memory_format=torch.channels_last),
    "empty, out=": lambda d, t: torch.empty(3, 5, out=torch.ones(1, device=d).to(t)),
    "empty_like": lambda d, t: torch.empty_like(ones(d, t, 3, 5)),
    "empty_like, transposed": lambda d, t: torch.empty_like(ones(d, t, 3, 5).t()),
    "empty_strided": lambda d, t: torch.empty_strided((3, 5), (1, 3), device=d, dtype=t),
    "empty_strided, overlapping": lambda d, t: torch.empty_strided((3, 5), (0, 1), device=d, dtype=t),
    "empty_permuted": lambda d, t: torch.empty_permuted((2, 3, 4), (2, 0, 1), device=d, dtype=t),
    "new_empty": lambda d, t: ones(d, t, 1).new_empty(4, 2),
    "new_empty_strided": lambda d, t: ones(d, t, 1).new_empty_strided((4, 2), (2, 1)),
    "resize_": lambda d, t: ones(d, t, 2, 2).resize_(3, 5),
    "resize_, from nothing": lambda d, t: ones(d, t, 0).resize_(3, 5),
    "resize_, channels last": lambda d, t: ones(d, t, 4).resize_(2, 3, 2, 2, memory_format=torch.channels_last),
    "resize_, of a piece": lambda d, t: ones(d, t, 6)[2:4].resize_(9),
    "resize_, smaller and back": lambda d, t: ones(d, t, 6).resize_(2).resize_(6),
    "resize_as_": lambda d, t: ones(d, t, 2).resize_as_(torch.zeros(4, 2, device=d)),
    "to_empty": lambda d, t: with_buffer(ones(d, t, 2, 3)).to_empty(device=d).get_buffer("buffer"),
}


@pytest.mark.parametrize("name", NEW_MEMORY)
def test_deterministic_mode_fills_new_memory_as_on_the_cpu(name: str) -> None:
    torch.use_deterministic_algorithms(True)
    for dtype in DTYPES:
        stock, ours = NEW_MEMORY[name]("cpu", dtype), NEW_MEMORY[name]("tb", dtype)
        assert stock.stride() == ours.stride()
        assert stock._version == ours._version
        if stock.numel():
            assert bit_identical(
                stock.as_strided((stock.untyped_storage().nbytes() // stock.element_size(),), (1,), 0),
                (ours.as_strided((ours.untyped_storage().nbytes() // ours.element_size(),), (1,), 0).cpu()),
            ), f"{dtype}: stock {stock}, ours {ours}"


def test_new_memory_is_not_filled_without_the_mode_or_its_fill_option() -> None:
    def is_filled() -> bool:
        x = torch.full((1000,), 3.0, device="tb")
        del x
        return bool(torch.empty(1000, device="tb").isnan().all())

    torch.accelerator.synchronize()
    assert not is_filled()
    torch.use_deterministic_algorithms(True)
    assert is_filled()
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    assert not is_filled()


def test_deterministic_mode_with_warn_only_fills_new_memory() -> None:
    torch.use_deterministic_algorithms(True, warn_only=True)
    assert torch.empty(3, device="tb").isnan().all()


def test_queued_work_fills_memory_by_the_mode_at_its_call() -> None:
    torch.use_deterministic_algorithms(True)
    with queued(lambda: torch.empty(100, device="tb")) as made:
        torch.use_deterministic_algorithms(False)
    assert made.isnan().all()


# ---- operators that are not deterministic ---------------------------------------------------------------------------


@pytest.mark.parametrize("known", [False, True], ids=["first", "again"])
def test_a_nondeterministic_operator_is_refused_or_warned_about_at_the_call(known: bool) -> None:
    x, index, source = (torch.zeros(4, device="tb"), torch.tensor([1], device="tb"), torch.ones(1, device="tb"))
    if known:
        x.put_(index, source)
        x.put_(index, source)
    torch.accelerator.synchronize()
    torch.use_deterministic_algorithms(True)
    with pytest.raises(RuntimeError, match="deterministic"):
        x.put_(index, source)
    torch.accelerator.synchronize()
    torch.use_deterministic_algorithms(True, warn_only=True)
    with pytest.warns(UserWarning, match="deterministic"):
        x.put_(index, source)
    assert x[1] == 1


# ---- numbers below the smallest normal one --------------------------------------------------------------------------


def small(device: str, count: int = 8) -> torch.Tensor:
    return torch.full((count,), 1e-30, device=device)


@pytest.mark.parametrize("count", [8, 1_000_000])
def test_denormal_numbers_are_flushed_where_the_calling_thread_flushes_them(count: int) -> None:
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor does not flush denormal numbers")
    operations: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda x: x * 1e-10,
        lambda x: x.sigmoid() * 1e-40,
        lambda x: torch._foreach_mul([x], 1e-10)[0],
        lambda x: x.clone().mul_(1e-10),
        lambda x: x.double() * 1e-280,
    ]
    for operation in operations:
        for flush in (True, False, True, False):
            torch.set_flush_denormal(flush)
            x = small("tb", count)
            torch.accelerator.synchronize()
            result = operation(x)
            torch.set_flush_denormal(False)
            assert bool((result == 0).all()) is flush
            assert bool((result == 0).any()) is flush


def test_lists_of_different_settings_do_not_run_together() -> None:
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor does not flush denormal numbers")
    flushed, kept = [small("tb")], [small("tb")]

    def both() -> torch.Tensor:
        torch.set_flush_denormal(True)
        torch._foreach_mul_(flushed, 1e-10)
        torch.set_flush_denormal(False)
        torch._foreach_mul_(kept, 1e-10)
        return flushed[0]

    torch._foreach_mul_([small("tb")], 1.0)
    slow = torch.ones(500, 500, device="tb")
    for _ in range(6):
        slow = slow @ slow * 1e-3
    both()
    assert (flushed[0] == 0).all()
    assert (kept[0] != 0).all()


# ---- switches of the whole process ----------------------------------------------------------------------------------


def test_queued_work_computes_in_the_default_dtype_of_its_call() -> None:
    numerator, denominator = torch.tensor([1, 2, 5]), torch.tensor([3, 7, 11])
    torch.set_default_dtype(torch.float64)
    ours = [numerator.to("tb"), denominator.to("tb")]
    with queued(lambda: ours[0] / ours[1]) as result:
        torch.set_default_dtype(torch.float32)
    assert bit_identical(result.cpu(), numerator.double() / denominator)


def test_queued_work_has_the_determinism_of_its_call() -> None:
    index, values = torch.randint(0, 10, (100_000,)), torch.rand(100_000)
    torch.use_deterministic_algorithms(True)
    stock = torch.zeros(10).index_put_((index,), values, accumulate=True)
    ours = [index.to("tb"), values.to("tb")]
    with queued(lambda: torch.zeros(10, device="tb").index_put_((ours[0],), ours[1], accumulate=True)) as result:
        torch.use_deterministic_algorithms(False)
    assert bit_identical(result.cpu(), stock)


def test_queued_work_has_the_flags_of_onednn_of_its_call() -> None:
    torch.manual_seed(0)
    x, weight = torch.rand(2, 8, 20, 20), torch.rand(8, 8, 3, 3)
    ours = [x.to("tb"), weight.to("tb")]
    flags = torch.backends.mkldnn.flags
    for enabled in (False, True):
        with flags(enabled=enabled):
            stock = functional.conv2d(x, weight)
            with queued(lambda: functional.conv2d(ours[0], ours[1])) as result, flags(enabled=not enabled):
                pass
        assert bit_identical(result.cpu(), stock)


@pytest.mark.parametrize(
    "change",
    [
        lambda: torch.set_default_dtype(torch.float32),
        lambda: torch.use_deterministic_algorithms(False),
        lambda: torch.set_float32_matmul_precision("highest"),
        lambda: setattr(torch.backends.mkldnn, "enabled", True),
        lambda: setattr(torch.backends.mkldnn, "deterministic", False),
        lambda: setattr(torch.backends.mkldnn.matmul, "fp32_precision", "none"),  # type: ignore[attr-defined]
    ],
    ids=["default dtype", "determinism", "precision", "mkldnn", "mkldnn.deterministic", "mkldnn.matmul"],
)
def test_changing_a_process_wide_setting_waits_for_queued_work(change: Callable[[], Any]) -> None:
    x = torch.ones(8, device="tb")
    with queued(lambda: x + 1):
        done = torch.accelerator.current_stream().record_event()
        with torch.backends.__allow_nonbracketed_mutation():
            change()
        assert done.query()


@pytest.mark.parametrize("precision", ["highest", "high", "medium"])
def test_products_have_the_precision_that_was_set(precision: str) -> None:
    torch.manual_seed(1)
    x = torch.rand(64, 64)
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        assert bit_identical((x.to("tb") @ x.to("tb")).cpu(), x @ x)
    finally:
        torch.set_float32_matmul_precision(before)


# ---- inference, autocast, transforms --------------------------------------------------------------------------------


def test_tensors_of_the_inference_mode_behave_as_on_the_cpu() -> None:
    for device in ("cpu", "tb"):
        with torch.inference_mode():
            x = torch.ones(3, device=device)
            y = x * 2
            y.add_(1)
            torch._foreach_add_([y], 1.0)
            torch.nn.init.normal_(x)
        assert y.is_inference()
        assert x.is_inference()
        assert y.tolist() == [4, 4, 4]
        with pytest.raises(RuntimeError, match=r"[Ii]nference"):
            y.add_(1)
        with pytest.raises(RuntimeError, match=r"[Ii]nference"):
            y * torch.ones(3, device=device, requires_grad=True)
        torch.accelerator.synchronize()


def test_autocast_casts_again_after_a_weight_was_changed_outside_of_the_region() -> None:
    x, weight = torch.ones(4, 4, device="tb"), torch.ones(4, 4, device="tb", requires_grad=True)
    for value in (1.0, 2.0):
        with torch.no_grad():
            weight.fill_(value)
        with torch.autocast("tb", dtype=torch.bfloat16):
            assert (x @ weight)[0, 0] == 4 * value
            assert (x @ weight).dtype == torch.bfloat16


def _transforms() -> dict[str, Callable[[torch.Tensor], Any]]:
    def loss(x: torch.Tensor) -> torch.Tensor:
        return (functional.layer_norm(x, (4,)).sigmoid() * x.softmax(-1)).sum()

    return {
        "grad": torch.func.grad(loss),
        "vmap": torch.func.vmap(lambda row: functional.gelu(row).cumsum(0)),
        "vmap of grad": torch.func.vmap(torch.func.grad(lambda row: (row.exp() * functional.silu(row)).sum())),
        "jvp": lambda x: torch.func.jvp(lambda y: y.tanh() * y, (x,), (torch.ones_like(x),)),
        "hessian": torch.func.hessian(lambda y: (y.sin() * y).sum()),
        "functionalize": torch.func.functionalize(lambda y: y.clone().add_(1).mul_(2)),
    }


@pytest.mark.parametrize("name", _transforms())
def test_transforms_give_what_they_give_on_the_cpu(name: str) -> None:
    torch.manual_seed(2)
    x = torch.rand(3, 4)
    transform = _transforms()[name]
    torch.testing.assert_close(torch.utils._pytree.tree_map(torch.Tensor.cpu, transform(x.to("tb"))), transform(x))
