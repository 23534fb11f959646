"""GradScaler's two operators, run on CPU tensors beside PyTorch's own CPU kernels."""

import itertools
import math

import pytest
import torch
from tb_amp import _core

INF, NAN = math.inf, math.nan
TYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64]


def copies(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    return [tensor.clone(memory_format=torch.preserve_format) for tensor in tensors]


def equal(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    return ours.dtype == theirs.dtype and torch.equal(ours.isnan(), theirs.isnan()) and torch.equal(
        ours.nan_to_num(), theirs.nan_to_num()
    )


def gradients(dtype: torch.dtype) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(3)
    return [
        torch.randn(7, 33, generator=generator).mul(100).to(dtype),
        torch.randn((), generator=generator).to(dtype),
        torch.randn(64, 10, generator=generator).to(dtype).t(),
        torch.empty(0, 4, dtype=dtype),
        torch.randn(1, generator=generator).to(dtype),
    ]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("bad", [None, INF, -INF, NAN])
@pytest.mark.parametrize("where", [0, 1, 2, 4])
@pytest.mark.parametrize("inv_scale", [1.0, 1 / 65536, 1 / 3, 2.0**-30])
def test_unscale_is_the_cpu_kernel_bit_for_bit(
    dtype: torch.dtype, bad: float | None, where: int, inv_scale: float
) -> None:
    ours = gradients(dtype)
    if bad is not None:
        ours[where].view(-1)[-1] = bad if ours[where].is_contiguous() else bad
    theirs = copies(ours)
    for shape in ((), (1,)):
        factor = torch.full(shape, inv_scale)
        found_ours, found_theirs = torch.zeros(shape), torch.zeros(shape)
        _core.unscale_(ours, found_ours, factor)
        torch._amp_foreach_non_finite_check_and_unscale_(theirs, found_theirs, factor)
        assert found_ours.item() == found_theirs.item() == (0.0 if bad is None else 1.0)
        for one, other in zip(ours, theirs, strict=True):
            assert equal(one, other)
