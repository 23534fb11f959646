"""Sparse and nested tensors inside expressions whose results are dense, and tensors as another process gets them."""

from __future__ import annotations

import torch

from ..pool import Draft, Pool
from .operation import operation

KINDS = (torch.float32, torch.float32, torch.float64)


def _matrix(pool: Pool) -> tuple[str, int, int, torch.dtype]:
    """A matrix of the pool or a new one, its numbers of rows and columns, and its dtype."""
    found = pool.names(lambda x: x.dim() == 2 and x.dtype in KINDS and 0 < x.numel() <= 500)
    if found and pool.chance.random() < 0.7:
        name = pool.chance.choice(found)
        return name, *pool[name].shape, pool[name].dtype
    rows, columns, dtype = pool.chance.randint(1, 6), pool.chance.randint(1, 6), pool.chance.choice(KINDS)
    return pool.make((rows, columns), dtype), rows, columns, dtype


@operation(2)
def sparse(pool: Pool) -> Draft:
    x, rows, columns, dtype = _matrix(pool)
    count = pool.chance.randint(0, 9)
    places = f"torch.stack([{pool.indices(rows, (count,))}, {pool.indices(columns, (count,))}])"
    coo = f"torch.sparse_coo_tensor({places}, {pool.make((count,), dtype)}, ({rows}, {columns}))"
    layout = pool.chance.choice(("to_sparse", "to_sparse_csr", "to_sparse_csc"))
    return Draft(
        pool.chance.choice(
            (
                f"{coo}.to_dense()",
                f"{coo}.coalesce().values()",
                f"{coo}.coalesce().indices().contiguous()",
                f"torch.sparse.sum({coo}, {pool.chance.randint(0, 1)}).to_dense()",
                f"torch.sparse.mm({coo}, {pool.make((columns, 3), dtype)})",
                f"({coo} + {coo}).to_dense()",
                f"{coo}.t().to_dense()",
                f"{x} + {coo}",
                f"{x}.relu().{layout}().to_dense()",
                f"({x}.relu().{layout}() * 2).to_dense()",
                f"{x}.relu().{layout}() @ {pool.make((columns, 2), dtype)}",
                f"{x}.relu().to_sparse_csr().crow_indices()",
                f"{x}.sparse_mask({coo}.coalesce()).to_dense()",
                f"torch.sparse.softmax({coo}, 1).to_dense()",
            )
        )
    )


@operation(2)
def nested(pool: Pool) -> Draft:
    dtype, width = pool.chance.choice(KINDS), pool.chance.randint(1, 5)
    parts = [pool.make((pool.chance.randint(1, 5), width), dtype) for _ in range(pool.chance.randint(1, 3))]
    layout = pool.chance.choice(("torch.jagged", "torch.strided"))
    made = f"torch.nested.as_nested_tensor([{', '.join(parts)}], layout={layout})"
    weight = pool.make((3, width), dtype)
    padded = "torch.nested.to_padded_tensor({}, -1.0)"
    return Draft(
        pool.chance.choice(
            (
                padded.format(made),
                padded.format(f"{made} * 2"),
                padded.format(f"F.linear({made}, {weight})"),
                padded.format(f"{made}.relu()"),
                padded.format(f"F.layer_norm({made}, ({width},))"),
                padded.format(f"torch.softmax({made}, -1)"),
                padded.format(f"{made} + {made}"),
                f"{made}.unbind()",
                f"{made}.sum()" if "jagged" in layout else f"{made}.unbind()[0].sum()",
            )
        )
    )


@operation(0.3)
def sent(pool: Pool) -> Draft:
    """What a reader of a torch.multiprocessing.Queue gets."""
    x = pool.pick(lambda x: not x.requires_grad and x.numel() > 0 and not x.is_conj() and not x.is_neg())
    return Draft(f"stage.sent({x})")
