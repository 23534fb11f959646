"""The types that a kernel has run with stay known, however many other types follow before a capture."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

tb: Any = torch.tb  # type: ignore[attr-defined]

TYPES = (
    torch.bool,
    torch.uint8,
    torch.int8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
)


def add(x: Tensor, y: Tensor) -> Tensor:
    return x + y


def copy(x: Tensor, y: Tensor) -> Tensor:
    return x.copy_(y)


def choose(x: Tensor, y: Tensor) -> Tensor:
    return torch.where(x != 0, x, y)


def lists(x: Tensor, y: Tensor) -> Tensor:
    return torch._foreach_add([x, x], [y, y])[0]


def captures(step: Callable[[], object]) -> bool:
    graph = tb.Graph()
    try:
        with tb.graph(graph):
            step()
    except RuntimeError as error:
        if "for the first time" not in str(error):
            raise
        return False
    return True


@pytest.mark.parametrize("operator", [add, copy, choose, lists])
def test_a_warmed_up_operator_is_captured_after_all_other_types(operator: Callable[[Tensor, Tensor], Tensor]) -> None:
    warm = torch.full((3,), 2.0, device="tb")
    operator(warm, warm)
    for first, second in product(TYPES, TYPES):
        operator(torch.ones(3, dtype=first, device="tb"), torch.ones(3, dtype=second, device="tb"))
    assert captures(lambda: operator(warm, warm))
    for first, second in product(TYPES, TYPES):
        x, y = torch.ones(3, dtype=first, device="tb"), torch.ones(3, dtype=second, device="tb")
        assert captures(lambda x=x, y=y: operator(x, y)), (first, second)  # type: ignore[misc]


def test_types_that_a_kernel_refuses_are_refused_again_after_many_others() -> None:
    for _ in range(2):
        for dtype in TYPES:
            x = torch.ones(3, 3, dtype=dtype, device="tb")
            try:
                stock: type[Exception] | None = None
                torch.ones(3, 3, dtype=dtype).tril().logdet()
            except (RuntimeError, NotImplementedError) as error:
                stock = type(error)
            if stock:
                with pytest.raises(stock):
                    x.tril().logdet()
            else:
                x.tril().logdet()
