"""The register of operations, and what most of them need."""

from __future__ import annotations

from collections.abc import Callable

from ..pool import Draft, Pool, Unfit

Operation = Callable[[Pool], Draft]
OPERATIONS: list[tuple[Operation, float]] = []


def operation(weight: float) -> Callable[[Operation], Operation]:
    """Registers a function that drafts a step. `weight`: how often, against the others'."""

    def register(function: Operation) -> Operation:
        OPERATIONS.append((function, weight))
        return function

    return register


def in_place(pool: Pool, name: str, code: str, operands: str) -> Draft:
    """`code` changes `name`; what else it reads, `operands`, must have other memory or be `name` itself."""
    itself = operands == name and not pool[name].requires_grad  # x.mul_(x) saves what it makes: autograd never frees it
    if not itself and not pool.beside(name, operands):
        raise Unfit
    return Draft(code, makes=pool.chance.random() < 0.3, writes=(name,))


def forms(pool: Pool, function: str, name: str, rest: str = "") -> Draft:
    """torch.function(name, rest), or its in-place or out= form. `function` has all three."""
    kind, tail = pool.chance.random(), f", {rest}" if rest else ""
    if kind < 0.25:
        pool.writable(lambda x: x is pool[name])  # it has other names, perhaps; the step uses this one
        return in_place(pool, name, f"{name}.{function}_({rest})", rest)
    if kind < 0.4 and not pool[name].requires_grad:
        out = pool.writable(lambda x: not x.requires_grad and x._base is None)
        return with_out(pool, out, f"torch.{function}({name}{tail}, out={out})", f"{name}{tail}")
    return Draft(f"torch.{function}({name}{tail})")


def with_out(pool: Pool, out: str, code: str, operands: str) -> Draft:
    """`code` writes to `out`, which may grow."""
    if not pool.beside(out, operands) or len(pool.related(out)) > 1:
        raise Unfit
    return Draft(code, makes=pool.chance.random() < 0.3, writes=(out,), resizes=(out,))
