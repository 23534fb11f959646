"""Views, and writes through them."""

from __future__ import annotations

import torch

from ..pool import Draft, Pool, Unfit
from .operation import operation


def _slice(pool: Pool, size: int) -> str:
    start, stop = sorted((pool.chance.randint(0, size), pool.chance.randint(0, size)))
    return f"{start}:{stop}:{pool.chance.choice((1, 1, 2))}"


def _reshaped(pool: Pool, x: str) -> str:
    """A shape with the same number of elements."""
    rest = pool[x].numel()
    sizes: list[int] = []
    for prime in (2, 3, 5, 17, 11):
        while rest and rest % prime == 0 and len(sizes) < 3 and pool.chance.random() < 0.7:
            sizes.append(prime)
            rest //= prime
    return str((*sizes, rest))


def view_of(pool: Pool, x: str) -> str:
    """The code of some view of `x`."""
    tensor, chance = pool[x], pool.chance
    choices = [f"{x}.detach()", f"{x}.unsqueeze({chance.randint(0, tensor.dim())})", f"{x}.view({_reshaped(pool, x)})"]
    choices += [f"{x}.squeeze()", f"{x}.reshape({_reshaped(pool, x)})", f"{x}.flatten()", f"{x}[...]", f"{x}[None]"]
    choices.append(f"{x}.expand({chance.randint(1, 3)}, {', '.join(['-1'] * tensor.dim())})")
    if tensor.dim():
        dim = pool.dim(x)
        size = tensor.size(dim)
        choices += [
            f"{x}.transpose({dim}, {pool.dim(x)})",
            f"{x}.permute({chance.sample(range(tensor.dim()), tensor.dim())})",
        ]
        choices += [f"{x}[{_slice(pool, tensor.size(0))}]", f"{x}[..., {_slice(pool, tensor.size(-1))}]"]
        choices += [
            f"{x}.chunk({chance.randint(1, 3)}, {dim})",
            f"{x}.movedim({dim}, {pool.dim(x)})",
            f"{x}.flip({dim})",
        ]
        choices += [f"{x}.tensor_split({chance.randint(1, 3)}, {dim})", f"{x}.split({chance.randint(1, 4)}, {dim})"]
        if size:
            choices += [f"{x}.select({dim}, {chance.randrange(-size, size)})", f"{x}.unbind({dim})"]
            choices += [
                f"{x}.narrow({dim}, {chance.randrange(size)}, 1)",
                f"{x}[{chance.randrange(tensor.size(0)) if tensor.size(0) else 'None'}]",
            ]
            choices.append(f"{x}.unfold({dim}, {chance.randint(1, size)}, {chance.randint(1, 3)})")
    if tensor.dim() >= 2:
        choices += [f"{x}.diagonal({chance.randint(-1, 1)}, 0, -1)", f"{x}.mT", f"{x}.swapaxes(0, 1)"]
    if tensor.is_complex():
        choices += 3 * [f"torch.view_as_real({x})", f"{x}.real", f"{x}.imag", f"{x}.conj()", f"{x}.conj().imag"]
    elif tensor.dtype == torch.float32 and tensor.dim() and tensor.size(-1) == 2:
        choices += 5 * [f"torch.view_as_complex({x})"]
    if tensor.dtype in (torch.float32, torch.int32) and not tensor.requires_grad:
        choices.append(f"{x}.view({'torch.int32' if tensor.is_floating_point() else 'torch.int16'})")
    return chance.choice(choices)


@operation(12)
def view(pool: Pool) -> Draft:
    return Draft(view_of(pool, pool.pick()))


@operation(4)
def change_through_view(pool: Pool) -> Draft:
    """Changes a tensor through a view that exists only inside the expression."""
    x = pool.writable()
    code = view_of(pool, x)
    if any(word in code for word in ("chunk", "split", "unbind")):
        code += "[0]"
    if any(word in code for word in ("expand", "unfold", "flip")):
        raise Unfit  # elements of such a view share memory, or the result is a copy
    change = pool.chance.choice((".mul_(2)", ".zero_()", ".add_(1)", ".neg_()", ".fill_(3)", ".sub_(0.5)", ".abs_()"))
    return Draft(code + change, makes=False, writes=(x,))


@operation(1)
def data(pool: Pool) -> Draft:
    """`.data` shares memory but not the version counter."""
    x = pool.pick()
    return Draft(f"{x}.data")
