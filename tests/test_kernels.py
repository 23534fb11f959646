"""Hand-written kernels give what stock CPU gives: the same bits, type, shape and strides, without falling back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

Case = Callable[["Source"], Any]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """How a matrix product or a sum is cut among threads changes its last bits."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


CASES: dict[str, Case] = {}
aten = torch.ops.aten


class Source:
    """Makes the same tensors on every device."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.generator = torch.Generator().manual_seed(7)

    def randn(self, *shape: int, dtype: torch.dtype = torch.float32, grad: bool = False) -> Tensor:
        made = torch.randn(shape, generator=self.generator).to(dtype).to(self.device)
        return made.requires_grad_() if grad else made

    def integers(self, high: int, *shape: int, low: int = 0, dtype: torch.dtype = torch.int64) -> Tensor:
        return torch.randint(low, high, shape, generator=self.generator).to(dtype).to(self.device)

    def mask(self, *shape: int) -> Tensor:
        return self.randn(*shape) > 0


def case(function: Case) -> Case:
    assert function.__name__ not in CASES, "two cases of one name"
    CASES[function.__name__] = function
    return function


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (list, tuple)):
        for part in value:
            yield from leaves(part)
    elif isinstance(value, dict):
        yield from leaves(list(value.values()))
    else:
        yield value


def backward(out: Tensor, *inputs: Tensor | None, retain: bool = False) -> list[Tensor | None]:
    """Gradients of a weighted sum, so that no two elements of `out` count the same."""
    weights = torch.linspace(-1, 1, out.numel(), device=out.device).reshape(out.shape).to(out.dtype)
    given = [x for x in inputs if x is not None]
    return list(torch.autograd.grad((out * weights).sum(), given, retain_graph=retain))


def assert_same(expected: Any, actual: Any) -> None:
    wanted, got = list(leaves(expected)), list(leaves(actual))
    assert len(wanted) == len(got)
    for one, other in zip(wanted, got, strict=True):
        if not isinstance(one, Tensor):
            assert one == other
            continue
        assert other.dtype == one.dtype
        assert other.shape == one.shape
        assert other.stride() == one.stride(), f"strides {other.stride()}, stock CPU has {one.stride()}"
        here, there = torch.nan_to_num(other.detach().cpu()), torch.nan_to_num(one.detach())
        if not torch.equal(here, there):
            difference = (here.to(torch.complex128) - there.to(torch.complex128)).abs().max().item()
            pytest.fail(f"{tuple(one.shape)} {one.dtype}: largest difference {difference}")


# ---- normalization ---------------------------------------------------------------------------------------------------


def layer_norm(source: Source, dtype: torch.dtype, parameters: torch.dtype) -> Any:
    x = source.randn(4, 6, 16, dtype=dtype, grad=True)
    w, b = (source.randn(16, dtype=parameters, grad=True) for _ in range(2))
    y = F.layer_norm(x, (16,), w, b)
    return y, backward(y, x, w, b), aten.native_layer_norm(x.detach(), [6, 16], None, None, 1e-5)


@case
def layer_norm_float(source: Source) -> Any:
    return layer_norm(source, torch.float32, torch.float32)


@case
def layer_norm_double(source: Source) -> Any:
    return layer_norm(source, torch.float64, torch.float64)


@case
def layer_norm_bfloat16(source: Source) -> Any:
    return layer_norm(source, torch.bfloat16, torch.bfloat16)


@case
def layer_norm_mixed(source: Source) -> Any:
    return layer_norm(source, torch.bfloat16, torch.float32)


@case
def layer_norm_strided_and_bare(source: Source) -> Any:
    x = source.randn(4, 16, 6, grad=True)
    y = F.layer_norm(x.transpose(1, 2), (16,))
    return y, backward(y, x)


@case
def layer_norm_of_no_rows(source: Source) -> Any:
    x = source.randn(0, 4).requires_grad_()
    w, b = source.randn(4, grad=True), source.randn(4, grad=True)
    y = F.layer_norm(x, (4,), w, b)
    return y, torch.autograd.grad(y.sum(), [x, w, b])


def batch_norm(source: Source, dtype: torch.dtype, layout: torch.memory_format, training: bool, affine: bool) -> Any:
    x = source.randn(3, 4, 5, 5, dtype=dtype).contiguous(memory_format=layout).requires_grad_()
    w, b = (source.randn(4, dtype=torch.float32, grad=True) if affine else None for _ in range(2))
    mean, var = source.randn(4), source.randn(4).abs() + 1
    y = F.batch_norm(x, mean, var, w, b, training=training)
    return y, mean, var, backward(y, x, w, b)


@case
def batch_norm_training(source: Source) -> Any:
    return batch_norm(source, torch.float32, torch.contiguous_format, True, True)


@case
def batch_norm_evaluation(source: Source) -> Any:
    return batch_norm(source, torch.float32, torch.contiguous_format, False, True)


@case
def batch_norm_channels_last(source: Source) -> Any:
    return batch_norm(source, torch.float32, torch.channels_last, True, True)


@case
def batch_norm_bare(source: Source) -> Any:
    return batch_norm(source, torch.float32, torch.contiguous_format, True, False)


@case
def batch_norm_mixed(source: Source) -> Any:
    return batch_norm(source, torch.bfloat16, torch.contiguous_format, True, True)


@case
def batch_norm_without_statistics(source: Source) -> Any:
    x = source.randn(3, 4, 5, grad=True)
    y = F.instance_norm(x)
    return y, backward(y, x)


@case
def batch_norm_strided(source: Source) -> Any:
    x = source.randn(3, 5, 4, grad=True)
    y = F.batch_norm(x.transpose(1, 2), None, None, training=True)
    return y, backward(y, x)


@case
def batch_norm_functional_forms(source: Source) -> Any:
    x, w, b = source.randn(3, 4, 5), source.randn(4), source.randn(4)
    mean, var = source.randn(4), source.randn(4).abs()
    return (
        aten.native_batch_norm(x, w, b, mean, var, True, 0.1, 1e-5),
        aten._native_batch_norm_legit(x, w, b, mean, var, True, 0.1, 1e-5),
        aten._native_batch_norm_legit.no_stats(x, w, b, True, 0.1, 1e-5),
        aten._batch_norm_with_update(x, w, b, mean, var, 0.1, 1e-5),
        mean,
        var,
    )


def group_norm(source: Source, dtype: torch.dtype, layout: torch.memory_format, affine: bool = True) -> Any:
    x = source.randn(3, 6, 5, 5, dtype=dtype).contiguous(memory_format=layout).requires_grad_()
    w, b = (source.randn(6, dtype=dtype, grad=True) if affine else None for _ in range(2))
    y = F.group_norm(x, 3, w, b)
    return y, backward(y, x, w, b)


@case
def group_norm_float(source: Source) -> Any:
    return group_norm(source, torch.float32, torch.contiguous_format)


@case
def group_norm_channels_last(source: Source) -> Any:
    # The operator itself: F.group_norm makes its input contiguous on every device but the CPU.
    x = source.randn(3, 6, 5, 5).contiguous(memory_format=torch.channels_last)
    w, b = source.randn(6), source.randn(6)
    out, mean, rstd = aten.native_group_norm(x, w, b, 3, 6, 25, 3, 1e-5)
    grads = aten.native_group_norm_backward(x, x, mean, rstd, w, 3, 6, 25, 3, [True, True, True])
    return out, mean, rstd, grads


@case
def group_norm_bfloat16(source: Source) -> Any:
    return group_norm(source, torch.bfloat16, torch.contiguous_format)


@case
def group_norm_bare(source: Source) -> Any:
    return group_norm(source, torch.float32, torch.contiguous_format, affine=False)


# ---- attention -------------------------------------------------------------------------------------------------------


def attention(
    source: Source,
    dtype: torch.dtype = torch.float32,
    causal: bool = False,
    mask: Tensor | None = None,
    split: bool = False,
    scale: float | None = None,
    length: int = 9,
) -> Any:
    if split:  # as transformers do: one projection cut in three
        joint = source.randn(2, 9, 3 * 16, dtype=dtype, grad=True)
        q, k, v = (part.view(2, 9, 4, 4).transpose(1, 2) for part in joint.chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, scale=scale)
        return y, backward(y, joint)
    q = source.randn(2, 4, 9, 8, dtype=dtype, grad=True)
    k, v = (source.randn(2, 4, length, 8, dtype=dtype, grad=True) for _ in range(2))
    y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, scale=scale)
    return y, backward(y, q, k, v)


@case
def attention_float(source: Source) -> Any:
    return attention(source)


@case
def attention_causal(source: Source) -> Any:
    return attention(source, causal=True)


@case
def attention_split_causal(source: Source) -> Any:
    return attention(source, causal=True, split=True)


@case
def attention_bfloat16(source: Source) -> Any:
    return attention(source, torch.bfloat16, causal=True)


@case
def attention_half_split(source: Source) -> Any:
    return attention(source, torch.float16, split=True)


@case
def attention_double_scaled(source: Source) -> Any:
    return attention(source, torch.float64, scale=0.3, length=13)


@case
def attention_with_boolean_mask(source: Source) -> Any:
    return attention(source, mask=source.mask(9, 9) | torch.eye(9, dtype=torch.bool, device=source.device))


@case
def attention_with_added_mask(source: Source) -> Any:
    return attention(source, mask=source.randn(2, 1, 9, 9))


@case
def attention_operators(source: Source) -> Any:
    q, k, v = (source.randn(2, 4, 5, 8) for _ in range(3))
    out, logsumexp = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, True)
    grads = aten._scaled_dot_product_flash_attention_for_cpu_backward(q, q, k, v, out, logsumexp, 0.0, True)
    return out, logsumexp, grads


# ---- convolution -----------------------------------------------------------------------------------------------------


def convolution(
    source: Source, dims: int, layout: torch.memory_format | None = None, dtype: torch.dtype = torch.float32, **how: Any
) -> Any:
    transposed, groups = how.pop("transposed", False), how.pop("groups", 1)
    x = source.randn(2, 4, *[7] * dims, dtype=dtype)
    w = source.randn(4 if transposed else 6, (6 if transposed else 4) // groups, *[3] * dims, dtype=dtype)
    if layout is not None:
        x = x.contiguous(memory_format=layout)
    x.requires_grad_()
    w.requires_grad_()
    b = source.randn(6, dtype=dtype, grad=True) if how.pop("bias", True) else None
    name = f"conv{'_transpose' if transposed else ''}{dims}d"
    y = getattr(F, name)(x, w, b, groups=groups, **how)
    return y, backward(y, x, w, b)


@case
def convolution_2d(source: Source) -> Any:
    return convolution(source, 2, padding=1)


@case
def convolution_1d(source: Source) -> Any:
    return convolution(source, 1, stride=2)


@case
def convolution_3d(source: Source) -> Any:
    return convolution(source, 3)


@case
def convolution_bare(source: Source) -> Any:
    return convolution(source, 2, bias=False, stride=(2, 1))


@case
def convolution_channels_last(source: Source) -> Any:
    return convolution(source, 2, torch.channels_last, padding=1)


@case
def convolution_grouped(source: Source) -> Any:
    return convolution(source, 2, groups=2)


@case
def convolution_dilated_double(source: Source) -> Any:
    return convolution(source, 2, dtype=torch.float64, dilation=2)


@case
def convolution_transposed(source: Source) -> Any:
    return convolution(source, 2, transposed=True, stride=2, output_padding=1)


@case
def convolution_bfloat16(source: Source) -> Any:
    return convolution(source, 2, dtype=torch.bfloat16)


# ---- indexing --------------------------------------------------------------------------------------------------------


@case
def embedding(source: Source) -> Any:
    weight = source.randn(11, 6, grad=True)
    indices = source.integers(11, 4, 5)
    y = F.embedding(indices, weight, padding_idx=3)
    z = F.embedding(indices[0].int(), weight, scale_grad_by_freq=True)
    return y, backward(y, weight), z, backward(z, weight)


@case
def index_select(source: Source) -> Any:
    x, index = source.randn(5, 6, 7), source.integers(6, 9)
    out = torch.empty(0, device=source.device)
    torch.index_select(x, 1, index, out=out)
    return (
        x.index_select(1, index),
        out,
        x.transpose(0, 2).index_select(-2, index.int()),
        x[0, 0, 0].index_select(0, index[:1] * 0),
    )


@case
def index_put(source: Source) -> Any:
    x, i, j = source.randn(5, 6, 7), source.integers(5, 4), source.integers(6, 4)
    x[1, :, 2] = 3.5
    x[i] = source.randn(6, 7)
    x[:, j, 1] = source.randn(5, 4)
    x.index_put_((i, j), source.randn(4, 7), accumulate=True)
    return x, x.index_fill_(1, j, -1.0).clone(), x.index_fill(0, i[:2], torch.tensor(2.0, device=source.device))


@case
def indexing_backward(source: Source) -> Any:
    x = source.randn(5, 6, grad=True)
    y = x[source.integers(5, 8), source.integers(6, 8)]
    z = x.take(source.integers(30, 4))
    return y, backward(y, x), z, backward(z, x)


@case
def put_and_masked_scatter(source: Source) -> Any:
    x = source.randn(4, 5)
    x.put_(source.integers(20, 6), source.randn(6), accumulate=True)
    return x, x.clone().masked_scatter_(source.mask(4, 5), source.randn(20))


@case
def moving(source: Source) -> Any:
    x = source.randn(3, 4, 5)
    window = source.randn(4, 10, grad=True)
    y = window.unfold(1, 3, 2)
    return (
        x.flip(0, 2),
        x.t_().flip(1) if x.dim() == 2 else x.mT.flip(1),
        x.roll(2, 1),
        x.roll((1, 2), (0, 2)),
        x[0].trace(),
        y,
        backward(y, window),
    )


# ---- filling, ranges -------------------------------------------------------------------------------------------------


@case
def filling(source: Source) -> Any:
    x = source.randn(4, 5)
    half = source.randn(4, 5, dtype=torch.bfloat16)
    return (
        x.clone().fill_(2.5),
        x.clone().t().fill_(x[0, 0]),
        x.clone()[:, 1:3].fill_(torch.tensor(7)),
        half.fill_(1 / 3),
        torch.full((3,), 4, device=source.device),
        torch.zeros(2, 3, device=source.device, dtype=torch.int32),
        torch.ones_like(x, dtype=torch.bool),
        x.clone().zero_(),
    )


@case
def masked_filling(source: Source) -> Any:
    x, mask = source.randn(4, 5), source.mask(4, 5)
    return (
        x.masked_fill(mask, -1e9),
        x.clone().masked_fill_(mask[0], x[0, 0]),
        x.t().masked_fill(mask.t(), torch.tensor(3.0)),
        x.masked_fill(mask[:, :1], 0),
    )


@case
def ranges(source: Source) -> Any:
    device = source.device
    return (
        torch.arange(10, device=device),
        torch.arange(1, 2.5, 0.3, device=device),
        torch.arange(5, 0, -2, dtype=torch.bfloat16, device=device),
        torch.linspace(-1, 1, 7, device=device),
        torch.logspace(0, 2, 5, device=device),
        torch.eye(4, device=device),
        torch.eye(2, 3, dtype=torch.int64, device=device),
    )


# ---- element-wise ----------------------------------------------------------------------------------------------------


@case
def elementwise(source: Source) -> Any:
    x, y = source.randn(4, 5), source.randn(5)
    strided = source.randn(5, 4).t()
    i = source.integers(9, 4, 5, low=-9)
    special = torch.tensor([float("nan"), float("inf"), -float("inf"), 1.0], device=source.device)
    return (
        x.abs(),
        strided.abs(),
        i.abs(),
        x.clone().abs_(),
        torch.complex(x, strided).abs(),
        torch.complex(x, strided).angle(),
        torch.polar(x.abs(), strided),
        torch.complex(x, strided).conj().resolve_conj(),
        x.logical_not(),
        x.logical_and(i),
        (x > 0).logical_or(y > 0),
        i.logical_xor_(y > 0),
        special.nan_to_num(),
        special.isnan(),
        special.isinf(),
        x.sigmoid().logit(),
        torch.frexp(x),
        1 - i,
        torch.rsub(x, y, alpha=2),
        7 % (x.abs() + 1),
        x // 0.3,
        i.floor_divide(y.abs() + 0.5),
        torch.mvlgamma(x.abs() + 3, 2),
        torch.angle(i),
        (i > 0).logit(),
        x.double().floor_divide(y),
        x.half().floor_divide_(y.abs() + 1),
    )


@case
def where(source: Source) -> Any:
    mask, x, y = source.mask(4, 5), source.randn(4, 5), source.randn(5)
    out = torch.empty(0, device=source.device)
    torch.where(mask, x, y, out=out)
    return (
        torch.where(mask, x, y),
        torch.where(mask, x, 0.0),
        torch.where(mask.t(), x.t(), x.t() * 2),
        torch.where(mask, x, torch.tensor(1.5)),
        torch.where(mask, x.bfloat16(), y),
        torch.where(mask, source.integers(5, 5), x),
        out,
    )


@case
def activations(source: Source) -> Any:
    results: list[Any] = []
    for function in (F.relu, F.hardtanh, F.relu6, F.hardswish, F.logsigmoid, F.glu, F.leaky_relu, F.gelu, F.silu):
        x = source.randn(4, 6, grad=True)
        y = function(x)
        results += [y, backward(y, x)]
    x, w = source.randn(4, 6, grad=True), source.randn(6, grad=True)
    y = F.prelu(x, w)
    return results, y, backward(y, x, w), F.relu(x.detach().clone(), inplace=True), F.relu(x.detach().t().bfloat16())


@case
def losses(source: Source) -> Any:
    results: list[Any] = []
    for reduction in ("mean", "sum", "none"):
        x, target = source.randn(4, 6, grad=True), source.randn(4, 6)
        probability = source.randn(4, 6).sigmoid().requires_grad_()
        image = source.randn(2, 3, 4, 4, grad=True)
        classes = source.integers(3, 2, 4, 4)
        for y, given in (
            (F.mse_loss(x, target, reduction=reduction), x),
            (F.smooth_l1_loss(x, target, reduction=reduction), x),
            (F.huber_loss(x, target, reduction=reduction, delta=0.7), x),
            (F.binary_cross_entropy(probability, target.sigmoid(), reduction=reduction), probability),
            (F.binary_cross_entropy_with_logits(x, target.sigmoid(), reduction=reduction), x),
            (F.cross_entropy(image, classes, reduction=reduction), image),
            (F.cross_entropy(x, source.integers(6, 4), reduction=reduction, ignore_index=2), x),
        ):
            results += [y, backward(y, given)]
    return results


# ---- reductions, pooling ---------------------------------------------------------------------------------------------


@case
def spreads(source: Source) -> Any:
    x = source.randn(4, 5, 6)
    return (
        x.var(),
        x.std(1),
        x.var((0, 2), keepdim=True),
        x.std(0, correction=0),
        torch.var_mean(x, 1),
        torch.std_mean(x),
        torch.complex(x, x + 1).var(0),
        x.bfloat16().var(-1),
    )


@case
def reductions(source: Source) -> Any:
    x, i = source.randn(4, 5), source.integers(3, 4, 5, low=-3)
    return (
        x.max(),
        x.t().min(),
        i.max(),
        x.median(),
        x.nanmedian(),
        x.median(1),
        x.nanmedian(0, keepdim=True),
        x.kthvalue(2, 0),
        x.prod(),
        i.prod(),
        x[0].dot(x[1]),
        torch.vdot(x[0], x[2]),
        i.count_nonzero(),
        i.count_nonzero(0),
        torch.equal(x, x.clone()),
        torch.equal(x, x + 1),
        x.cummax(0),
        x.cummin(1),
        x.logcumsumexp(1),
    )


@case
def pooling(source: Source) -> Any:
    results: list[Any] = []
    for layout in (torch.contiguous_format, torch.channels_last):
        x = source.randn(2, 3, 7, 7).contiguous(memory_format=layout).requires_grad_()
        for y in (
            F.adaptive_avg_pool2d(x, 3),
            F.adaptive_avg_pool2d(x, 1),
            F.max_pool2d(x, 2),
            F.avg_pool2d(x, 3, 2),
            F.pad(x, (1, 2, 3, 1), mode="reflect"),
            F.interpolate(x, scale_factor=2),
        ):
            results += [y, backward(y, x, retain=True)]
    return results


# ---- lists and optimizers --------------------------------------------------------------------------------------------


def lists(source: Source, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    return [source.randn(*shape, dtype=dtype) for shape in ((3, 4), (5,), (), (2, 3, 2))]


@case
def foreach_numbers(source: Source) -> Any:
    x = lists(source)
    results: list[Any] = []
    for name in ("add", "sub", "mul", "div"):
        new, in_place = getattr(torch, f"_foreach_{name}"), getattr(torch, f"_foreach_{name}_")
        results += [new(x, 1.7), new(x, [0.5, 2, -3.0, 4.25])]
        in_place(x, 1.1)
        in_place(x, [1.5, 0.25, 2, -1.0])
    return results, x


@case
def foreach_lists(source: Source) -> Any:
    x, y, z = lists(source), lists(source), [t.abs() + 1 for t in lists(source)]
    results: list[Any] = [torch._foreach_add(x, y, alpha=0.5), torch._foreach_maximum(x, y), torch._foreach_div(x, z)]
    torch._foreach_add_(x, y, alpha=2)
    torch._foreach_sub_(x, z)
    torch._foreach_mul_(x, y)
    torch._foreach_div_(x, z)
    torch._foreach_maximum_(x, y)
    torch._foreach_lerp_(x, z, 0.3)
    torch._foreach_addcmul_(x, y, z, 0.7)
    torch._foreach_addcmul_(x, y, z, [0.1, 0.2, 0.3, 0.4])
    torch._foreach_addcdiv_(x, y, z, 0.7)
    torch._foreach_addcdiv_(x, y, z, [0.1, 0.2, 0.3, 0.4])
    results += [torch._foreach_addcdiv(x, y, z, 1.5), torch._foreach_lerp(x, y, 0.1)]
    torch._foreach_copy_(y, [t.bfloat16() for t in z])
    torch._foreach_zero_(z)
    return results, x, y, z


@case
def foreach_unary_and_norm(source: Source) -> Any:
    x = [t.abs() + 0.1 for t in lists(source)]
    factor = torch.tensor(0.3, device=source.device)
    results = [torch._foreach_sqrt(x), torch._foreach_neg(x), torch._foreach_abs(x), torch._foreach_reciprocal(x)]
    results += [torch._foreach_norm(x), torch._foreach_norm(x, float("inf")), torch._foreach_mul(x, factor)]
    torch._foreach_mul_(x, factor)
    torch._foreach_sqrt_(x)
    torch._foreach_neg_(x)
    return results, x


@case
def foreach_slow_ways(source: Source) -> Any:
    x = lists(source, torch.int64)
    mixed = [source.randn(3), source.randn(3, dtype=torch.bfloat16)]
    strided = [source.randn(4, 3).t(), source.randn(2)]
    return (
        torch._foreach_add(x, 1.5),
        torch._foreach_div(x, 2),
        torch._foreach_add(mixed, [source.randn(3), source.randn(1)]),
        torch._foreach_mul(strided, 2),
        torch._foreach_add(strided, [source.randn(3, 4), source.randn(2)]),
    )


def training(source: Source, make: Callable[..., torch.optim.Optimizer], clip: float | None = None, **how: Any) -> Any:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 5)).to(source.device)
    optimizer = make(model.parameters(), **how)
    history = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(source.randn(7, 6)), source.integers(5, 7))
        torch.autograd.backward(loss)
        if clip is not None:
            history.append(clip_grad_norm_(model.parameters(), clip))
        optimizer.step()
        history.append(loss)
    return history, list(model.parameters())


@case
def adamw(source: Source) -> Any:
    return training(source, torch.optim.AdamW, lr=1e-2, clip=0.5)


@case
def adamw_fused(source: Source) -> Any:
    return training(source, torch.optim.AdamW, lr=1e-2, fused=True)


@case
def adamw_fused_with_rate_in_a_tensor(source: Source) -> Any:
    return training(source, torch.optim.AdamW, lr=torch.tensor(1e-2), fused=True, amsgrad=True)


@case
def adam_amsgrad(source: Source) -> Any:
    return training(source, torch.optim.Adam, lr=1e-2, amsgrad=True, weight_decay=0.1, maximize=True)


@case
def adam_fused(source: Source) -> Any:
    return training(source, torch.optim.Adam, lr=1e-2, fused=True)


@case
def sgd(source: Source) -> Any:
    return training(source, torch.optim.SGD, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01, clip=1.0)


@case
def sgd_plain(source: Source) -> Any:
    return training(source, torch.optim.SGD, lr=0.1)


@case
def sgd_fused(source: Source) -> Any:
    return training(source, torch.optim.SGD, lr=0.1, momentum=0.9, fused=True)


@pytest.mark.parametrize("name", CASES)
def test_the_kernel_gives_what_stock_cpu_gives(name: str, no_fallbacks: None) -> None:
    assert_same(CASES[name](Source("cpu")), CASES[name](Source("tb")))


# ---- bad input -------------------------------------------------------------------------------------------------------

REFUSED: dict[str, Case] = {
    "layer norm of another shape": lambda s: F.layer_norm(s.randn(2, 3), (4,)),
    "layer norm with a double weight": lambda s: F.layer_norm(s.randn(2, 3), (3,), s.randn(3, dtype=torch.float64)),
    "batch norm without statistics": lambda s: F.batch_norm(s.randn(2, 3), None, None),
    "batch norm with a short weight": lambda s: F.batch_norm(s.randn(2, 3), s.randn(3), s.randn(3), s.randn(2)),
    "convolution of other channels": lambda s: F.conv2d(s.randn(1, 3, 5, 5), s.randn(4, 2, 3, 3)),
    "convolution kernel beyond input": lambda s: F.conv2d(s.randn(1, 2, 2, 2), s.randn(4, 2, 3, 3)),
    "index_select by floats": lambda s: s.randn(3, 3).index_select(0, s.randn(2)),
    "index_select by a matrix": lambda s: s.randn(3, 3).index_select(0, s.integers(2, 2, 2)),
    "index_select beyond dimensions": lambda s: s.randn(3, 3).index_select(2, s.integers(2, 2)),
    "fill by a vector": lambda s: s.randn(3).fill_(s.randn(3)),
    "fill beyond the type": lambda s: s.integers(5, 3, dtype=torch.uint8).fill_(1000),
    "masked fill by numbers": lambda s: s.randn(3).masked_fill_(s.randn(3), 1),
    "masked fill with a vector": lambda s: s.randn(3).masked_fill_(s.mask(3), s.randn(3)),
    "masked fill of another shape": lambda s: s.randn(3).masked_fill_(s.mask(4), 1),
    "where without a condition": lambda s: torch.where(s.randn(3), s.randn(3), s.randn(3)),
    "where of other shapes": lambda s: torch.where(s.mask(3), s.randn(4), s.randn(3)),
    "relu of booleans": lambda s: F.relu(s.mask(3)),
    "dot of matrices": lambda s: s.randn(2, 2).dot(s.randn(2, 2)),
    "dot of other lengths": lambda s: s.randn(2).dot(s.randn(3)),
    "var of integers": lambda s: s.integers(3, 4).var(),
    "max of nothing": lambda s: s.randn(0).max(),
    "kthvalue beyond the size": lambda s: s.randn(3).kthvalue(4),
    "trace of a vector": lambda s: s.randn(3).trace(),
    "flip twice": lambda s: s.randn(2, 2).flip(0, 0),
    "arange without an end": lambda s: torch.arange(0, float("inf"), device=s.device),
    "negative eye": lambda s: torch.eye(-1, device=s.device),
    "complex of integers": lambda s: torch.complex(s.integers(3, 2), s.integers(3, 2)),
    "foreach of other lengths": lambda s: torch._foreach_add([s.randn(2)], [s.randn(2), s.randn(2)]),
    "reflection beyond the size": lambda s: F.pad(s.randn(1, 1, 3, 3), (3, 0, 0, 0), mode="reflect"),
    "adaptive pooling of a vector": lambda s: aten._adaptive_avg_pool2d(s.randn(3), [2, 2]),
    "normal with a negative deviation": lambda s: s.randn(3).normal_(0, -1),
    "uniform from above": lambda s: s.randn(3).uniform_(2, 1),
    "random_ from above": lambda s: s.randn(3).random_(2, 1),
    "bernoulli beyond 1": lambda s: s.randn(3).bernoulli_(1.5),
    "exponential of no rate": lambda s: s.randn(3).exponential_(0),
    "multinomial of too many": lambda s: torch.multinomial(s.randn(3).abs(), 4),
    "negative randperm": lambda s: torch.randperm(-1, device=s.device),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_raises_at_once_with_pytorchs_own_words(name: str, no_fallbacks: None) -> None:
    with pytest.raises(Exception) as expected:  # noqa: PT011 - whatever stock CPU raises
        REFUSED[name](Source("cpu"))
    with pytest.raises(type(expected.value)) as actual:
        REFUSED[name](Source("tb"))
    torch.tb.synchronize()  # type: ignore[attr-defined]  # nothing was queued that fails later
    assert str(actual.value).splitlines()[0] == str(expected.value).splitlines()[0]


def test_weights_that_are_no_probabilities_are_refused_at_the_next_synchronise() -> None:
    torch.multinomial(torch.tensor([-1.0, 2.0], device="tb"), 1)
    with pytest.raises(RuntimeError, match="probability tensor contains either"):
        torch.tb.synchronize()  # type: ignore[attr-defined]
    torch.tb.synchronize()  # type: ignore[attr-defined]  # once


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_networks_agree_with_stock_cpu(kind: Callable[..., nn.Module], no_fallbacks: None) -> None:
    results = []
    for device in ("cpu", "tb"):
        torch.manual_seed(1)
        network = kind(5, 7, num_layers=2, bidirectional=True).to(device)
        x = Source(device).randn(6, 3, 5, grad=True)
        out, state = network(x)
        results.append([*leaves((out, state)), *backward(out, x, *network.parameters())])
    for expected, actual in zip(*results, strict=True):
        torch.testing.assert_close(actual.cpu(), expected, rtol=1e-5, atol=1e-6)
