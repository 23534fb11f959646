"""What is timed: an operator, and the inputs that it is given."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from benchmarks.interleave import Call

SEED = 0


class Inputs:
    """Tensors of about `elements` numbers on a device. They have the same numbers on every device."""

    def __init__(self, elements: int, device: torch.device) -> None:
        self.elements = elements
        self.device = device
        self._numbers = torch.Generator().manual_seed(SEED)
        torch.manual_seed(SEED)  # for modules' parameters

    @property
    def side(self) -> int:
        """Rows, and columns, of a square matrix."""
        return math.isqrt(self.elements)

    @property
    def batch(self) -> int:
        """Images or sequences: 1, 4 and 16 at the sweep's sizes."""
        return max(1, self.side // 64)

    def rows(self, width: int) -> int:
        """Rows of a matrix with `width` columns."""
        return max(1, self.elements // width)

    def normal(self, *shape: int) -> Tensor:
        """Standard normal numbers; in one dimension unless there is a shape, like all that follow."""
        return torch.randn(shape or (self.elements,), generator=self._numbers).to(self.device)

    def positive(self, *shape: int) -> Tensor:
        """Uniform numbers from 0.5 to 1.5."""
        return (torch.rand(shape or (self.elements,), generator=self._numbers) + 0.5).to(self.device)

    def distinct(self, *shape: int) -> Tensor:
        """Numbers without ties, so that sorting has one result; exact in float32 up to 2^24 elements."""
        numbers = torch.randperm(math.prod(shape) if shape else self.elements, generator=self._numbers)
        return numbers.float().reshape(shape or (-1,)).to(self.device)

    def integers(self, below: int, *shape: int) -> Tensor:
        return torch.randint(below, shape or (self.elements,), generator=self._numbers).to(self.device)

    def flags(self, *shape: int) -> Tensor:
        return self.integers(2, *shape).bool()

    def matrix(self) -> Tensor:
        return self.normal(self.side, self.side)

    def images(self, channels: int = 16) -> Tensor:
        """Square images: (1, 16, 8, 8), (4, 16, 32, 32) and (16, 16, 64, 64) at the sweep's sizes."""
        height = math.isqrt(self.elements // channels // self.batch)
        return self.normal(self.batch, channels, height, height)


Make = Callable[[Inputs], Call]
"""Makes the inputs and returns the call that is timed. Its result is compared."""


@dataclass(frozen=True)
class Operator:
    """An operator of the sweep. `random`: only the types and shapes of results are compared."""

    family: str
    name: str
    make: Make
    random: bool = False


def operators(family: str, makes: Mapping[str, Make], random: Collection[str] = ()) -> list[Operator]:
    return [Operator(family, name, make, name in random) for name, make in makes.items()]


def unary(function: Callable[[Tensor], object]) -> Make:
    """The function of a vector of normal numbers."""
    return lambda inputs: partial(function, inputs.normal())


def of_positive(function: Callable[[Tensor], object]) -> Make:
    return lambda inputs: partial(function, inputs.positive())


def of_distinct(function: Callable[[Tensor], object]) -> Make:
    return lambda inputs: partial(function, inputs.distinct())


def of_matrix(function: Callable[[Tensor], object]) -> Make:
    """The function of a square matrix of normal numbers."""
    return lambda inputs: partial(function, inputs.matrix())


def binary(function: Callable[[Tensor, Tensor], object]) -> Make:
    return lambda inputs: partial(function, inputs.normal(), inputs.normal())
