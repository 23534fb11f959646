"""Reading and writing by index, with indices that are valid."""

from __future__ import annotations

from ..pool import Draft, Pool
from .operation import in_place, operation


@operation(5)
def read(pool: Pool) -> Draft:
    x = pool.pick(lambda x: x.dim() > 0)
    tensor, chance, dim = pool[x], pool.chance, pool.dim(x)
    size, count = tensor.size(dim), chance.randint(1, 5)
    some, same = pool.indices(size, (count,)), pool.indices(size, tensor.shape)
    first = pool.indices(tensor.size(0), (2, 3))
    return Draft(
        chance.choice(
            (
                f"torch.index_select({x}, {dim}, {some})",
                f"torch.gather({x}, {dim}, {same})",
                f"torch.take_along_dim({x}, {same}, {dim})",
                f"{x}[{first}]",
                f"{x}[{pool.indices(tensor.size(0), (2,))}, ..., None]",
                f"{x}[..., {pool.indices(tensor.size(-1), (3,))}]",
                f"torch.take({x}, {pool.indices(tensor.numel(), (2, 2))})",
                f"torch.roll({x}, {count}, {dim})",
                f"torch.repeat_interleave({x}, 2, {dim})",
                f"{x}.repeat({', '.join(['2'] * tensor.dim())})",
                f"torch.tril({x}, {chance.randint(-1, 1)})",
                f"torch.rot90({x})" if tensor.dim() > 1 else f"torch.diag({x})",
                f"torch.searchsorted({x}.sort().values.contiguous(), {pool.make(tensor.shape, tensor.dtype)})",
                f"torch.isin({x}, {pool.make((3,), tensor.dtype)})",
            )
        )
    )


@operation(5)
def write(pool: Pool) -> Draft:
    x = pool.writable(lambda x: x.dim() > 0)
    tensor, chance, dim = pool[x], pool.chance, pool.dim(x)
    size, dtype, shape = tensor.size(dim), tensor.dtype, tuple(tensor.shape)
    count = chance.randint(1, 4)
    part = list(shape)
    part[dim] = count
    some, same, source = pool.indices(size, (count,)), pool.indices(size, shape), pool.make(shape, dtype)
    # Each index occurs once, because the order of two writes to the same element is not defined.
    once = f"torch.arange({min(count, size)}, device=stage.device)"
    part_once = [*shape]
    part_once[dim] = min(count, size)
    code = chance.choice(
        (
            f"{x}.index_fill_({dim}, {some}, 2)",
            f"{x}.index_add_({dim}, {some}, {pool.make(part, dtype)}, alpha=2)",
            f"{x}.index_copy_({dim}, {once}, {pool.make(part_once, dtype)})",
            f"{x}.scatter_({dim}, {same}, 3)",
            f"{x}.scatter_add_({dim}, {same}, {source})",
            f"{x}.scatter_reduce_({dim}, {same}, {source}, 'amax')",
            f"{x}.index_put_(({pool.indices(tensor.size(0), (3,))},), {pool.make((1,), dtype)})",
            f"{x}.index_put_(({pool.indices(tensor.size(0), (4,))},), {pool.make((), dtype)}, accumulate=True)",
            f"{x}.masked_fill_(stage.make({pool.seed()}, {shape}, torch.bool), 1)",
            f"{x}.masked_scatter_(stage.make({pool.seed()}, {shape}, torch.bool), {source})",
            f"{x}.put_({pool.indices(tensor.numel(), (1,))}, {pool.make((1,), dtype)})",
            f"{x}.__setitem__(stage.make({pool.seed()}, {shape}, torch.bool), 4)",
            f"{x}.__setitem__(0, {pool.make(shape[1:], dtype)})",
            f"{x}.__setitem__((..., -1), 2)",
            f"{x}.triu_()",
            f"{x}.cumsum_({dim})",
            f"{x}.fill_diagonal_(7)",
        )
    )
    draft = in_place(pool, x, code, "")
    return Draft(code, makes=draft.makes and "__setitem__" not in code, writes=draft.writes)
