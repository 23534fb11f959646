"""What cases are made of: inputs on the CPU, and calls that return gradients too."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

Call = Callable[..., Any]
Case = tuple[str, Call, list[Any]]
"""A name, a function of the inputs, the inputs on the CPU."""

HALVES = [torch.float16, torch.bfloat16]
REAL = [torch.float32, torch.float64, *HALVES]
WHOLE = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]


def numbers(*shape: int, dtype: torch.dtype = torch.float32, low: float = -3, high: float = 3) -> Tensor:
    """Distinct numbers in no order; integers for integer types."""
    count = max(1, torch.Size(shape).numel())
    places = (torch.arange(count, dtype=torch.float64) * 0.6180339887498949) % 1
    values = (low + (high - low) * places)[: torch.Size(shape).numel()].reshape(shape)
    if dtype == torch.bool:
        return values > (low + high) / 2
    if not dtype.is_floating_point:
        values = values.abs() * 3 if dtype == torch.uint8 else values * 3
    return values.to(dtype)


def layouts(dtype: torch.dtype) -> Iterator[tuple[str, Tensor, Tensor]]:
    """Pairs of operands that are laid out and broadcast in different ways."""
    plain = numbers(6, 10, dtype=dtype)
    yield "plain", plain, numbers(6, 10, dtype=dtype, low=0.5, high=2.5)
    yield "transposed", plain.t(), numbers(10, 6, dtype=dtype, low=0.5, high=2.5)
    yield "sliced", plain[::2, 1::3], numbers(3, 6, dtype=dtype, low=0.5, high=2.5)[:, ::2]
    yield "broadcast", numbers(4, 1, 5, dtype=dtype), numbers(3, 1, dtype=dtype, low=0.5, high=2.5)
    yield "number", plain, torch.tensor(2, dtype=dtype)
    yield "empty", numbers(0, 4, dtype=dtype), numbers(4, dtype=dtype)


def gradients(call: Call) -> Call:
    """A call that returns the result and the gradients of the floating-point inputs."""

    def run(*inputs: Any) -> tuple[Tensor, ...]:
        leaves = [x.detach().clone().requires_grad_() if _floating(x) else x for x in inputs]
        out = call(*leaves)
        out.backward(numbers(*out.shape, dtype=out.dtype, low=-1, high=2.5).roll(3).to(out.device))
        return (out.detach(), *(x.grad for x in leaves if _floating(x)))

    return run


def _floating(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()
