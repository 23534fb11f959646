"""Factories, copies, indexing, and operators that move elements."""

from __future__ import annotations

from functools import partial

import torch
from torch.nn import functional

from benchmarks.interleave import Call
from benchmarks.sweep.operator import Inputs, Make, of_matrix, operators, unary

FACTORIES: dict[str, Make] = {
    "empty": lambda inputs: partial(torch.empty, inputs.elements, device=inputs.device),
    "zeros": lambda inputs: partial(torch.zeros, inputs.elements, device=inputs.device),
    "ones": lambda inputs: partial(torch.ones, inputs.elements, device=inputs.device),
    "ones int64": lambda inputs: partial(torch.ones, inputs.elements, dtype=torch.int64, device=inputs.device),
    "full": lambda inputs: partial(torch.full, (inputs.elements,), 1.5, device=inputs.device),
    "arange": lambda inputs: partial(torch.arange, inputs.elements, device=inputs.device),
    "linspace": lambda inputs: partial(torch.linspace, 0, 1, inputs.elements, device=inputs.device),
    "eye": lambda inputs: partial(torch.eye, inputs.side, device=inputs.device),
    "zeros_like": unary(torch.zeros_like),
}
RANDOM: dict[str, Make] = {
    "rand": lambda inputs: partial(torch.rand, inputs.elements, device=inputs.device),
    "randn": lambda inputs: partial(torch.randn, inputs.elements, device=inputs.device),
    "randint": lambda inputs: partial(torch.randint, 1000, (inputs.elements,), device=inputs.device),
    "randperm": lambda inputs: partial(torch.randperm, inputs.elements, device=inputs.device),
    "bernoulli": lambda inputs: partial(torch.bernoulli, torch.full((inputs.elements,), 0.3, device=inputs.device)),
    "exponential in place": unary(lambda x: x.exponential_()),
    "multinomial": lambda inputs: partial(torch.multinomial, inputs.positive(inputs.rows(64), 64), 1),
    "dropout": unary(lambda x: functional.dropout(x, 0.3)),
}


def _to_device(inputs: Inputs) -> Call:
    """A copy into a tensor, since `to` copies nothing on stock cpu."""
    source = inputs.normal().cpu()
    return partial(torch.empty(inputs.elements, device=inputs.device).copy_, source)


def _to_host(inputs: Inputs) -> Call:
    return partial(torch.empty(inputs.elements).copy_, inputs.normal())


def _halves(inputs: Inputs) -> list[torch.Tensor]:
    return list(inputs.matrix().chunk(2))


COPIES: dict[str, Make] = {
    "host to device": _to_device,
    "device to host": _to_host,
    "clone": unary(torch.clone),
    "copy in place": lambda inputs: partial(torch.empty(inputs.elements, device=inputs.device).copy_, inputs.normal()),
    "to float64": unary(lambda x: x.to(torch.float64)),
    "to bfloat16": unary(lambda x: x.to(torch.bfloat16)),
    "to int64": unary(lambda x: x.to(torch.int64)),
    "contiguous transposed": of_matrix(lambda x: x.t().contiguous()),
    "contiguous strided": of_matrix(lambda x: x[:, ::2].contiguous()),
    "cat": lambda inputs: partial(torch.cat, _halves(inputs)),
    "cat dim 1": lambda inputs: partial(torch.cat, _halves(inputs), 1),
    "stack": lambda inputs: partial(torch.stack, _halves(inputs)),
    "repeat": lambda inputs: partial(inputs.normal(inputs.rows(4)).repeat, 4),
    "repeat_interleave": lambda inputs: partial(torch.repeat_interleave, inputs.normal(inputs.rows(4)), 4),
    "pad": of_matrix(lambda x: functional.pad(x, (1, 1, 1, 1))),
    "pad reflect": lambda inputs: partial(functional.pad, inputs.images(), (1, 1, 1, 1), "reflect"),
}


