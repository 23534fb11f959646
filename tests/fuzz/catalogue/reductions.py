"""Reductions, sorting, cumulative operations and matrix products."""

from __future__ import annotations

from ..pool import FLOATS, Draft, Pool, Unfit
from .operation import operation, with_out

# Medians get dense tensors only: along a dimension of stride 0 stock CPU's kernels read uninitialised memory.
ALONG = (
    "torch.sum({x}, {d}, keepdim={k})", "torch.mean({x}, {d}, keepdim={k})", "torch.amax({x}, {d}, keepdim={k})",
    "torch.amin({x}, {d})", "torch.max({x}, {d}, keepdim={k})", "torch.min({x}, {d})", "torch.argmax({x}, {d})",
    "torch.argmin({x}, {d}, keepdim={k})", "torch.all({x}, {d})", "torch.any({x}, {d}, keepdim={k})",
    "torch.prod({x}, {d})", "torch.cumsum({x}, {d})", "torch.cumprod({x}, {d})", "torch.logsumexp({x}, {d})",
    "torch.var({x}, {d}, correction=0)", "torch.std({x}, {d}, correction=0)", "torch.linalg.vector_norm({x}, 2, {d})",
    "torch.softmax({x}, {d})", "torch.log_softmax({x}, {d})", "torch.sort({x}, dim={d}, stable=True)",
    "torch.mode({x}, {d})", "torch.argsort({x}, dim={d}, stable=True)", "torch.cummax({x}, {d})",
    "torch.cummin({x}, {d})", "torch.nansum({x}, {d})", "torch.topk({x}, 1, {d})", "torch.kthvalue({x}, 1, {d})",
    "torch.median({x}.contiguous(), {d})", "torch.std_mean({x}, {d})", "torch.count_nonzero({x}, {d})",
    "torch.nanmedian({x}.contiguous(), {d})",
    "torch.logcumsumexp({x}, {d})", "torch.diff({x}, dim={d})", "torch.renorm({x}, 2, {d}, 1)",
    "torch.aminmax({x}, dim={d})", "torch.norm({x}, 1, {d})",
)  # fmt: skip
WHOLE = (
    "torch.sum({x})", "torch.mean({x})", "torch.max({x})", "torch.min({x})", "torch.argmax({x})", "torch.all({x})",
    "torch.any({x})", "torch.prod({x})", "torch.var({x}, correction=0)", "torch.linalg.vector_norm({x})",
    "torch.median({x})", "torch.sum({x}, dtype=torch.float64)", "torch.unique({x})", "torch.nonzero({x})",
    "{x}[{x} != 0]", "torch.aminmax({x})", "torch.masked_select({x}, {x} == {x})",
    "torch.unique({x}, return_inverse=True, return_counts=True)", "torch.unique_consecutive({x})",
    "torch.histc({x}.nan_to_num(0, 1, 1) + 0.0, 5, -2, 2)", "torch.trace({x})",
    "torch.bincount({x}.flatten().nan_to_num(0, 9, 0).clamp(0, 9).to(torch.int64))",
    "torch.nonzero({x}, as_tuple=True)", "{x}.flatten()[: int({x}.count_nonzero())]", "torch.argwhere({x})",
    "torch.full((), {x}.numel(), device=stage.device)",
)  # fmt: skip
SMOOTH = tuple(
    code for code in ALONG if any(word in code for word in ("sum(", "mean(", "softmax", "std_mean", "cumprod"))
)


@operation(6)
def along(pool: Pool) -> Draft:
    if pool.grad and pool.chance.random() < 0.6:
        x = pool.floating(least=1)
        return Draft(pool.chance.choice(SMOOTH).format(x=x, d=pool.dim(x), k=True))
    x = pool.pick(lambda x: x.dim() > 0)
    return Draft(pool.chance.choice(ALONG).format(x=x, d=pool.dim(x), k=pool.chance.random() < 0.5))


@operation(3)
def whole(pool: Pool) -> Draft:
    return Draft(pool.chance.choice(WHOLE).format(x=pool.pick()))


