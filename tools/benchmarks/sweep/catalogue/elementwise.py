"""Elementwise operators."""

from __future__ import annotations

from functools import partial

import torch
from torch.nn import functional

from benchmarks.sweep.operator import Make, binary, of_matrix, of_positive, operators, unary

ACTIVATIONS: dict[str, Make] = {
    "relu": unary(torch.relu),
    "gelu": unary(functional.gelu),
    "silu": unary(functional.silu),
    "sigmoid": unary(torch.sigmoid),
    "tanh": unary(torch.tanh),
    "softplus": unary(functional.softplus),
    "leaky_relu": unary(functional.leaky_relu),
    "elu": unary(functional.elu),
    "hardswish": unary(functional.hardswish),
    "mish": unary(functional.mish),
    "logsigmoid": unary(functional.logsigmoid),
}
UNARY: dict[str, Make] = {
    "exp": unary(torch.exp),
    "log": of_positive(torch.log),
    "sqrt": of_positive(torch.sqrt),
    "rsqrt": of_positive(torch.rsqrt),
    "reciprocal": of_positive(torch.reciprocal),
    "sin": unary(torch.sin),
    "erf": unary(torch.erf),
    "abs": unary(torch.abs),
    "neg": unary(torch.neg),
    "sign": unary(torch.sign),
    "round": unary(torch.round),
    "square": unary(torch.square),
    "isnan": unary(torch.isnan),
    "isfinite": unary(torch.isfinite),
    "nan_to_num": unary(torch.nan_to_num),
    "clamp": unary(lambda x: torch.clamp(x, -1, 1)),
    "pow 2": unary(lambda x: x.pow(2)),
    "pow 2.5": of_positive(lambda x: x.pow(2.5)),
}
BINARY: dict[str, Make] = {
    "add": binary(torch.add),
    "add in place": lambda inputs: partial(inputs.normal().add_, inputs.normal()),
    "add a number": unary(lambda x: x + 1.5),
    "add a row": lambda inputs: partial(torch.add, inputs.matrix(), inputs.normal(inputs.side)),
    "add a column": lambda inputs: partial(torch.add, inputs.matrix(), inputs.normal(inputs.side, 1)),
    "add transposed": of_matrix(lambda x: x + x.t()),
    "add bfloat16": lambda inputs: partial(torch.add, inputs.normal().bfloat16(), inputs.normal().bfloat16()),
    "add int64": lambda inputs: partial(torch.add, inputs.integers(100), inputs.integers(100)),
    "sub": binary(torch.sub),
    "mul": binary(torch.mul),
    "mul by a number": unary(lambda x: x * 1.5),
    "div": lambda inputs: partial(torch.div, inputs.normal(), inputs.positive()),
    "maximum": binary(torch.maximum),
    "atan2": binary(torch.atan2),
    "remainder": lambda inputs: partial(torch.remainder, inputs.normal(), inputs.positive()),
    "floor_divide int64": lambda inputs: partial(torch.floor_divide, inputs.integers(1000), 7),
    "eq": lambda inputs: partial(torch.eq, inputs.integers(4), inputs.integers(4)),
    "lt": binary(torch.lt),
    "gt a number": unary(lambda x: x > 1),
    "logical_and": lambda inputs: partial(torch.logical_and, inputs.flags(), inputs.flags()),
    "bitwise_xor": lambda inputs: partial(torch.bitwise_xor, inputs.integers(1000), inputs.integers(1000)),
    "lerp": lambda inputs: partial(torch.lerp, inputs.normal(), inputs.normal(), 0.3),
    "addcmul": lambda inputs: partial(torch.addcmul, inputs.normal(), inputs.normal(), inputs.normal(), value=0.5),
    "addcdiv": lambda inputs: partial(torch.addcdiv, inputs.normal(), inputs.normal(), inputs.positive(), value=0.5),
    "where": lambda inputs: partial(torch.where, inputs.flags(), inputs.normal(), inputs.normal()),
    "masked_fill": lambda inputs: partial(torch.masked_fill, inputs.normal(), inputs.flags(), 0.0),
}

OPERATORS = operators("elementwise", ACTIVATIONS | UNARY | BINARY)
