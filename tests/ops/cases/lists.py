"""Cases of _foreach_ lists and of the optimizers, for tests/ops/test_kernels.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from ops.cases.case import Source, case
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

aten = torch.ops.aten


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
def foreach_strides_of_size_one(source: Source) -> Any:
    """Dense tensors in channels-last order, whose strides are arbitrary in dimensions of size 1."""
    x = source.randn(12).abs()
    given = [x.as_strided((2, 3, 2, 1), strides) for strides in ((6, 1, 3, 1), (6, 1, 3, 6), (6, 2, 1, 5))]
    return torch._foreach_sqrt(given), torch._foreach_add(given, given), torch._foreach_mul(given, 2.0)


@case
def foreach_lists(source: Source) -> Any:
    x, y, z = lists(source), lists(source), [t.abs() + 1 for t in lists(source)]
    results: list[Any] = [torch._foreach_add(x, y, alpha=0.5), torch._foreach_maximum(x, y), torch._foreach_div(x, z)]
    torch._foreach_add_(x, y, alpha=2)
    torch._foreach_sub_(x, z)
    torch._foreach_mul_(x, y)
    torch._foreach_div_(x, z)
    torch._foreach_maximum_(x, y)
    torch._foreach_minimum_(x, [t * 2 for t in y])
    torch._foreach_lerp_(x, z, 0.3)
    torch._foreach_addcmul_(x, y, z, 0.7)
    torch._foreach_addcmul_(x, y, z, [0.1, 0.2, 0.3, 0.4])
    torch._foreach_addcdiv_(x, y, z, 0.7)
    torch._foreach_addcdiv_(x, y, z, [0.1, 0.2, 0.3, 0.4])
    results += [torch._foreach_addcdiv(x, y, z, 1.5), torch._foreach_lerp(x, y, 0.1)]
    torch._foreach_copy_(y, [t.bfloat16() for t in z])
    torch._foreach_zero_(z)
    return results, x, y, z


UNARY = [
    "abs",
    "acos",
    "asin",
    "atan",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "expm1",
    "floor",
    "frac",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "neg",
    "reciprocal",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
]


@case
def foreach_unary(source: Source) -> Any:
    results: list[Any] = []
    for name in UNARY:
        x = [t.sigmoid() for t in lists(source)]  # numbers in the domains of all functions
        results.append(getattr(torch, f"_foreach_{name}")(x))
        getattr(torch, f"_foreach_{name}_")(x)
        results.append(x)
    return results


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


@case
def adagrad_fused(source: Source) -> Any:
    return training(source, torch.optim.Adagrad, lr=0.1, lr_decay=0.1, fused=True)
