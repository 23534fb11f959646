"""Factories, casts, copies and clones."""

from __future__ import annotations

from dataclasses import replace

import torch

from ..pool import DTYPES, Draft, Pool, Unfit
from .operation import in_place, operation

REAL = tuple(dtype for dtype in DTYPES if not dtype.is_complex)


@operation(2)
def values(pool: Pool) -> Draft:
    code = pool.make(pool.shape(), dtype := pool.dtype())
    if pool.grad and dtype.is_floating_point and pool.chance.random() < 0.7:
        code += ".requires_grad_()"
    return Draft(code, blocks=True)


@operation(2)
def factory(pool: Pool) -> Draft:
    shape, dtype, count = pool.shape(3), pool.dtype(), pool.chance.randint(0, 40)
    place = f"dtype={dtype}, device=stage.device"
    real = f"dtype={pool.chance.choice(REAL[:-1])}, device=stage.device"
    return Draft(
        pool.chance.choice(
            (
                f"torch.full({shape}, {pool.chance.choice((0, 1, 2.5))}, {place})",
                f"torch.ones({shape}, {place})",
                f"torch.zeros({shape}, {place})",
                f"torch.empty({shape}, {place}).fill_({pool.chance.choice((1, 7))})",
                f"torch.arange({count}, {real})",
                f"torch.arange({count}, -3, -2, {real.replace('uint8', 'int32')})",
                f"torch.linspace(-2, 3, {count}, {real})",
                f"torch.eye({count % 7}, {count % 5}, {place})",
                f"torch.empty_strided({shape}, {_dense(pool, shape)}, {place}).zero_()",
                f"torch.tril_indices({count % 6}, {count % 4}, device=stage.device)",
            )
        )
    )


def _dense(pool: Pool, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a dense tensor whose dimensions are in any order."""
    strides, step = [0] * len(shape), 1
    for dim in pool.chance.sample(range(len(shape)), len(shape)):
        strides[dim] = step
        step *= max(shape[dim], 1)
    return tuple(strides)


@operation(2)
def like(pool: Pool) -> Draft:
    x, dtype = pool.pick(), pool.chance.choice(DTYPES)
    return Draft(
        pool.chance.choice(
            (
                f"torch.zeros_like({x})",
                f"torch.ones_like({x}, dtype={dtype})",
                f"torch.full_like({x}, 3)",
                f"{x}.new_zeros({pool.shape(3)})",
                f"{x}.new_full({pool.shape(3)}, 2, dtype={dtype})",
                f"torch.empty_like({x}, dtype={dtype}).fill_(1)",
            )
        )
    )


@operation(1)
def from_python(pool: Pool) -> Draft:
    x, numbers, dtype = pool.pick(), [i / 4 for i in range(pool.chance.randint(0, 9))], pool.dtype()
    return Draft(
        pool.chance.choice(
            (
                f"{x}.new_tensor([1, 2, 3])",
                f"torch.tensor({numbers}, dtype={dtype}).to(stage.device)",
                f"torch.tensor({numbers}, dtype={dtype}, device=stage.device)",
                f"torch.as_tensor({numbers}, dtype={dtype}, device=stage.device)",
            )
        ),
        blocks=True,
    )


def castable(pool: Pool, name: str, dtype: torch.dtype) -> str:
    """`name`, clamped if the cast is to an integer type, since C++ does not define the result of an overflow."""
    x = pool[name]
    if dtype.is_floating_point or dtype.is_complex or dtype == torch.bool:
        return name
    if x.is_complex():
        raise Unfit
    low = -100 if dtype.is_signed else 0
    return f"{name}.nan_to_num(3, 9, 4).clamp({low}, 100)" if x.is_floating_point() else name


@operation(3)
def cast(pool: Pool) -> Draft:
    x, dtype = pool.pick(), pool.chance.choice(DTYPES)
    if pool[x].is_complex() and not dtype.is_complex:
        raise Unfit  # warns that it discards the imaginary part
    source = castable(pool, x, dtype)
    if pool.chance.random() < 0.5:
        return Draft(f"{source}.to({dtype}{pool.chance.choice(('', ', copy=True'))})")
    return Draft(
        pool.chance.choice(
            (
                f"{source}.to('cpu', copy=True).to({dtype}).to(stage.device)",
                f"{source}.to({dtype}).to('cpu', copy=True).to(stage.device, non_blocking=True)",
            )
        ),
        blocks=True,
    )


@operation(3)
def copy(pool: Pool) -> Draft:
    x = pool.pick()
    formats = [torch.contiguous_format, torch.preserve_format]
    if pool[x].dim() == 4:
        formats.append(torch.channels_last)
    chosen = pool.chance.choice(formats)
    return Draft(
        pool.chance.choice(
            (
                f"{x}.clone()",
                f"{x}.clone(memory_format={chosen})",
                f"{x}.contiguous()",
                f"{x}.detach()",
                f"{x}.detach().clone()",
                f"copy.deepcopy({x}.detach())",
                f"torch.empty_like({x}).copy_({x})",
                f"{x}.resolve_conj().resolve_neg()",
            )
        )
    )


@operation(4)
def copy_into(pool: Pool) -> Draft:
    target = pool.writable()
    source = pool.other(target)
    if source in pool.tensors:
        source = castable(pool, source, pool[target].dtype)
    elif not source.startswith("stage") or not (pool[target].is_floating_point() or pool[target].is_complex()):
        source = pool.make(pool[target].shape, pool[target].dtype)
    if "complex" in source and not pool[target].is_complex():
        raise Unfit
    if pool.chance.random() < 0.6:
        return in_place(pool, target, f"{target}.copy_({source})", source)
    late = pool.chance.choice(("", ", non_blocking=True"))
    return replace(in_place(pool, target, f"{target}.copy_({source}.cpu(){late})", source), blocks=True)


@operation(1)
def fill(pool: Pool) -> Draft:
    x = pool.writable()
    return in_place(pool, x, pool.chance.choice((f"{x}.fill_(2)", f"{x}.zero_()", f"{x}.fill_(torch.tensor(1))")), "")
