"""Cases of kernel tests, which run with the same tensors on every device, and the comparison of their results."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch_backend.conformance.bits import bit_difference

Case = Callable[["Source"], Any]
CASES: dict[str, Case] = {}


SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1e-40, -1e-40, 3e38, -3e38, 1.0, -1.0]


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


class SpecialSource(Source):
    """The same tensors, in which every third number is a special one, such as NaN or infinity."""

    def __init__(self, device: str, numbers: Sequence[float]) -> None:
        super().__init__(device)
        self.numbers = numbers
        self._made = 0

    def randn(self, *shape: int, dtype: torch.dtype = torch.float32, grad: bool = False) -> Tensor:
        made = torch.randn(shape, generator=self.generator)
        flat = made.view(-1)
        for i in range(self._made % 3, flat.numel(), 3):
            flat[i] = self.numbers[(i // 3 + self._made) % len(self.numbers)]
        self._made += 1
        made = made.to(dtype).to(self.device)
        return made.requires_grad_() if grad else made


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
    """Gradients of a weighted sum, in which every element of `out` has a different weight."""
    weights = torch.linspace(-1, 1, out.numel(), device=out.device).reshape(out.shape).to(out.dtype)
    given = [x for x in inputs if x is not None]
    return list(torch.autograd.grad((out * weights).sum(), given, retain_graph=retain))


def assert_same(expected: Any, actual: Any) -> None:
    """Asserts that structure, dtypes, shapes and strides agree and that the tensors are bit-identical."""
    wanted, got = list(leaves(expected)), list(leaves(actual))
    assert len(wanted) == len(got)
    for place, (one, other) in enumerate(zip(wanted, got, strict=True)):
        if isinstance(one, Tensor):
            difference = bit_difference(one, other, strides=True)
            assert not difference, f"result {place}: {difference}"
        else:
            assert repr(one) == repr(other), f"result {place}"  # by repr(), NaN equals NaN, and 0.0 differs from -0.0