@operation(2)
def into_out(pool: Pool) -> Draft:
    """out= of another shape, which is resized, or of another type, to which the result is cast or which is refused."""
    x = pool.pick(lambda x: x.dim() > 0 and not x.requires_grad)
    out = pool.writable(lambda x: not x.requires_grad and x._base is None)
    function = pool.chance.choice(("sum", "amax", "cumsum", "mean", "prod", "argmax", "logsumexp", "nansum", "any"))
    return with_out(pool, out, f"torch.{function}({x}, {pool.dim(x)}, out={out})", x)


@operation(6)
def product(pool: Pool) -> Draft:
    x = pool.pick(lambda x: x.dim() in (1, 2, 3))
    tensor, chance = pool[x], pool.chance
    dtype, size, width = tensor.dtype, tensor.size(-1), chance.randint(1, 9)
    vector, square = pool.make((size,), dtype), pool.make((size, width), dtype)
    choices = [f"torch.matmul({x}, {square})", f"{x} @ {vector}", f"torch.tensordot({x}, {square}, 1)"]
    if tensor.dim() == 1:
        choices += [
            f"torch.dot({x}, {vector})",
            f"torch.outer({x}, {vector})",
            f"torch.kron({x}, {vector})",
            f"torch.vdot({x}, {x})",
        ]
        choices += [f"torch.addmv({x}, {pool.make((size, width), dtype)}, {pool.make((width,), dtype)})"]
    elif tensor.dim() == 2:
        bias, rows = pool.make((width,), dtype), tensor.size(0)
        choices += [
            f"torch.mm({x}, {square})",
            f"torch.mm({x}.mT, {x})",
            f"torch.addmm({bias}, {x}, {square}, alpha=2)",
        ]
        choices += [f"F.linear({x}, {pool.make((width, size), dtype)}, {bias})", f"torch.mv({x}, {vector})"]
        choices += [f"torch.addr({x}, {pool.make((rows,), dtype)}, {vector})", f"torch.einsum('ij,kj->ik', {x}, {x})"]
        choices += [f"torch.cdist({x}, {x})", f"torch.linalg.multi_dot([{x}, {square}])", f"torch.triu({x}, 1)"]
    else:
        batch = tensor.size(0)
        third = pool.make((batch, size, width), dtype)
        choices += [f"torch.bmm({x}, {third})", f"torch.baddbmm({pool.make((width,), dtype)}, {x}, {third}, beta=0.5)"]
        choices += [f"torch.einsum('bij,bjk->bik', {x}, {third})", f"torch.bmm({x}, {x}.mT)"]
    return Draft(chance.choice(choices))


@operation(1)
def product_in_place(pool: Pool) -> Draft:
    x = pool.writable(lambda x: x.dim() == 2)
    (rows, columns), dtype, inner = pool[x].shape, pool[x].dtype, pool.chance.randint(1, 5)
    return Draft(
        f"{x}.addmm_({pool.make((rows, inner), dtype)}, {pool.make((inner, columns), dtype)}, beta=0.5)",
        makes=False,
        writes=(x,),
    )


@operation(1)
def linear_algebra(pool: Pool) -> Draft:
    """Operations on well-conditioned matrices. Eigenvectors are left out, because their sign is not defined."""
    size, dtype = pool.chance.randint(1, 6), pool.chance.choice(FLOATS[:4])
    matrix = f"({pool.make((size, size), dtype)} + 9 * torch.eye({size}, dtype={dtype}, device=stage.device))"
    vector = pool.make((size, 2), dtype)
    if not size:
        raise Unfit
    return Draft(
        pool.chance.choice(
            (
                f"torch.linalg.inv({matrix})",
                f"torch.linalg.det({matrix})",
                f"torch.linalg.solve({matrix}, {vector})",
                f"torch.linalg.lu_factor({matrix})",
                f"torch.linalg.cholesky({matrix} @ {matrix}.mT)" if size == 1 else f"torch.linalg.qr({matrix})",
                f"torch.fft.fft({vector}, dim=0)",
                f"torch.fft.irfft(torch.fft.rfft({vector}, dim=0), dim=0)",
            )
        )
    )
