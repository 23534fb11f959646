"""Operations that combine several tensors, and gradients."""

from __future__ import annotations

from ..pool import Draft, Pool, Unfit
from .operation import operation, with_out


@operation(5)
def together(pool: Pool) -> Draft:
    x = pool.pick(lambda x: x.dim() > 0)
    shape, chance, dim = pool[x].shape, pool.chance, pool.dim(x)
    uniform = pool.names(lambda other: other.shape == shape)
    others = [chance.choice(uniform) for _ in range(chance.randint(0, 2))]
    others.append(pool.make(shape, pool[x].dtype if chance.random() < 0.7 else pool.dtype()))
    listed = f"[{', '.join([x, *others])}]"
    return Draft(
        chance.choice(
            (
                f"torch.cat({listed}, {dim})",
                f"torch.stack({listed}, {dim})",
                f"torch.hstack({listed})",
                f"torch.vstack({listed})",
                f"torch.dstack({listed})",
                f"torch.broadcast_tensors({x}, {pool.other(x, numbers=False)})",
                f"torch.block_diag({x}, {others[-1]})",
            )
        )
    )


@operation(1)
def together_into_out(pool: Pool) -> Draft:
    out = pool.writable(lambda x: not x.requires_grad and x._base is None)
    x = pool.pick(lambda x: x.dim() > 0 and not x.requires_grad)
    return with_out(pool, out, f"torch.cat([{x}, {x}], {pool.dim(x)}, out={out})", x)


@operation(14)
def gradients(pool: Pool) -> Draft:
    """Gradients of some tensors with respect to the leaves."""
    if not pool.grad:
        raise Unfit
    leaves = pool.names(lambda x: x.is_leaf and x.requires_grad)
    ends = pool.names(lambda x: x.requires_grad and not x.is_leaf and not x.is_complex() and x.numel() > 0)
    if not leaves or not ends:
        raise Unfit
    ends = pool.chance.sample(ends, min(len(ends), pool.chance.randint(1, 3)))
    total = " + ".join(f"{end}.double().sum()" for end in ends)
    if pool.chance.random() < 0.3:
        statement = f"({total}).backward(retain_graph=True)"
        return Draft(statement, makes=False, gathers=True)
    retain = pool.chance.random() < 0.7
    found = f"torch.autograd.grad({total}, [{', '.join(leaves)}], retain_graph={retain}, materialize_grads=True)"
    # The gradients are copied. Which ones are zeros without memory depends on the graph, which differs between devices:
    # on the CPU t.cpu() adds no node.
    return Draft(f"[g.clone(memory_format=torch.contiguous_format) for g in {found}]", gathers=True)


@operation(4)
def accumulated(pool: Pool) -> Draft:
    """The gradient that backward() left in a leaf."""
    leaf = pool.pick(lambda x: x.is_leaf and x.grad is not None)
    return Draft(f"{leaf}.grad.clone()")


@operation(4)
def descent(pool: Pool) -> Draft:
    """An optimizer's step, which does not change the version counter."""
    leaf = pool.writable(lambda x: x.is_leaf and x.grad is not None)
    return Draft(f"{leaf}.data.add_({leaf}.grad, alpha=-0.125)", makes=False, writes=(leaf,))
