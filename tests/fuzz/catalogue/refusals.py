"""Calls with one bad argument, which are kept if the CPU refuses them; and uninitialised memory that a mode fills."""

from __future__ import annotations

from ..pool import FLOATS, Draft, Pool
from .operation import operation


@operation(3)
def bad_argument(pool: Pool) -> Draft:
    x, chance = pool.floating(1), pool.chance
    dims = pool[x].dim()
    return Draft(
        chance.choice(
            (
                f"torch.bernoulli(stage.make({pool.seed()}, (3,), torch.float32).abs() + 9)",
                f"torch.bernoulli(torch.full((3,), {chance.choice((-0.5, 1.5))}, device=stage.device))",
                "torch.bernoulli(torch.full((3,), torch.nan, device=stage.device))",
                f"torch.randperm({chance.choice((129, 300))}, dtype=torch.int8, device=stage.device)",
                f"torch.multinomial(-{x}.abs() - 9, 2)",
                f"torch.index_select({x}, 0, torch.tensor([{chance.choice((-99, 99))}], device=stage.device))",
                f"torch.gather({x}, {dims + chance.choice((0, 3))}, stage.indices({pool.seed()}, 1, (1,)))",
                f"torch.softmax({x}, {dims})",
                f"torch.cat([{x}, {x}.unsqueeze(0)])",
                f"torch.cumsum({x}, {-dims - 1})",
                "torch.full((-1,), 2, device=stage.device)",
                "torch.full((2,), 300, dtype=torch.uint8, device=stage.device)",
                f"{x}.clone().expand(2, *{x}.shape).add_(1)",
                f"torch._foreach_mul_([{x}.detach().clone().expand(2, *{x}.shape)], 2.0)",
                f"torch._foreach_add([{x}], [{x}, {x}])",
                f"{x}.clone().unsqueeze(0).expand(3, *{x}.shape).normal_()",
                f"torch.nn.functional.dropout({x}, {chance.choice((-0.25, 1.25))})",
                f"torch.nn.functional.cross_entropy(stage.make({pool.seed()}, (3, 4), torch.float32), "
                f"torch.full((3,), {chance.choice((-7, 4))}, device=stage.device))",
                f"torch.nn.functional.embedding(torch.tensor([9], device=stage.device), {x}.reshape(1, -1))",
                "torch.linspace(0, 1, -1, device=stage.device)",
                f"torch.arange(0, 5, {chance.choice((0, -1))}, device=stage.device)",
            )
        )
    )


@operation(1)
def filled_by_mode(pool: Pool) -> Draft:
    """Uninitialised memory, which PyTorch fills in deterministic mode."""
    x, shape, place = pool.pick(), pool.shape(3), f"dtype={pool.dtype()}, device=stage.device"
    code = (
        f"torch.empty({shape}, {place})",
        f"torch.empty_like({x})",
        f"{x}.new_empty({shape})",
        f"torch.empty_permuted({shape}, {tuple(reversed(range(len(shape))))}, {place})",
        f"torch.empty(0, dtype={pool.chance.choice(FLOATS)}, device=stage.device).resize_({shape})",
    )
    return Draft(pool.chance.choice(code), mode="deterministic")
