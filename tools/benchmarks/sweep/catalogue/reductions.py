"""Reductions, scans and sorting."""

from __future__ import annotations

from functools import partial

import torch

from benchmarks.sweep.operator import Make, of_distinct, of_matrix, operators, unary

REDUCTIONS: dict[str, Make] = {
    "sum": unary(torch.sum),
    "sum dim 0": of_matrix(lambda x: x.sum(0)),
    "sum dim 1": of_matrix(lambda x: x.sum(1)),
    "sum int64": lambda inputs: partial(torch.sum, inputs.integers(100)),
    "mean": unary(torch.mean),
    "mean dim 1": of_matrix(lambda x: x.mean(1)),
    "var": unary(torch.var),
    "var dim 0": of_matrix(lambda x: x.var(0)),
    "std dim 1": of_matrix(lambda x: x.std(1)),
    "any": unary(torch.any),
    "all": lambda inputs: partial(torch.all, torch.ones(inputs.elements, dtype=torch.bool, device=inputs.device)),
    "amax": unary(torch.amax),
    "max dim 1": lambda inputs: partial(torch.max, inputs.distinct(inputs.side, inputs.side), 1),
    "min dim 0": lambda inputs: partial(torch.min, inputs.distinct(inputs.side, inputs.side), 0),
    "aminmax": unary(torch.aminmax),
    "argmax": of_distinct(torch.argmax),
    "argmax dim 1": lambda inputs: partial(torch.argmax, inputs.distinct(inputs.side, inputs.side), 1),
    "count_nonzero": lambda inputs: partial(torch.count_nonzero, inputs.integers(3)),
    "logsumexp dim 1": of_matrix(lambda x: x.logsumexp(1)),
    "vector_norm": unary(torch.linalg.vector_norm),
    "prod dim 1": lambda inputs: partial(torch.prod, inputs.positive(inputs.side, inputs.side), 1),
}
SCANS: dict[str, Make] = {
    "cumsum": unary(lambda x: x.cumsum(0)),
    "cumsum dim 0": of_matrix(lambda x: x.cumsum(0)),
    "cumsum dim 1": of_matrix(lambda x: x.cumsum(1)),
    "cumprod dim 1": lambda inputs: partial(torch.cumprod, inputs.positive(inputs.side, inputs.side), 1),
    "cummax dim 1": lambda inputs: partial(torch.cummax, inputs.distinct(inputs.side, inputs.side), 1),
    "logcumsumexp dim 1": of_matrix(lambda x: x.logcumsumexp(1)),
    "diff": unary(torch.diff),
}
SORTING: dict[str, Make] = {
    "sort": of_distinct(torch.sort),
    "sort dim 0": lambda inputs: partial(torch.sort, inputs.distinct(inputs.side, inputs.side), 0),
    "sort dim 1": lambda inputs: partial(torch.sort, inputs.distinct(inputs.side, inputs.side), 1),
    "argsort": of_distinct(torch.argsort),
    "topk": of_distinct(lambda x: x.topk(10)),
    "topk dim 1": lambda inputs: partial(torch.topk, inputs.distinct(inputs.side, inputs.side), 5, 1),
    "kthvalue": of_distinct(lambda x: x.kthvalue(x.numel() // 3)),
    "median": of_distinct(torch.median),
    "median dim 1": lambda inputs: partial(torch.median, inputs.distinct(inputs.side, inputs.side), 1),
    "unique": lambda inputs: partial(torch.unique, inputs.integers(1000)),
    "searchsorted": lambda inputs: partial(torch.searchsorted, inputs.normal(1000).sort().values, inputs.normal()),
    "bincount": lambda inputs: partial(torch.bincount, inputs.integers(1000)),
    "histc": unary(lambda x: torch.histc(x, 64, -4, 4)),
}

OPERATORS = [
    *operators("reductions", REDUCTIONS),
    *operators("scans", SCANS),
    *operators("sorting", SORTING),
]
