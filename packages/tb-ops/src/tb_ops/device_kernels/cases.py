"""Calls of operators that the core set computes, by group, for the comparison with stock CPU (check.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from tb_ops.device_kernels import image_cases, order_cases
from tb_ops.device_kernels.case_inputs import HALVES, REAL, WHOLE, Call, Case, gradients, layouts, numbers

SMOOTH = ["neg", "abs", "exp", "exp2", "expm1", "sin", "cos", "tan", "atan", "tanh", "erf"]
OTHERS = [
    "sigmoid",
    "reciprocal",
    "floor",
    "ceil",
    "trunc",
    "round",
    "sign",
    "relu",
    "square",
    "isnan",
    "isfinite",
    "logical_not",
]
UNARY = SMOOTH + OTHERS
POSITIVE = ["log", "log2", "log10", "log1p", "sqrt", "rsqrt"]
ARITHMETIC = ["add", "sub", "mul", "div", "maximum", "minimum", "pow", "remainder", "fmod", "atan2"]
BINARY = [*ARITHMETIC, "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or"]


def unary() -> Iterator[Case]:
    for name in UNARY + POSITIVE:
        for layout, x, _ in layouts(torch.float32):
            yield f"{name} {layout}", getattr(torch, name), [x.abs() + 0.5 if name in POSITIVE else x]
    for name in UNARY[:16]:
        yield f"{name} bfloat16", getattr(torch, name), [numbers(33, dtype=torch.bfloat16)]
    for name in ("exp", "log1p", "sqrt"):  # integers give floating-point results
        yield f"{name} int64", getattr(torch, name), [numbers(33, dtype=torch.int64).abs()]
    for dtype in (torch.float64, torch.float16):
        yield f"tanh {dtype}", torch.tanh, [numbers(33, dtype=dtype)]
    for dtype in (torch.int64, torch.uint8, torch.bool):
        yield f"bitwise_not {dtype}", torch.bitwise_not, [numbers(33, dtype=dtype)]
    for dtype in WHOLE[:3]:
        for function in (torch.neg, torch.abs, torch.sign):
            yield f"{function.__name__} {dtype}", function, [numbers(33, dtype=dtype)]
    x = numbers(5, 7)
    infinite = torch.tensor([1.0, float("inf"), float("-inf"), float("nan")])
    yield "isneginf", torch.isneginf, [infinite]
    yield "isposinf", torch.isposinf, [infinite]
    yield "clamp", lambda x: x.clamp(-1, 1), [x]
    yield "clamp min", lambda x: x.clamp(min=-1), [x]
    yield "clamp max", lambda x: x.clamp(max=0.5), [x]
    yield "clamp int64", lambda x: x.clamp(-2, 3), [numbers(9, dtype=torch.int64)]
    yield "clamp of tensors", lambda x, a, b: x.clamp(a, b), [x, numbers(5, 1, high=-1), numbers(7, low=0)]
    for power in (2, 3, 0.5, -1, 1.7):
        yield f"pow {power}", lambda x, power=power: x.abs().pow(power), [x]
    yield "pow int64", lambda x: x.pow(3), [numbers(9, dtype=torch.int64)]
    for name in ("gelu", "silu", "relu"):
        yield name, getattr(functional, name), [x]
    yield "gelu tanh", lambda x: functional.gelu(x, approximate="tanh"), [x]
    yield "threshold", lambda x: functional.threshold(x, 0.5, 7.0), [x]
    yield "relu_", lambda x: x.clone().relu_(), [x]
    yield "neg out", lambda x: torch.neg(x, out=torch.empty(7, 5, device=x.device).t()), [x]


def binary() -> Iterator[Case]:
    for name in BINARY:
        function = getattr(torch, name)
        for layout, x, y in layouts(torch.float32):
            yield f"{name} {layout}", function, [x.abs() if name == "pow" else x, y]
        yield f"{name} int64", function, [numbers(5, 4, dtype=torch.int64), numbers(4, dtype=torch.int64, low=1)]
        yield f"{name} float16", function, [numbers(9, dtype=torch.float16).abs(), numbers(9, dtype=torch.float16) + 4]
    for one, other in ((torch.int64, torch.float32), (torch.bool, torch.int32), (torch.float16, torch.float32)):
        yield f"add {one} {other}", torch.add, [numbers(6, dtype=one), numbers(6, dtype=other)]
    yield "add alpha", lambda x, y: torch.add(x, y, alpha=2.5), [numbers(6), numbers(6, low=1)]
    yield "add in place", lambda x, y: x.clone().add_(y), [numbers(3, 6), numbers(6)]
    yield "number", lambda x: 2 * x + 1 - x / 4, [numbers(3, 6)]
    yield "number int64", lambda x: 2 * x + 1, [numbers(3, 6, dtype=torch.int64)]
    yield "rsub", lambda x: 3 - x, [numbers(6)]
    yield "tensor rsub", lambda x, y: torch.rsub(x, y, alpha=2), [numbers(6), numbers(6, low=0)]
    yield "a number on the CPU", lambda x: x * torch.tensor(1.5), [numbers(6)]
    for mode in ("trunc", "floor"):
        for dtype in (torch.float32, torch.int64):
            yield (
                f"div {mode} {dtype}",
                lambda x, y, mode=mode: torch.div(x, y, rounding_mode=mode),
                [numbers(9, dtype=dtype), numbers(9, dtype=dtype, low=1)],
            )
    yield "floor_divide", lambda x: x // 2, [numbers(9, dtype=torch.int64)]
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "logical_xor"):
        for dtype in (torch.int32, torch.bool):
            yield f"{name} {dtype}", getattr(torch, name), [numbers(9, dtype=dtype), numbers(9, dtype=dtype).flip(0)]
    yield "eq number", lambda x: x == 2, [numbers(20, dtype=torch.int64)]
    yield "lt number", lambda x: x < 0.25, [numbers(20)]
    condition = numbers(4, 1) > 0
    yield "where", torch.where, [condition, numbers(4, 5), numbers(5)]
    yield "where numbers", lambda c, x: torch.where(c, x, 0.0), [condition, numbers(4, 5)]
    yield "masked_fill", lambda x, c: x.masked_fill(c, float("-inf")), [numbers(4, 5), condition]
    x, y, z = numbers(4, 5), numbers(5), numbers(4, 1, low=1)
    yield "addcmul", lambda x, y, z: torch.addcmul(x, y, z, value=0.5), [x, y, z]
    yield "addcdiv", lambda x, y, z: torch.addcdiv(x, y, z, value=-0.5), [x, y, z]
    yield "lerp", lambda x, y: torch.lerp(x, y, 0.3), [x, y]
    yield "lerp of tensors", torch.lerp, [x, y.expand(4, 5), z.expand(4, 5) / 5]
    yield "mse_loss", functional.mse_loss, [x, y.expand(4, 5)]
    yield "mse_loss none", lambda x, y: functional.mse_loss(x, y, reduction="none"), [x, y.expand(4, 5)]


def copies() -> Iterator[Case]:
    x = numbers(4, 6)
    for to in (*REAL, *WHOLE, torch.bool):
        yield f"float32 to {to}", lambda x, to=to: x.to(to), [x]
    for start in (torch.int64, torch.float16, torch.bfloat16, torch.bool, torch.float64):
        for to in (torch.float32, torch.int32):
            yield f"{start} to {to}", lambda x, to=to: x.to(to), [numbers(11, dtype=start)]
    yield "contiguous", lambda x: x.t().contiguous(), [x]
    yield "permuted", lambda x: x.permute(2, 0, 1).contiguous(), [numbers(3, 4, 5)]
    yield "flipped layout", lambda x: x.t().clone(memory_format=torch.preserve_format), [x]
    yield "into a slice", lambda x: torch.zeros(8, 12, device=x.device)[::2, ::2].copy_(x), [x]
    yield "into a part", lambda x: torch.cat([x, x[1:3] * 2]), [x]
    yield "cat 1", lambda x, y: torch.cat([x, y], 1), [x, numbers(4, 2)]
    yield "cat with float64", lambda x, y: torch.cat([x, y]), [x, numbers(2, 6, dtype=torch.float64)]
    yield "stack", lambda x: torch.stack([x, x + 1], 1), [x]
    yield "repeat", lambda x: x.repeat(2, 3), [x]
    yield "fill", lambda x: x.clone().fill_(2.5), [x]
    yield "fill int64", lambda x: torch.full((5,), 2**60 + 1, device=x.device), [x]
    yield "fill slice", lambda x: _changed(x, lambda y: y[:, 1].fill_(7)), [x]
    yield "fill of tensor", lambda x: x.clone().fill_(x[1, 1]), [x]
    yield "zero", lambda x: x.clone().zero_(), [x]
    yield "zero slice", lambda x: _changed(x, lambda y: y[::2].zero_()), [x]
    yield "ones_like", torch.ones_like, [x]
    yield "arange", lambda x: torch.arange(3, 20, 4, device=x.device), [x]
    yield "arange float", lambda x: torch.arange(0, 1, 0.125, device=x.device), [x]
    yield "tril", lambda x: x.tril(1), [x]
    yield "triu", lambda x: x.triu(), [numbers(2, 5, 3)]
    yield "item", lambda x: torch.tensor(x[2, 3].item()), [x]
    yield "to the CPU, strided", lambda x: x[:, ::2].cpu(), [x]
    yield "pad", lambda x: functional.pad(x, (1, 2)), [x]


def _changed(x: Tensor, change: Callable[[Tensor], object]) -> Tensor:
    y = x.clone()
    change(y)
    return y


def reductions() -> Iterator[Case]:
    shapes: list[tuple[str, Tensor]] = [
        ("plain", numbers(5, 130)),
        ("transposed", numbers(130, 5).t()),
        ("three", numbers(3, 70, 4)),
        ("sliced", numbers(9, 140)[::2, ::2]),
    ]
    for layout, x in shapes:
        for dim in (0, 1, -1):
            for name in ("sum", "mean", "amax", "amin", "argmax", "argmin", "prod", "logsumexp"):
                function = getattr(torch, name)
                yield f"{name} {layout} {dim}", lambda x, f=function, dim=dim: f(x, dim=dim), [x]
        yield f"sum all {layout}", torch.sum, [x]
        yield f"mean keepdim {layout}", lambda x: x.mean((0, -1), keepdim=True), [x]
        yield f"max {layout}", lambda x: torch.max(x, 1), [x]
        yield f"min {layout}", lambda x: torch.min(x, 0), [x]
        yield f"max all {layout}", torch.max, [x]
        yield f"argmax all {layout}", torch.argmax, [x]
        yield f"var {layout}", lambda x: x.var(1), [x]
        yield f"std {layout}", lambda x: x.std(dim=0, correction=0), [x]
        for order in (0, 1, 2, 3, float("inf"), float("-inf")):
            yield f"norm {order} {layout}", lambda x, o=order: torch.linalg.vector_norm(x, o, dim=1), [x]
        yield f"any {layout}", lambda x: (x > 2.9).any(1), [x]
        yield f"all {layout}", lambda x: (x < 2.9).all(0), [x]
    for dtype in (torch.int64, torch.uint8, torch.bool):
        yield f"sum {dtype}", lambda x: x.sum(0), [numbers(70, 3, dtype=dtype)]
    for dtype in (*HALVES, torch.float64):
        yield f"mean {dtype}", lambda x: x.mean(1), [numbers(4, 90, dtype=dtype)]
    yield "sum to float64", lambda x: x.sum(dtype=torch.float64), [numbers(90)]
    yield "sum of none", lambda x: x.sum(0), [numbers(0, 3)]
    yield "mean of none", lambda x: x.mean(), [numbers(0)]
    yield "many", lambda x: x.sum(), [numbers(100_000, low=0.5)]
    yield "nan", lambda x: torch.cat([x.amax().view(1), x.amin().view(1)]), [torch.tensor([1.0, float("nan"), 3.0])]
    yield "ties", lambda x: torch.max(x, 0), [torch.tensor([1.0, 3.0, 3.0, 2.0] * 40)]
    yield "norm", lambda x: torch.norm(x), [numbers(9, 9)]


def layers() -> Iterator[Case]:
    for layout, x in (("plain", numbers(6, 70)), ("transposed", numbers(70, 6).t()), ("three", numbers(2, 9, 5))):
        for dim in (-1, 0, 1):
            for name in ("softmax", "log_softmax"):
                function = getattr(torch, name)
                yield f"{name} {layout} {dim}", gradients(lambda x, f=function, d=dim: f(x, d)), [x]
        for name in ("relu", "gelu", "silu", "tanh", "sigmoid"):
            yield f"{name} {layout}", gradients(getattr(torch, name, None) or getattr(functional, name)), [x]
    yield "gelu tanh", gradients(lambda x: functional.gelu(x, approximate="tanh")), [numbers(9)]
    yield "threshold", gradients(lambda x: functional.threshold(x, 0.5, 0)), [numbers(9)]
    for dtype in (torch.float64, *HALVES):
        yield f"softmax {dtype}", gradients(lambda x: x.softmax(-1)), [numbers(4, 40, dtype=dtype)]
        yield f"gelu {dtype}", gradients(functional.gelu), [numbers(40, dtype=dtype)]
    for dtype in (torch.float32, torch.float64):
        weight, bias = numbers(24, dtype=dtype, low=0.5), numbers(24, dtype=dtype)
        norm = gradients(lambda x, w, b: functional.layer_norm(x, (24,), w, b))
        yield f"layer_norm {dtype}", norm, [numbers(3, 5, 24, dtype=dtype), weight, bias]
    yield "layer_norm plain", gradients(lambda x: functional.layer_norm(x, (5, 24))), [numbers(3, 5, 24)]
    yield "layer_norm strided", gradients(lambda x: functional.layer_norm(x.transpose(0, 1), (3,))), [numbers(3, 8)]
    logits, targets = numbers(7, 10), torch.tensor([1, 0, 9, 3, -100, 4, 4])
    for reduction in ("mean", "sum", "none"):
        loss = gradients(lambda x, y, r=reduction: functional.cross_entropy(x, y, reduction=r))
        yield f"cross_entropy {reduction}", loss, [logits, targets]
        weighted = gradients(lambda x, y, r=reduction: functional.nll_loss(x, y, _weights(x), reduction=r))
        yield f"nll_loss weights {reduction}", weighted, [logits, targets]
    yield "nll_loss of one", gradients(lambda x, y: functional.nll_loss(x, y)), [logits[0], targets[0]]
    yield "mse_loss", gradients(lambda x, y: functional.mse_loss(x, y)), [numbers(4, 5), numbers(4, 5).flip(0)]
    words = torch.tensor([[1, 3, 3], [0, 5, 1]])
    yield "embedding", gradients(lambda w, i: functional.embedding(i, w)), [numbers(6, 8), words]
    yield "embedding padded", gradients(lambda w, i: functional.embedding(i, w, padding_idx=3)), [numbers(6, 8), words]
    yield "embedding halves", gradients(lambda w, i: functional.embedding(i, w)), [numbers(6, 8).half(), words]
    yield "linear", gradients(functional.linear), [numbers(3, 5, 16), numbers(8, 16), numbers(8)]
    q, k, v = numbers(2, 3, 9, 8), numbers(2, 3, 9, 8).flip(0), numbers(2, 3, 9, 8).flip(1)
    for causal in (False, True):
        attend = gradients(lambda q, k, v, c=causal: functional.scaled_dot_product_attention(q, k, v, is_causal=c))
        yield f"attention {causal}", attend, [q, k, v]


def _weights(x: Tensor) -> Tensor:
    return (torch.arange(10.0) / 10 + 0.5).to(x.device)


def activations() -> Iterator[Case]:
    names = ["elu", "selu", "celu", "leaky_relu", "softplus", "mish"]
    for name in [*names, "hardsigmoid", "hardswish", "hardtanh", "logsigmoid"]:
        function = getattr(functional, name)
        for dtype in (torch.float32, torch.float64, *HALVES):
            yield f"{name} {dtype}", gradients(function), [numbers(40, dtype=dtype, low=-5, high=5)]
        yield f"{name} transposed", gradients(lambda x, f=function: f(x.t())), [numbers(5, 7)]
    yield "elu numbers", gradients(lambda x: functional.elu(x, 0.7)), [numbers(9)]
    yield "elu in place", gradients(lambda x: functional.elu(x * 1, 0.7, inplace=True)), [numbers(9)]
    yield "softplus beyond", gradients(lambda x: functional.softplus(x, 2, 3)), [numbers(40, low=-9, high=9)]
    yield "leaky_relu in place", gradients(lambda x: functional.leaky_relu(x * 1, 0.2, inplace=True)), [numbers(9)]
    yield "hardswish_", lambda x: functional.hardswish(x.clone(), inplace=True), [numbers(9, low=-5, high=5)]


def products() -> Iterator[Case]:
    for m, k, n in ((3, 4, 5), (40, 70, 33), (64, 16, 64), (1, 100, 1), (5, 0, 3)):
        yield f"mm {m} {k} {n}", torch.mm, [numbers(m, k, low=-1, high=1), numbers(k, n, low=-1, high=1)]
    a, b = numbers(20, 30), numbers(30, 40)
    yield "mm transposed", lambda a, b: torch.mm(b.t(), a.t()), [a, b]
    yield "mm sliced", lambda a, b: torch.mm(a[::2, ::3], b[::3]), [a, b]
    yield "mm out", lambda a, b: torch.mm(a, b, out=torch.empty(40, 20, device=a.device).t()), [a, b]
    for dtype in (torch.float64, *HALVES, torch.int64, torch.int32):
        yield f"mm {dtype}", torch.mm, [numbers(9, 17, dtype=dtype), numbers(17, 8, dtype=dtype)]
    yield "addmm", lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), [numbers(40), a, b]
    yield "addmm nan", lambda c, a, b: torch.addmm(c, a, b, beta=0), [torch.full((20, 40), float("nan")), a, b]
    yield "bmm", torch.bmm, [numbers(3, 20, 30), numbers(3, 30, 10)]
    yield "bmm expanded", lambda a, b: torch.bmm(a.expand(3, 20, 30), b), [a, numbers(3, 30, 10)]
    yield "baddbmm", torch.baddbmm, [numbers(3, 1, 10), numbers(3, 20, 30), numbers(3, 30, 10)]
    yield "mv", torch.mv, [a, numbers(30)]
    yield "dot", torch.dot, [numbers(30), numbers(30).flip(0)]
    yield "matmul", torch.matmul, [numbers(2, 3, 4, 5), numbers(3, 5, 6)]


def indexing() -> Iterator[Case]:
    x = numbers(5, 6)
    index = torch.tensor([[0, 4, 2], [1, 1, 3]])
    unique = torch.tensor([[0, 4, 2, 1, 3], [3, 1, 0, 2, 4]])
    for dtype in (torch.float32, torch.float16, torch.int64, torch.bool):
        y = numbers(5, 6, dtype=dtype)
        yield f"gather {dtype}", lambda x, i: x.gather(0, i), [y, index]
        yield f"scatter {dtype}", lambda x, i, s: x.scatter(1, i, s), [y, unique, numbers(2, 5, dtype=dtype)]
        yield f"index_select {dtype}", lambda x, i: x.index_select(1, i[1]), [y, index]
    yield "gather strided", lambda x, i: x.t().gather(1, i), [x, index]
    yield "scatter value", lambda x, i: x.scatter(1, i, 2.5), [x, index]
    yield "scatter_add", lambda x, i, s: x.scatter_add(0, i, s), [x, index, numbers(2, 3)]
    yield "scatter_add int64", lambda x, i, s: x.scatter_add(0, i, s), [x.long(), index, numbers(2, 3).long()]
    yield "index_select 0", lambda x, i: x.t().index_select(0, i.view(-1)), [x, index]
    yield "index_select int32", lambda x, i: x.index_select(0, i[0].int()), [x, index]
    yield "index_add", lambda x, i, s: x.index_add(0, i[0], s, alpha=2), [x, index, numbers(3, 6)]
    yield "take_along_dim", lambda x, i: torch.take_along_dim(x, i[:, :1], 0), [x, index]


def optimizers() -> Iterator[Case]:
    def steps(make: Callable[..., torch.optim.Optimizer], **settings: Any) -> Call:
        def run(*parameters: Tensor) -> tuple[Tensor, ...]:
            leaves = [p.clone().requires_grad_() for p in parameters]
            optimizer = make(leaves, lr=0.1, **settings)
            for step in range(3):
                for leaf in leaves:
                    leaf.grad = leaf.detach() * (0.1 + step)
                optimizer.step()
            return tuple(leaf.detach() for leaf in leaves)

        return run

    parameters: list[Any] = [numbers(3, 4), numbers(7), numbers(6, 2).t(), *(numbers(2) for _ in range(30))]
    optim = torch.optim
    for kind in ("fused", "foreach", "single"):
        how = {"fused": kind == "fused", "foreach": kind == "foreach"}
        yield f"adamw {kind}", steps(optim.AdamW, weight_decay=0.1, **how), parameters
        yield f"adam {kind}", steps(optim.Adam, weight_decay=0.1, **how), parameters
        yield f"sgd {kind}", steps(optim.SGD, **how), parameters
        yield f"momentum {kind}", steps(optim.SGD, momentum=0.9, nesterov=True, weight_decay=0.1, **how), parameters
    yield "amsgrad", steps(optim.AdamW, amsgrad=True, fused=True), parameters
    yield "adamw float64", steps(optim.AdamW, fused=True), [numbers(9, dtype=torch.float64)]
    yield "clip", lambda x, y: _clipped([x, y]), [numbers(5), numbers(3, 3)]


def _clipped(parameters: list[Tensor]) -> tuple[Tensor, ...]:
    leaves = [p.clone().requires_grad_() for p in parameters]
    for leaf in leaves:
        leaf.grad = leaf.detach() * 3
    norm = torch.nn.utils.clip_grad_norm_(leaves, 1.0)
    return (norm, *(leaf.grad for leaf in leaves if leaf.grad is not None))


GROUPS: dict[str, Callable[[], Iterator[Case]]] = {
    "unary": unary,
    "binary": binary,
    "copies": copies,
    "reductions": reductions,
    "layers": layers,
    "activations": activations,
    "products": products,
    "indexing": indexing,
    **image_cases.GROUPS,
    **order_cases.GROUPS,
    "optimizers": optimizers,
}
