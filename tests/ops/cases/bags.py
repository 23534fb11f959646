"""Cases of embedding bags."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from ops.cases.case import Source, backward, case

aten = torch.ops.aten


def bags(source: Source, mode: str, dtype: torch.dtype = torch.float32, weighted: bool = False, **how: Any) -> Any:
    table = source.randn(9, 5, dtype=dtype)
    if how.pop("by_columns", False):
        table = source.randn(5, 9, dtype=dtype).t()
    table.requires_grad_()
    indices = source.integers(9, 12, dtype=how.pop("indices", torch.int64))
    offsets = torch.tensor([0, 3, 3, 8], dtype=how.pop("offsets", indices.dtype)).to(source.device)
    weights = source.randn(12, dtype=dtype, grad=True) if weighted else None
    y = F.embedding_bag(indices, table, offsets, mode=mode, per_sample_weights=weights, **how)
    return y, backward(y, table, weights)


@case
def bags_summed(source: Source) -> Any:
    return bags(source, "sum"), bags(source, "sum", torch.bfloat16), bags(source, "sum", torch.float64)


@case
def bags_averaged(source: Source) -> Any:
    return bags(source, "mean"), bags(source, "mean", torch.float16), bags(source, "mean", indices=torch.int32)


@case
def bags_maximal(source: Source) -> Any:
    return bags(source, "max"), bags(source, "max", padding_idx=2), bags(source, "max", include_last_offset=True)


@case
def bags_weighted(source: Source) -> Any:
    return bags(source, "sum", weighted=True), bags(source, "sum", weighted=True, padding_idx=4)


@case
def bags_of_other_layouts(source: Source) -> Any:
    return (
        bags(source, "sum", by_columns=True),
        bags(source, "mean", include_last_offset=True, scale_grad_by_freq=True),
        bags(source, "sum", indices=torch.int32, offsets=torch.int64),
    )


@case
def bags_operators(source: Source) -> Any:
    table, indices = source.randn(9, 5), source.integers(9, 12)
    offsets = torch.tensor([0, 3, 3, 8], device=source.device)
    results: list[Any] = []
    for mode in range(3):
        for last in (False, True):
            found = aten._embedding_bag(table, indices, offsets, False, mode, False, None, last)
            results += [
                found,
                aten._embedding_bag_forward_only(table, indices, offsets, False, mode, False, None, last),
            ]
    out, of_indices, sizes, maxima = aten._embedding_bag(table, indices, offsets, False, 1)
    results.append(aten._embedding_bag_dense_backward(out, indices, of_indices, sizes, maxima, 9, False, 1, None))
    empty = aten._embedding_bag(table, indices[:0], offsets * 0)
    return results, empty


@case
def bags_as_a_module(source: Source) -> Any:
    torch.manual_seed(2)
    module = torch.nn.EmbeddingBag(9, 5, mode="mean", padding_idx=0).to(source.device)
    y = module(source.integers(9, 4, 3))
    return y, backward(y, module.weight)
