"""The register of operations, and functions that most of them need."""

from __future__ import annotations

from collections.abc import Callable

from ..pool import Draft, Pool, Unfit

Operation = Callable[[Pool], Draft]
OPERATIONS: list[tuple[Operation, float]] = []


def operation(weight: float) -> Callable[[Operation], Operation]:
    """Registers a function that drafts a step. `weight`: its relative frequency."""

    def register(function: Operation) -> Operation:
        OPERATIONS.append((function, weight))
        return function

    return register


def in_place(pool: Pool, name: str, code: str, operands: str) -> Draft:
    """A draft of `code`, which changes `name`. Its other operands must be `name` itself or have other memory."""
    # x.mul_(x) saves its own result, so autograd's graph would keep itself alive.
    itself = operands == name and not pool[name].requires_grad
    if not itself and not pool.beside(name, operands):
        raise Unfit
    return Draft(code, makes=pool.chance.random() < 0.3, writes=(name,))


def forms(pool: Pool, function: str, name: str, rest: str = "") -> Draft:
    """torch.function(name, rest), or its in-place or out= form. `function` has all three."""
    kind, tail = pool.chance.random(), f", {rest}" if rest else ""
    if kind < 0.25:
        pool.writable(lambda x: x is pool[name])  # raises Unfit if `name` must not be written
        return in_place(pool, name, f"{name}.{function}_({rest})", rest)
    if kind < 0.4 and not pool[name].requires_grad:
        out = pool.writable(lambda x: not x.requires_grad and x._base is None)
        return with_out(pool, out, f"torch.{function}({name}{tail}, out={out})", f"{name}{tail}")
    return Draft(f"torch.{function}({name}{tail})")


def with_out(pool: Pool, out: str, code: str, operands: str) -> Draft:
    """A draft of `code`, which writes to `out` and may resize it."""
    if not pool.beside(out, operands) or len(pool.related(out)) > 1:
        raise Unfit
    return Draft(code, makes=pool.chance.random() < 0.3, writes=(out,), resizes=(out,))
