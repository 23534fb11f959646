"""Calls with unusual arguments, which tb-ops' kernels must answer as stock CPU does.

Writes what is wrong with each case as JSON, null if nothing is.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.autograd.forward_ad as forward_ad
from torch import nn

Call = Callable[[str], Any]
CASES: dict[str, Call] = {}
NAN = float("nan")


def numbers(device: str, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    count = int(torch.Size(shape).numel())
    return ((torch.arange(count) % 11 - 5) / 2).reshape(shape).to(dtype).to(device)


def case(name: str) -> Callable[[Call], Call]:
    def add(call: Call) -> Call:
        assert name not in CASES
        CASES[name] = call
        return call

    return add


def refused(name: str, call: Call) -> None:
    """A case that raises on every device."""

    def raising(device: str) -> Any:
        value = call(device)
        torch.tb.synchronize()  # type: ignore[attr-defined]
        raise AssertionError(f"does not raise, but gives {value}")

    case(name)(raising)


# ---- what is refused ----

refused("alpha beyond float32", lambda d: torch.sub(numbers(d, 3), numbers(d, 3), alpha=1e39))
refused("clamp beyond float32", lambda d: numbers(d, 3).clamp(max=1e39))
refused("addcdiv beyond float32", lambda d: numbers(d, 3).addcdiv(numbers(d, 3), numbers(d, 3), value=1e39))
refused("lerp beyond float32", lambda d: numbers(d, 3).lerp(numbers(d, 3), 1e39))
refused("clamp beyond float16", lambda d: numbers(d, 3, dtype=torch.float16).clamp(max=1e5))
refused("fill beyond uint8", lambda d: torch.zeros(3, dtype=torch.uint8, device=d).fill_(300))
refused("index_fill beyond float32", lambda d: numbers(d, 3).index_fill(0, torch.tensor([0], device=d), 1e300))
refused(
    "beta of baddbmm beyond float32",
    lambda d: torch.baddbmm(numbers(d, 2, 3, 3), numbers(d, 2, 3, 2), numbers(d, 2, 2, 3), beta=1e300),
)
refused("a complex alpha of addmv", lambda d: torch.addmv(numbers(d, 3), numbers(d, 3, 2), numbers(d, 2), alpha=2j))
refused("a complex beta of softplus of nothing", lambda d: torch.ops.aten.softplus(numbers(d, 0, 3), 1 + 2j))
refused("a distance of complex order", lambda d: torch.dist(numbers(d, 3), numbers(d, 3) + 1, 1 + 2j))
refused("a complex alpha of addr", lambda d: torch.addr(numbers(d, 1), numbers(d, 1), numbers(d, 1), beta=0, alpha=1j))
refused(
    "integers divided by 0",
    lambda d: (
        torch.ones(2, dtype=torch.int64, device=d) // torch.zeros_like(torch.ones(2, dtype=torch.int64, device=d))
    ),
)
refused("gather beyond the size", lambda d: numbers(d, 3).gather(0, torch.tensor([3], device=d)))
refused("index_select beyond the size", lambda d: numbers(d, 3).index_select(0, torch.tensor([3], device=d)))
refused(
    "index_select of a number by several",
    lambda d: torch.tensor(1.0, device=d).index_select(0, torch.tensor([0, 0], device=d)),
)
refused(
    "put_ of fewer than there are indices",
    lambda d: numbers(d, 3).put_(torch.tensor([0, 1], device=d), numbers(d, 1)),
)
refused(
    "group norm of a transposed input",
    lambda d: torch.native_group_norm(numbers(d, 2, 4, 3).mT, None, None, 2, 3, 4, 1, 1e-5),
)
refused(
    "mse_loss of bool",
    lambda d: nn.functional.mse_loss(torch.ones(2, device=d).bool(), torch.ones(2, device=d).bool()),
)
refused(
    "masked_scatter of too few",
    lambda d: numbers(d, 3).masked_scatter(torch.ones(3, dtype=torch.bool, device=d), numbers(d, 2)),
)
refused("multinomial of no probability", lambda d: torch.zeros(3, device=d).multinomial(1))
refused("silu of integers", lambda d: nn.functional.silu(torch.ones(3, dtype=torch.int64, device=d)))
refused("gelu by an unknown name", lambda d: nn.functional.gelu(numbers(d, 3), approximate="sinh"))
refused("trunc of bool", lambda d: torch.ones(3, dtype=torch.bool, device=d).trunc())
refused("logcumsumexp along no dimension", lambda d: numbers(d, 3).logcumsumexp(300))
refused(
    "mean into integers", lambda d: torch.mean(numbers(d, 2, 3), 0, out=torch.empty(3, dtype=torch.int64, device=d))
)
refused(
    "norm into another type",
    lambda d: torch.norm(numbers(d, 2, 3), 2, 0, out=torch.empty(3, dtype=torch.float16, device=d)),
)
refused("a pool of no channels", lambda d: nn.functional.max_pool3d(numbers(d, 0, 2, 4, 4), 2))
refused("bincount of floats", lambda d: torch.bincount(torch.ones(3, device=d)))
refused("exponential numbers of bool", lambda d: torch.zeros(3, dtype=torch.bool, device=d).exponential_())
refused(
    "output_padding as large as the stride",
    lambda d: nn.functional.conv_transpose2d(
        numbers(d, 1, 1, 3, 3), numbers(d, 1, 1, 2, 2), stride=2, output_padding=2
    ),
)


# ---- memory that a call reads and writes ----


@case("take into overlapping memory")
def _(device: str) -> Any:
    x = numbers(device, 4)
    return torch.take(x, torch.tensor([0, 1, 2], device=device), out=x[1:])


@case("index_select into overlapping memory")
def _(device: str) -> Any:
    return torch.index_select(
        numbers(device, 3), 0, torch.tensor([0, 1], device=device), out=torch.zeros(1, device=device).expand(2)
    )


@case("kthvalue into overlapping memory")
def _(device: str) -> Any:
    x = numbers(device, 3, 3)
    return torch.kthvalue(x, 1, out=(x[0], torch.empty(3, dtype=torch.int64, device=device)))


@case("triu_ of an expanded tensor")
def _(device: str) -> Any:
    return numbers(device, 3, 1).expand(3, 3).triu_()


@case("baddbmm_ of an expanded tensor")
def _(device: str) -> Any:
    return numbers(device, 2, 1, 3).expand(2, 3, 3).baddbmm_(numbers(device, 2, 3, 2), numbers(device, 2, 2, 3))


@case("index_put_ on an expanded tensor")
def _(device: str) -> Any:
    return numbers(device, 3, 1).expand(3, 3).index_put_((torch.tensor([1], device=device),), numbers(device, 3))


# ---- values ----

for order in (300, -100, 1e300):
    case(f"norm of order {order}")(lambda d, order=order: torch.linalg.vector_norm(numbers(d, 4, 5), order, 1))  # type: ignore[misc]
for name, low, high in (("below", NAN, None), ("above", None, NAN), ("both", NAN, 1.0)):
    case(f"clamp by NaN {name}")(lambda d, low=low, high=high: numbers(d, 6).clamp(low, high))  # type: ignore[misc]
case("a comparison with a number beyond float32")(lambda d: numbers(d, 3) > 1e300)
case("a complex alpha of a product of nothing")(
    lambda d: torch.addmm(numbers(d, 2, 2), numbers(d, 2, 0), numbers(d, 0, 2), alpha=2j)
)
case("norms of single numbers")(lambda d: torch.linalg.vector_norm(numbers(d, 4, 1) / 30, -100, 1))
case("the norm of a number along a dimension")(lambda d: torch.linalg.vector_norm(torch.tensor(0.07, device=d), 300, 0))
case("mse_loss of numbers and bool")(lambda d: nn.functional.mse_loss(numbers(d, 4), numbers(d, 4) > 0))
case("a gradient of dropout of integers")(
    lambda d: torch.ops.aten.native_dropout_backward(torch.ones(3, dtype=torch.int64, device=d), numbers(d, 3) > 0, 2.0)
)
case("distinct rows and their places")(lambda d: torch.ops.aten.unique_dim(numbers(d, 14, 1), 0, True, True, False))
case("distinct rows and their counts")(lambda d: torch.ops.aten.unique_dim(numbers(d, 14, 1), 0, True, False, True))
case("distinct neighbours alone")(lambda d: torch.ops.aten.unique_consecutive(numbers(d, 14, 1), False, False, 0))
case("equality of numbers of two types")(
    lambda d: torch.tensor(torch.equal(torch.ones(3, device=d), torch.ones(3, device=d, dtype=torch.int64)))
)
case("the moments of a group norm of float16")(
    lambda d: torch.native_group_norm(numbers(d, 2, 4, 3, dtype=torch.float16), None, None, 2, 4, 3, 2, 1e-5)
)
case("logarithms of sigmoids in bfloat16")(
    lambda d: nn.functional.logsigmoid(numbers(d, 22, dtype=torch.bfloat16) * 0.7).float()
)
case("the gradient of ELU at NaN")(
    lambda d: torch.ops.aten.elu_backward(numbers(d, 3), 1, 1, 1, False, torch.full((3,), NAN, device=d))
)
case("a fraction fills bool")(lambda d: torch.zeros(2, dtype=torch.bool, device=d).fill_(0.5))
case("floats beyond int32 become int32")(lambda d: torch.tensor([1e10, -1e10, 1.5], device=d).int())
case("cosines of float16 into float32")(
    lambda d: torch.cos(numbers(d, 9, dtype=torch.float16), out=torch.empty(9, device=d))
)
case("topk of a number with k=0")(lambda d: torch.topk(torch.tensor(3.0, device=d), 0))
case("absolute complex numbers")(lambda d: numbers(d, 4, dtype=torch.complex64).mul(1 + 2j).abs())
case("where of complex numbers")(lambda d: torch.where(numbers(d, 4) > 0, numbers(d, 4, dtype=torch.complex64), 1j))
case("logical_and of complex numbers")(lambda d: torch.logical_and(numbers(d, 4, dtype=torch.complex64), numbers(d, 4)))
case("mode with out=")(
    lambda d: torch.mode(numbers(d, 3, 4), out=(torch.empty(0, device=d), torch.empty(0, dtype=torch.int64, device=d)))
)


@case("running statistics that are infinite")
def _(device: str) -> Any:
    mean, variance = (torch.tensor([1.0, float("inf")], device=device) for _ in range(2))
    nn.functional.batch_norm(numbers(device, 4, 2), mean, variance, training=True)
    return mean, variance


for mode, dimensions in (("linear", 1), ("bilinear", 2), ("trilinear", 3)):
    for corners in (False, True):

        @case(f"{mode} interpolation of infinity, corners {corners}")
        def _(device: str, mode: str = mode, dimensions: int = dimensions, corners: bool = corners) -> Any:
            image = torch.full((1, 1, *[3] * dimensions), float("inf"), device=device)
            return nn.functional.interpolate(image, size=[5] * dimensions, mode=mode, align_corners=corners)


@case("tangents of a GRU")
def _(device: str) -> Any:
    return _tangent(nn.GRU(3, 2), device, lambda module, x: module(x)[0])


@case("tangents of an LSTM cell")
def _(device: str) -> Any:
    return _tangent(nn.LSTMCell(3, 2), device, lambda module, x: module(x)[1])


def _tangent(module: nn.Module, device: str, call: Callable[[Any, torch.Tensor], torch.Tensor]) -> Any:
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(numbers("cpu", *parameter.shape) / 3)
    with forward_ad.dual_level():
        x = forward_ad.make_dual(numbers(device, 4, 3), numbers(device, 4, 3) + 1)  # type: ignore[no-untyped-call]
        result = forward_ad.unpack_dual(call(module.to(device), x))  # type: ignore[no-untyped-call]
        return result.tangent


case("probabilities of the host")(lambda d: torch.zeros(2, device=d).bernoulli_(torch.tensor([0.0, 1.0])))
case("probabilities of the host, with out=")(
    lambda d: torch.bernoulli(torch.tensor([0.0, 1.0]), out=torch.empty(2, device=d))
)


# ---- strides ----


case("coordinates into an out= that is resized")(
    lambda d: torch.nonzero(numbers(d, 3, 4), out=torch.empty(0, dtype=torch.int64, device=d))
)
case("coordinates into an out= of their shape")(
    lambda d: torch.nonzero(torch.ones(2, 3, device=d), out=torch.empty(6, 2, dtype=torch.int64, device=d))
)


@case("an unbatched transposed convolution of channels-last weights")
def _(device: str) -> Any:
    weight = numbers(device, 2, 2, 4, 5, 6).contiguous(memory_format=torch.channels_last_3d)
    return nn.functional.conv_transpose3d(numbers(device, 2, 4, 4, 4), weight, stride=(3, 2, 1))


case("an average pool of channels-last volumes")(
    lambda d: nn.functional.adaptive_avg_pool3d(
        numbers(d, 2, 3, 4, 4, 4).contiguous(memory_format=torch.channels_last_3d), 2
    )
)
case("a factorisation")(lambda d: torch.linalg.lu_factor_ex(numbers(d, 2, 3, 3) + 4 * torch.eye(3, device=d))[0])
case("a factorisation into an empty out=")(
    lambda d: torch.linalg.cholesky_ex(
        torch.eye(3, device=d), out=(torch.empty(0, device=d), torch.empty(0, dtype=torch.int32, device=d))
    )[0]
)


# ---- tensors of the host, which are refused for the device alone ----

HOST: dict[str, Callable[[], Any]] = {
    "a matrix of the host": lambda: numbers("tb", 2, 2) @ numbers("cpu", 2, 2),
    "an index of the host": lambda: numbers("tb", 3).gather(0, torch.tensor([0])),
    "a part of the host": lambda: torch.cat([numbers("tb", 3), numbers("cpu", 3)]),
    "take into the host": lambda: torch.take(numbers("tb", 3), torch.tensor([0], device="tb"), out=torch.empty(1)),
    "masked_select into the host": lambda: torch.masked_select(
        numbers("tb", 3), numbers("tb", 3) > 0, out=torch.empty(0)
    ),
    "addr into the host": lambda: torch.addr(
        numbers("tb", 2, 2), numbers("tb", 2), numbers("tb", 2), out=torch.empty(2, 2)
    ),
    "a number of the host for a gradient": lambda: torch.ops.aten.hardswish_backward(
        numbers("tb", 3), torch.tensor(1.0)
    ),
    "two numbers of the host": lambda: torch.special.chebyshev_polynomial_t(
        torch.tensor(1.0), torch.tensor(2.0), out=torch.empty((), device="tb")
    ),
}


def outcome(call: Call, device: str) -> Any:
    try:
        value = call(device)
        torch.tb.synchronize()  # type: ignore[attr-defined]
    except AssertionError:
        raise
    except Exception as error:
        return type(error).__name__
    return [tensor.cpu() for tensor in (value if isinstance(value, tuple) else (value,))], [
        (tensor.dtype, tensor.stride()) for tensor in (value if isinstance(value, tuple) else (value,))
    ]


def problem(call: Call) -> str | None:
    try:
        expected, given = outcome(call, "cpu"), outcome(call, "tb")
    except AssertionError as error:
        return str(error)
    if isinstance(expected, str) or isinstance(given, str):
        return None if expected is given or expected == given else f"{given} instead of {expected}"
    if expected[1] != given[1]:
        return f"types and strides {given[1]} instead of {expected[1]}"
    for one, other in zip(expected[0], given[0], strict=True):
        try:
            torch.testing.assert_close(other, one, equal_nan=True, check_stride=False)
        except AssertionError as error:
            return f"{other} instead of {one}: {error}"
    return None


def problem_of_host(call: Callable[[], Any]) -> str | None:
    try:
        value = call()
    except RuntimeError as error:
        return None if "on the same device" in str(error) else str(error)
    return f"is not refused, but gives {value}"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    report = {name: problem(call) for name, call in CASES.items()}
    report |= {name: problem_of_host(call) for name, call in HOST.items()}
    json.dump(report, sys.stdout)
