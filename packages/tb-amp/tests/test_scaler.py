"""GradScaler's two operators on CPU tensors, compared with PyTorch's own CPU kernels."""

import itertools
import math
import pathlib
import runpy
from typing import Any

import pytest
import torch
from tb_amp import _testing
from torch.utils._python_dispatch import TorchDispatchMode

INF, NAN = math.inf, math.nan
# These tests do not need torch-backend installed; its comparison needs only torch.
BITS = "packages/torch-backend/src/torch_backend/conformance/bits.py"
bit_identical: Any = runpy.run_path(str(pathlib.Path(__file__).parents[3] / BITS))["bit_identical"]
TYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]


def gradients(dtype: torch.dtype) -> list[torch.Tensor]:
    """Gradients of several shapes; one is transposed, one is empty, one has no dimensions."""
    generator = torch.Generator().manual_seed(3)
    return [
        torch.randn(7, 33, generator=generator).mul(100).to(dtype),
        torch.randn((), generator=generator).to(dtype),
        torch.randn(64, 10, generator=generator).to(dtype).t(),
        torch.empty(0, 4, dtype=dtype),
        torch.randn(1, generator=generator).to(dtype),
    ]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("inv_scale", [1.0, 1 / 65536, 1 / 3, 2.0**-30])
@pytest.mark.parametrize("shape", [(), (1,)])
def test_unscale_is_the_cpu_kernel_bit_for_bit(dtype: torch.dtype, inv_scale: float, shape: tuple[int, ...]) -> None:
    for bad, where in [(None, 0), *itertools.product((INF, -INF, NAN), (0, 1, 2, 4))]:
        ours, theirs = gradients(dtype), gradients(dtype)
        if bad is not None:
            ours[where][(-1,) * ours[where].dim()] = bad
            theirs[where][(-1,) * theirs[where].dim()] = bad
        factor = torch.full(shape, inv_scale)
        found_ours, found_theirs = torch.zeros(shape), torch.zeros(shape)
        _testing.unscale_(ours, found_ours, factor)
        torch._amp_foreach_non_finite_check_and_unscale_(theirs, found_theirs, factor)
        assert found_ours.item() == found_theirs.item() == (0.0 if bad is None else 1.0)
        assert all(bit_identical(other, one) for one, other in zip(ours, theirs, strict=True))


def test_unscale_takes_gradients_of_several_types_and_the_largest_values_of_each() -> None:
    largest = [torch.full((5,), torch.finfo(dtype).max, dtype=dtype) for dtype in TYPES]
    found = torch.zeros(1)
    _testing.unscale_(largest, found, torch.ones(()))
    assert found.item() == 0, "the largest finite value of a type is finite"
    largest[3][2] = NAN
    _testing.unscale_(largest, found, torch.ones(()))
    assert found.item() == 1


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records operators with their arguments as they reach the device."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        self.calls.append((str(func), args))
        return func(*args, **kwargs or {})


@pytest.mark.parametrize("shape", [(), (1,)])
def test_unscale_multiplies_16_bit_gradients_in_float32_on_every_device(shape: tuple[int, ...]) -> None:
    # PyTorch does not round a CPU scalar to the promoted type, but does round a device tensor without dimensions.
    with Recorder() as recorder:
        _testing.unscale_(gradients(torch.float16), torch.zeros(shape), torch.full(shape, 1 / 3))
    multiplied = [args for name, args in recorder.calls if name == "aten.mul_.Tensor"]
    assert len(multiplied) == 4
    assert all(torch.result_type(*args) == torch.float32 for args in multiplied)


def test_unscale_never_takes_found_inf_back() -> None:
    found = torch.ones(1)
    _testing.unscale_([torch.ones(3)], found, torch.ones(1))
    assert found.item() == 1
    _testing.unscale_([], found, torch.ones(1))
    assert found.item() == 1


