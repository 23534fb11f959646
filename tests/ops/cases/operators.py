"""Cases of indexing, filling, elementwise, reducing and list kernels, and of optimizers."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from ops.cases.case import Source, backward, case

aten = torch.ops.aten

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
def comparisons_into_another_type(source: Source) -> Any:
    z = torch.complex(source.randn(3, 4), source.randn(3, 4).relu())
    out = [torch.zeros(3, 4, dtype=dtype, device=source.device) for dtype in (torch.float16, torch.int32, torch.bool)]
    return (
        torch.logical_xor(z, source.randn(4).relu(), out=out[0]),
        torch.logical_and(source.integers(3, 3, 4), z.real, out=out[1]),
        torch.logical_or(z, torch.tensor(0), out=out[2]),
    )


@case
def outer_product_added(source: Source) -> Any:
    x, y = source.randn(40), source.randn(30)
    i = source.integers(9, 40)
    return (
        torch.addr(source.randn(40, 30), x, y),
        torch.addr(source.randn(30), x, y, beta=0.5, alpha=3),
        torch.addr(source.integers(9, 40, 40), i, i),
        torch.addr(source.randn(40, 30), x, y, out=torch.zeros(1, device=source.device).resize_(0)),
        source.randn(40, 30, dtype=torch.bfloat16).addr_(x.bfloat16(), y.bfloat16()),
        torch.addr(torch.empty_strided((2, 1), (1, 2), device=source.device).fill_(1), x[:2], y[:1]),
    )


@case
def flips_keep_strides_of_dimensions_of_size_one(source: Source) -> Any:
    x = source.randn(5, 1)
    return x.t().flip(0), x.rot90().rot90(), torch.empty_strided((0, 2), (1, 2), device=source.device).flip(-1)


@case
def mish_and_its_gradient(source: Source) -> Any:
    x = source.randn(6, 18, 4, grad=True)
    out = F.mish(x)
    return out, backward(out, x)


@case
def lists_keep_the_order_of_dimensions_of_size_one(source: Source) -> Any:
    x = torch.empty_strided((3, 1), (1, 3), device=source.device).fill_(2)
    lists = [x, source.randn(4, 3).t(), torch.eye(0, 1, device=source.device)]
    return (
        torch._foreach_mul(lists, 2.5),
        torch._foreach_div(lists, [2.0, 3.0, 4.0]),
        torch._foreach_sqrt(torch._foreach_abs(lists)),
        torch._foreach_add(lists, lists),
    )


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
