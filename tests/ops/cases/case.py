"""What a kernel test needs: cases that run on every device with the same tensors, and a comparison of their results."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

Case = Callable[["Source"], Any]
CASES: dict[str, Case] = {}


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
