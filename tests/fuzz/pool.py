"""The tensors of a program while it is generated, and the choice of operands that fit together."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

FLOATS = (torch.float32, torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.float16)
DTYPES = (*FLOATS, torch.complex64, torch.int64, torch.int64, torch.int32, torch.int16, torch.uint8, torch.bool)
LARGEST = 4096  # elements; many small steps test order and aliasing better than few large ones


class Unfit(Exception):
    """The pool has no operands for an operation at the moment."""


@dataclass(frozen=True)
class Draft:
    """A step that has not been tried: an expression, or a statement without a result."""

    code: str
    makes: bool = True
    writes: tuple[str, ...] = ()
    resizes: tuple[str, ...] = ()
    gathers: bool = False
    blocks: bool = False
    mode: str = ""


class Pool:
    """The living tensors by name, on the CPU. Those in `shared` are never written to."""

    def __init__(self, chance: random.Random, grad: bool) -> None:
        self.chance = chance
        self.grad = grad
        self.tensors: dict[str, Tensor] = {}
        self.shared: set[str] = set()

    def __getitem__(self, name: str) -> Tensor:
        return self.tensors[name]

    def names(self, fits: Callable[[Tensor], bool] = lambda _: True) -> list[str]:
        return [name for name, tensor in self.tensors.items() if fits(tensor)]

    def pick(self, fits: Callable[[Tensor], bool] = lambda _: True) -> str:
        """A random tensor that fits, more often a young one. Unfit: there is none."""
        found = self.names(fits)
        if not found:
            raise Unfit
        return found[max(self.chance.randrange(len(found)), self.chance.randrange(len(found)))]

    def floating(self, least: int = 0, most: int = 9) -> str:
        """A real floating-point tensor with `least` to `most` dimensions."""
        return self.pick(lambda x: x.is_floating_point() and least <= x.dim() <= most)

    def writable(self, fits: Callable[[Tensor], bool] = lambda _: True) -> str:
        """A tensor whose elements do not overlap, and that no other thread reads."""
        return self.pick(lambda x: fits(x) and not _overlaps(x) and not self._is_shared(x))

    def _is_shared(self, tensor: Tensor) -> bool:
        return any(_same_memory(tensor, self.tensors[name]) for name in self.shared)

    def related(self, name: str) -> list[str]:
        """The names of all tensors that share the storage of `name`, including itself."""
        return [other for other in self.tensors if _same_memory(self[name], self[other])]

    def beside(self, name: str, code: str) -> bool:
        """Whether `code` does not use the storage of `name`. Reading memory during a write has no defined result."""
        return not any(other in code for other in self.related(name))

    def shape(self, most: int = 4) -> tuple[int, ...]:
        sizes = [self.chance.choice((0, 1, 1, 2, 3, 4, 5, 6, 8, 17)) for _ in range(self.chance.randint(0, most))]
        if sizes and self.chance.random() < 0.05:
            sizes = [64, 33]
        while math.prod(sizes) > LARGEST:
            sizes.pop()
        if self.chance.random() < 0.9:  # few steps use empty tensors
            sizes = [max(1, size) for size in sizes]
        return tuple(sizes)

    def dtype(self) -> torch.dtype:
        return self.chance.choice(FLOATS if self.grad and self.chance.random() < 0.8 else DTYPES)

    def seed(self) -> int:
        return self.chance.randrange(1000)

    def make(self, shape: Sequence[int], dtype: torch.dtype) -> str:
        return f"stage.make({self.seed()}, {tuple(shape)}, {dtype})"

    def indices(self, high: int, shape: Sequence[int]) -> str:
        """Valid indices of a dimension of size `high`. Unfit: it is empty."""
        if high == 0 and 0 not in shape:
            raise Unfit
        return f"stage.indices({self.seed()}, {max(high, 1)}, {tuple(shape)})"

    def dim(self, name: str) -> int:
        """A dimension, counted from either end. Unfit: the tensor has none."""
        count = self[name].dim()
        if not count:
            raise Unfit
        return self.chance.randrange(-count, count)

    def other(self, name: str, numbers: bool = True) -> str:
        """An operand that broadcasts with `name`: a tensor, a number, or a CPU tensor without dimensions."""
        shape, kind = tuple(self[name].shape), self.chance.random()
        if kind < 0.15 and numbers:
            return self.chance.choice(("2", "-1", "0.5", "3.25", "True", "torch.tensor(1.5)", "torch.tensor(3)"))
        if kind < 0.65:
            fitting = self.names(lambda x: _broadcasts(shape, tuple(x.shape)))
            return self.chance.choice(fitting or [name])
        if kind < 0.75:
            return self.make(shape, self.dtype())
        smaller = [size if self.chance.random() < 0.7 else 1 for size in shape]
        return self.make(smaller[self.chance.randint(0, len(smaller)) :], self.dtype())


def _broadcasts(one: Sequence[int], other: Sequence[int]) -> bool:
    try:
        shape: torch.Size = torch.broadcast_shapes(tuple(one), tuple(other))  # type: ignore[no-untyped-call]
        return shape.numel() <= LARGEST
    except RuntimeError:
        return False


def _same_memory(one: Tensor, other: Tensor) -> bool:
    return bool(one.untyped_storage()._cdata == other.untyped_storage()._cdata)


def _overlaps(tensor: Tensor) -> bool:
    """Whether two elements may overlap, judged by the sorted strides."""
    reach = 0
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1:
            if stride <= reach:
                return True
            reach += stride * (size - 1)
    return False