def _scatter_add(inputs: Inputs) -> Call:
    target = torch.zeros(inputs.side, inputs.side, device=inputs.device)
    return partial(target.scatter_add, 0, inputs.integers(inputs.side, inputs.side, inputs.side), inputs.matrix())


def _scatter(inputs: Inputs) -> Call:
    target = torch.zeros(inputs.elements, device=inputs.device)
    return partial(target.scatter, 0, inputs.distinct().long(), inputs.normal())


def _index_add(inputs: Inputs) -> Call:
    target = torch.zeros(inputs.side, inputs.side, device=inputs.device)
    return partial(target.index_add, 0, inputs.integers(inputs.side, inputs.side), inputs.matrix())


def _index_put(inputs: Inputs) -> Call:
    target, chosen = inputs.normal(), inputs.distinct().long()
    return partial(target.index_put_, (chosen,), inputs.normal())


def _index_copy(inputs: Inputs) -> Call:
    target = inputs.matrix()
    return partial(target.index_copy, 0, inputs.distinct(inputs.side).long(), inputs.matrix())


def _by_index(inputs: Inputs) -> Call:
    x, chosen = inputs.normal(), inputs.integers(inputs.elements)
    return lambda: x[chosen]


def _assign_slice(inputs: Inputs) -> Call:
    x, y = inputs.matrix(), inputs.normal(inputs.side, inputs.side // 2)

    def assign() -> torch.Tensor:
        x[:, : inputs.side // 2] = y
        return x

    return assign


INDEXING: dict[str, Make] = {
    "index_select dim 0": lambda inputs: partial(
        torch.index_select, inputs.matrix(), 0, inputs.integers(inputs.side, inputs.side)
    ),
    "index_select dim 1": lambda inputs: partial(
        torch.index_select, inputs.matrix(), 1, inputs.integers(inputs.side, inputs.side)
    ),
    "gather": lambda inputs: partial(
        torch.gather, inputs.matrix(), 1, inputs.integers(inputs.side, inputs.side, inputs.side)
    ),
    "take": lambda inputs: partial(torch.take, inputs.normal(), inputs.integers(inputs.elements)),
    "x[indices]": _by_index,
    "scatter": _scatter,
    "scatter_add": _scatter_add,
    "index_add": _index_add,
    "index_copy": _index_copy,
    "index_put in place": _index_put,
    "x[x > 1]": unary(lambda x: x[x > 1]),
    "masked_select": lambda inputs: partial(torch.masked_select, inputs.normal(), inputs.flags()),
    "nonzero": lambda inputs: partial(torch.nonzero, inputs.integers(4)),
    "tril": of_matrix(torch.tril),
    "one_hot": lambda inputs: partial(functional.one_hot, inputs.integers(32, inputs.rows(32)), 32),
    "assign a slice": _assign_slice,
}
SHAPES: dict[str, Make] = {
    "flip": unary(lambda x: x.flip(0)),
    "flip dim 1": of_matrix(lambda x: x.flip(1)),
    "roll": unary(lambda x: x.roll(7)),
    "roll dim 1": of_matrix(lambda x: x.roll(3, 1)),
    "rot90": of_matrix(torch.rot90),
    "upsample nearest": lambda inputs: partial(functional.interpolate, inputs.images(), scale_factor=2),
    "upsample bilinear": lambda inputs: partial(
        functional.interpolate, inputs.images(), scale_factor=2, mode="bilinear", align_corners=False
    ),
    "pixel_shuffle": lambda inputs: partial(functional.pixel_shuffle, inputs.images(), 2),
    "unfold": lambda inputs: partial(functional.unfold, inputs.images(), 3, padding=1),
}

OPERATORS = [
    *operators("factories", FACTORIES | RANDOM, random={"empty", *RANDOM}),
    *operators("copies", COPIES),
    *operators("indexing", INDEXING),
    *operators("shapes", SHAPES),
]