def states() -> list[tuple[float, int, float]]:
    """scale, growth_tracker, found_inf."""
    scales = [1.0, 65536.0, 3.7e-5, 1.9e38, 3e38, 1e-45]
    return list(itertools.product(scales, [0, 1, 3, 4, 5], [0.0, 1.0]))


@pytest.mark.parametrize("shape", [(), (1,)])
@pytest.mark.parametrize(("growth", "backoff"), [(2.0, 0.5), (1.1, 0.9), (3.3, 0.3), (2.0, 1 / 3)])
def test_update_scale_is_the_cpu_kernel_bit_for_bit(growth: float, backoff: float, shape: tuple[int, ...]) -> None:
    for scale, tracker, found in states():
        ours = torch.full(shape, scale), torch.full(shape, tracker, dtype=torch.int32)
        theirs = torch.full(shape, scale), torch.full(shape, tracker, dtype=torch.int32)
        found_inf = torch.full(shape, found)
        _testing.update_scale_(*ours, found_inf, growth, backoff, 5)
        torch._amp_update_scale_(*theirs, found_inf, growth, backoff, 5)
        assert bit_identical(theirs[0], ours[0]), (scale, tracker, found)
        assert bit_identical(theirs[1], ours[1]), (scale, tracker, found)
        assert ours[0].isfinite().all()


def test_update_scale_does_not_depend_on_the_default_type() -> None:
    scale, tracker = torch.full((), 7.0), torch.full((), 4, dtype=torch.int32)
    torch.set_default_dtype(torch.float64)
    try:
        _testing.update_scale_(scale, tracker, torch.zeros(1, dtype=torch.float32), 2.0, 0.5, 5)
    finally:
        torch.set_default_dtype(torch.float32)
    assert (scale.item(), tracker.item(), scale.dtype) == (14.0, 0, torch.float32)


def test_both_work_where_nothing_can_be_read_back() -> None:
    # Meta tensors have no data: item(), nonzero() or a copy to the host would raise.
    grads = [torch.empty(3, 4, device="meta", dtype=dtype) for dtype in TYPES]
    found = torch.empty(1, device="meta")
    _testing.unscale_(grads, found, torch.empty((), device="meta"))
    scale, tracker = torch.empty((), device="meta"), torch.empty((), device="meta", dtype=torch.int32)
    _testing.update_scale_(scale, tracker, found, 2.0, 0.5, 5)
    with pytest.raises(RuntimeError, match="meta"):
        scale.item()


def test_an_autocast_region_changes_neither() -> None:
    ours, theirs = gradients(torch.float64), gradients(torch.float64)
    found = torch.zeros(1)
    with torch.autocast("cpu", torch.bfloat16):
        _testing.unscale_(ours, found, torch.full((), 0.5))
    torch._amp_foreach_non_finite_check_and_unscale_(theirs, found, torch.full((), 0.5))
    assert all(bit_identical(other, one) for one, other in zip(ours, theirs, strict=True))


def test_wrong_tensors_are_refused_before_anything_is_written() -> None:
    grads, one = [torch.ones(3)], torch.ones(1)
    with pytest.raises(RuntimeError, match="found_inf should have one element of type Float, but has 2"):
        _testing.unscale_(grads, torch.zeros(2), one)
    with pytest.raises(RuntimeError, match="inv_scale should have one element of type Float, but has 1 of type Double"):
        _testing.unscale_(grads, torch.zeros(1), one.double())
    with pytest.raises(RuntimeError, match="a gradient has type Int"):
        _testing.unscale_([*grads, torch.ones(3, dtype=torch.int32)], torch.zeros(1), one / 2)
    assert torch.equal(grads[0], torch.ones(3))
    with pytest.raises(RuntimeError, match="growth_tracker should have one element of type Int"):
        _testing.update_scale_(torch.ones(1), torch.zeros(1), torch.zeros(1), 2.0, 0.5, 5)
    with pytest.raises(TypeError, match=r"torch\.Tensor"):
        _testing.unscale_(grads, "found", one)  # type: ignore[arg-type]
