"""SyncBatchNorm's operators: shards of a batch are normalized, and get gradients, as the whole batch by BatchNorm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from conftest import RunPython
from ops.cases.case import leaves
from torch import Tensor
from torch_backend.conformance.bits import assert_bit_identical

pytestmark = pytest.mark.usefixtures("no_fallbacks")

aten: Any = torch.ops.aten
EPS, MOMENTUM = 1e-5, 0.1
CHANNELS = 4
# The largest error against BatchNorm in float64, relative to numbers of about 10.
TOLERANCE = {torch.float64: 1e-13, torch.float32: 1e-6, torch.float16: 2e-3, torch.bfloat16: 2e-2}
SHAPES: dict[str, tuple[int, ...]] = {"2": (), "3": (5,), "4": (3, 5), "5": (2, 3, 4)}
SIZES = (3, 1, 6)  # of the shards


@dataclass
class Statistics:
    """What the shards have in common, on tb."""

    weight: Tensor | None
    bias: Tensor | None
    mean: Tensor
    var: Tensor


def statistics(affine: bool, device: str, dtype: torch.dtype = torch.float32) -> Statistics:
    generator = torch.Generator().manual_seed(5)
    weight, bias, mean, var = (torch.rand(CHANNELS, generator=generator).to(device, dtype) + 0.5 for _ in range(4))
    return Statistics(weight if affine else None, bias if affine else None, mean, var)


def synchronized(
    shards: list[Tensor], grads: list[Tensor], common: Statistics
) -> tuple[list[Tensor], list[Tensor], list[tuple[Tensor | None, Tensor | None]]]:
    """Outputs, gradients of inputs, and those of weight and bias, of each shard, as SyncBatchNorm computes them.

    Where its processes gather and add, the shards' tensors are stacked and added.
    """
    full = [shard for shard in shards if shard.numel()]
    own = [aten.batch_norm_stats(shard, EPS) for shard in full]
    means, invstds = (torch.stack(list(rows)) for rows in zip(*own, strict=True))
    counts = torch.tensor([shard.numel() // CHANNELS for shard in full], dtype=torch.float32, device="tb")
    mean, invstd = aten.batch_norm_gather_stats_with_counts(
        shards[0], means, invstds, common.mean, common.var, MOMENTUM, EPS, counts
    )
    out = [aten.batch_norm_elemt(x, common.weight, common.bias, mean, invstd, EPS) for x in full]
    affine = common.weight is not None
    reduced = [
        aten.batch_norm_backward_reduce(dy, x, mean, invstd, common.weight, True, affine, affine)
        for dy, x in zip(grads, full, strict=True)
    ]
    total, product = (torch.stack([sums[i] for sums in reduced]).sum(0) for i in range(2))
    weight = None if common.weight is None else common.weight.to(mean.dtype)
    back = [
        aten.batch_norm_backward_elemt(dy, x, mean, invstd, weight, total, product, counts.to(torch.int32))
        for dy, x in zip(grads, full, strict=True)
    ]
    return out, back, [(sums[2], sums[3]) for sums in reduced]


def whole(shards: list[Tensor], grads: list[Tensor], common: Statistics) -> tuple[Tensor, ...]:
    """Output and gradients of input, weight and bias, of all shards together by BatchNorm in float64 on the CPU."""
    x = torch.cat(shards).detach().cpu().double().requires_grad_()
    weight, bias = (None if v is None else v.double().requires_grad_() for v in (common.weight, common.bias))
    y = F.batch_norm(x, common.mean, common.var, weight, bias, True, MOMENTUM, EPS)
    inputs = [leaf for leaf in (x, weight, bias) if leaf is not None]
    return (y.detach(), *torch.autograd.grad(y, inputs, torch.cat(grads).cpu().double()))


def assert_near(made: Tensor, expected: Tensor, dtype: torch.dtype) -> None:
    torch.testing.assert_close(made.cpu().double(), expected, rtol=TOLERANCE[dtype], atol=10 * TOLERANCE[dtype])


def drawn(size: int, inner: tuple[int, ...], dtype: torch.dtype, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    offset = torch.arange(CHANNELS, dtype=torch.float64).view(1, CHANNELS, *[1] * len(inner))
    made = torch.randn(size, CHANNELS, *inner, generator=generator, dtype=torch.float64)
    return (made * (seed % 3 + 1) + offset).to(dtype).to("tb")


@pytest.mark.parametrize("affine", [True, False], ids=["affine", "bare"])
@pytest.mark.parametrize("inner", SHAPES.values(), ids=[f"{name} dimensions" for name in SHAPES])
@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
def test_shards_together_are_normalized_as_the_whole_batch(
    dtype: torch.dtype, inner: tuple[int, ...], affine: bool
) -> None:
    parameters = torch.float64 if dtype == torch.float64 else torch.float32
    common = statistics(affine, "tb", parameters)
    expected_common = statistics(affine, "cpu", torch.float64)
    shards = [drawn(size, inner, dtype, seed) for seed, size in enumerate(SIZES)]
    grads = [drawn(size, inner, dtype, seed + 7) for seed, size in enumerate(SIZES)]
    out, back, parameter_grads = synchronized(shards, grads, common)
    y, dx, *others = whole(shards, grads, expected_common)
    assert {tensor.dtype for tensor in [*out, *back]} == {dtype}
    assert_near(torch.cat(out), y, dtype)
    assert_near(torch.cat(back), dx, dtype)
    assert_near(common.mean, expected_common.mean, parameters)
    assert_near(common.var, expected_common.var, parameters)
    for i, expected in enumerate(others):
        rows = [row for pair in parameter_grads if (row := pair[i]) is not None]
        assert {row.dtype for row in rows} == {parameters}
        torch.testing.assert_close(
            torch.stack(rows).sum(0).cpu().double(), expected, rtol=1e-5, atol=100 * TOLERANCE[parameters]
        )
    if not affine:
        assert parameter_grads == [(None, None)] * len(SIZES)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("layout", "inner"), [(torch.channels_last, (3, 5)), (torch.channels_last_3d, (2, 3, 4))], ids=["4", "5"]
)
def test_channels_last_stays_and_changes_no_number(
    layout: torch.memory_format, inner: tuple[int, ...], dtype: torch.dtype
) -> None:
    shards = [drawn(size, inner, dtype, seed) for seed, size in enumerate(SIZES)]
    grads = [drawn(size, inner, dtype, seed + 7) for seed, size in enumerate(SIZES)]
    x, dy = ([tensor.contiguous(memory_format=layout) for tensor in tensors] for tensors in (shards, grads))
    out, back, _ = synchronized(x, dy, statistics(True, "tb"))
    assert all(tensor.is_contiguous(memory_format=layout) for tensor in [*out, *back])
    y, dx, *_ = whole(shards, grads, statistics(True, "cpu", torch.float64))
    assert_near(torch.cat(out), y, dtype)
    assert_near(torch.cat(back), dx, dtype)


def test_an_empty_shard_changes_nothing() -> None:
    shards = [drawn(size, (3, 5), torch.float32, seed) for seed, size in enumerate(SIZES)]
    grads = [drawn(size, (3, 5), torch.float32, seed + 7) for seed, size in enumerate(SIZES)]
    empty = drawn(0, (3, 5), torch.float32, 9)
    without, expected = (statistics(True, "tb") for _ in range(2))
    made = synchronized([empty, *shards], grads, without)
    got, wanted = list(leaves(made)), list(leaves(synchronized(shards, grads, expected)))
    assert len(got) == len(wanted) == 4 * len(SIZES)
    for one, other in zip(got, wanted, strict=True):
        assert_bit_identical(other, one)
    assert_bit_identical(expected.var, without.var)


def test_a_16_bit_weight_gets_a_gradient_of_its_type() -> None:
    x = drawn(3, (5,), torch.bfloat16, 1)
    mean, invstd = aten.batch_norm_stats(x, EPS)
    assert mean.dtype == invstd.dtype == torch.float32
    weight = torch.ones(CHANNELS, dtype=torch.bfloat16, device="tb")
    made = aten.batch_norm_backward_reduce(x, x, mean, invstd, weight, True, True, True)
    assert [tensor.dtype for tensor in made] == [torch.float32] * 2 + [torch.bfloat16] * 2


def test_results_that_nobody_asks_for_are_not_made() -> None:
    x = drawn(3, (5,), torch.float32, 1)
    mean, invstd = aten.batch_norm_stats(x, EPS)
    for asked in ((True, False, False), (False, True, False), (False, False, True)):
        made = aten.batch_norm_backward_reduce(x, x, mean, invstd, None, *asked)
        assert [tensor is not None for tensor in made] == [asked[0], *asked]


def test_equal_shards_need_one_count() -> None:
    x = drawn(3, (5,), torch.float32, 1)
    rows = [torch.stack(pair) for pair in zip(*(aten.batch_norm_stats(x + i, EPS) for i in range(2)), strict=True)]
    found = []
    for name, counts in (("", 15), ("_with_counts", torch.full((2,), 15.0, device="tb"))):
        common = statistics(True, "tb")
        gather = getattr(aten, f"batch_norm_gather_stats{name}")
        found.append([*gather(x, *rows, common.mean, common.var, MOMENTUM, EPS, counts), common.mean, common.var])
    for one, other in zip(*found, strict=True):
        assert_bit_identical(one, other)


def test_out_forms_give_the_same() -> None:
    x, common = drawn(3, (5,), torch.float32, 1), statistics(True, "tb")
    mean, invstd = stats = aten.batch_norm_stats(x, EPS)
    rows, counts = (mean.view(1, -1), invstd.view(1, -1), None, None, MOMENTUM, EPS), torch.full((1,), 15, device="tb")
    sums = aten.batch_norm_backward_reduce(x, x, mean, invstd, common.weight, True, True, True)
    calls: dict[str, tuple[Any, ...]] = {
        "stats": (x, EPS),
        "elemt": (x, common.weight, common.bias, mean, invstd, EPS),
        "gather_stats": (x, *rows, 15),
        "gather_stats_with_counts": (x, *rows, counts),
        "backward_reduce": (x, x, mean, invstd, common.weight, True, True, True),
        "backward_elemt": (x, x, mean, invstd, common.weight, *sums[:2], counts),
    }
    assert len(stats) == 2
    for name, arguments in calls.items():
        operator = getattr(aten, f"batch_norm_{name}")
        made = operator(*arguments)
        expected = [made] if isinstance(made, Tensor) else list(made)
        out = [torch.empty(0, device="tb") for _ in expected]
        keywords = {"out": out[0]} if len(out) == 1 else {f"out{i}": tensor for i, tensor in enumerate(out)}
        operator.out(*arguments, **keywords)
        for one, other in zip(expected, out, strict=True):
            assert_bit_identical(one, other)


def test_wrong_shapes_are_refused_at_the_call() -> None:
    x = drawn(3, (5,), torch.float32, 1)
    mean, invstd = aten.batch_norm_stats(x, EPS)
    with pytest.raises(RuntimeError, match="SyncBatchNorm got an input of shape"):
        aten.batch_norm_stats(x[0, 0], EPS)
    with pytest.raises(RuntimeError, match="a vector of 3 elements"):
        aten.batch_norm_elemt(x, None, None, mean[:3], invstd[:3], EPS)


def test_the_module_takes_tensors_of_tb(run_python: RunPython) -> None:
    code = """
        import torch
        from torch import distributed, nn
        distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
        x = torch.arange(24.0).sin().view(2, 4, 3)
        module = nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm1d(4)).to("tb")
        assert type(module) is nn.SyncBatchNorm
        print(torch.equal(module(x.to("tb")).cpu(), nn.BatchNorm1d(4)(x)))
        distributed.destroy_process_group()
    """
    assert run_python(code).stdout.strip() == "True"
