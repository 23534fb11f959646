"""All operators of the sweep, by name; this package has a module for each kind of them."""

from __future__ import annotations

from benchmarks.sweep.catalogue import elementwise, layers, memory, products, reductions, training

OPERATORS = [
    *elementwise.OPERATORS,
    *reductions.OPERATORS,
    *memory.OPERATORS,
    *products.OPERATORS,
    *layers.OPERATORS,
    *training.OPERATORS,
]
CATALOGUE = {operator.name: operator for operator in OPERATORS}
SIZES = (1 << 10, 1 << 16, 1 << 20)  # elements

# Of each family what depends most on one decision of the device: who waits, who copies, who gets threads.
REPRESENTATIVE = (
    "relu",
    "add",
    "isnan",
    "sum",
    "argmax",
    "cumsum dim 0",
    "sort",
    "topk",
    "zeros",
    "randn",
    "randperm",
    "host to device",
    "cat",
    "nonzero",
    "x[x > 1]",
    "flip",
    "linear",
    "conv2d depthwise backward",
    "AdamW",
    "x.mul(2).sum().item()",
)
