"""Elementwise operations on one to three operands of broadcast shapes and mixed types, and on lists of tensors."""

from __future__ import annotations

from ..pool import FLOATS, Draft, Pool, Unfit
from .operation import forms, in_place, operation

UNARY = """
    abs neg sin cos tanh sigmoid exp log1p sqrt rsqrt reciprocal erf erfc square floor ceil round trunc frac sign
    sgn expm1 asinh sinc lgamma digamma nan_to_num bitwise_not logical_not conj_physical atan exp2 i0 logit
""".split()  # noqa: SIM905 - a table
# Functions whose gradients have no poles and whose values stay small.
SMOOTH = """
    sin cos tanh sigmoid erf square neg atan asinh
""".split()  # noqa: SIM905 - a table
OTHERWISE = (
    "torch.relu({x})", "F.gelu({x})", "F.silu({x})", "F.elu({x})", "F.hardtanh({x})", "F.softplus({x})",
    "F.leaky_relu({x})", "F.hardswish({x})", "F.mish({x})", "torch.isfinite({x})", "torch.isnan({x})",
    "torch.angle({x})", "F.logsigmoid({x})", "torch.relu_({x}.clone())", "F.dropout({x}, 0.0)", "F.celu({x})",
    "torch.signbit({x})", "torch.positive({x})", "F.softsign({x})",
    "F.prelu({x}, torch.tensor([0.2], device=stage.device))", "torch.frexp({x})", "F.threshold({x}, 0.1, 2)",
    "torch.special.entr({x})", "torch.polygamma(1, {x})",
)  # fmt: skip
BINARY = """
    add sub mul div maximum minimum atan2 eq ne lt le gt ge logical_and logical_or logical_xor bitwise_and
    bitwise_or bitwise_xor hypot copysign fmax fmin xlogy logaddexp nextafter true_divide add mul sub add mul
""".split()  # noqa: SIM905 - a table
ON_ONE_DEVICE = {"logaddexp", "nextafter"}  # they accept no CPU tensor beside another device's
NOT_IN_PLACE = {"maximum", "minimum", "fmax", "fmin", "logaddexp"}


@operation(6)
def unary(pool: Pool) -> Draft:
    if pool.grad and pool.chance.random() < 0.6:
        return forms(pool, pool.chance.choice(SMOOTH), pool.floating())
    return forms(pool, pool.chance.choice(UNARY), pool.pick())


@operation(3)
def activation(pool: Pool) -> Draft:
    return Draft(pool.chance.choice(OTHERWISE).format(x=pool.pick()))


@operation(8)
def binary(pool: Pool) -> Draft:
    x, function = pool.pick(), pool.chance.choice(BINARY)
    other = pool.other(x, numbers=function not in ON_ONE_DEVICE)
    if function in NOT_IN_PLACE:
        return Draft(f"torch.{function}({x}, {other})")
    return forms(pool, function, x, other)


@operation(3)
def operator(pool: Pool) -> Draft:
    x = pool.pick()
    other, sign = pool.other(x), pool.chance.choice(("+", "-", "*", "/", "==", "<", "+", "*"))
    if pool.chance.random() < 0.5:
        return Draft(f"{x} {sign} {other}")
    return Draft(f"{pool.chance.choice((2, 0.5))} {sign} {x}")


@operation(1)
def whole_division(pool: Pool) -> Draft:
    """Divides by numbers that are not zero, since integer division by zero raises at once on the CPU and late on tb."""
    x = pool.pick(lambda x: not x.is_complex())
    return Draft(
        pool.chance.choice(
            (f"{x} // 3", f"{x} % 4", f"torch.div({x}, 3, rounding_mode='trunc')", f"torch.fmod({x}, 2.5)", f"{x} ** 2")
        )
    )


@operation(3)
def ternary(pool: Pool) -> Draft:
    x = pool.pick()
    mask = pool.names(lambda m: str(m.dtype) == "torch.bool" and m.shape == pool[x].shape)
    condition = pool.chance.choice(mask) if mask else f"({x} != 1)"
    one, two = pool.other(x, numbers=False), pool.other(x, numbers=False)
    return Draft(
        pool.chance.choice(
            (
                f"torch.where({condition}, {x}, {one})",
                f"torch.lerp({x}, {one}, 0.25)",
                f"torch.addcmul({x}, {one}, {two}, value=2)",
                f"torch.addcdiv({x}, {one}, {two})",
                f"torch.clamp({x}, -1, {pool.chance.choice(('1', one))})",
                f"torch.add({x}, {one}, alpha=3)",
                f"{x}.masked_fill({condition}, 5)",
            )
        )
    )


@operation(2)
def ternary_in_place(pool: Pool) -> Draft:
    x = pool.writable()
    one, two = pool.other(x, numbers=False), pool.other(x, numbers=False)
    code = pool.chance.choice(
        (
            f"{x}.addcmul_({one}, {two})",
            f"{x}.lerp_({one}, 0.5)",
            f"{x}.clamp_(-2, 2)",
            f"{x}.masked_fill_({x} != 0, 1)",
            f"{x}.add_({one}, alpha=2)",
            f"{x}.mul_({one}).add_({two})",
        )
    )
    return in_place(pool, x, code, code.partition(".")[2].replace(f"({x} != 0", ""))


def _list(pool: Pool, names: list[str]) -> str:
    return f"[{', '.join(names)}]"


@operation(3)
def foreach(pool: Pool) -> Draft:
    dtype = pool.chance.choice(FLOATS)
    found = pool.names(lambda x: x.dtype == dtype)
    if not found:
        raise Unfit
    names = pool.chance.sample(found, min(len(found), pool.chance.randint(1, 4)))
    one = _list(pool, names)
    other = f"[{', '.join(pool.make(pool[name].shape, dtype) for name in names)}]"
    return Draft(
        pool.chance.choice(
            (
                f"torch._foreach_add({one}, {other})",
                f"torch._foreach_mul({one}, 2.5)",
                f"torch._foreach_addcmul({one}, {other}, {other}, 0.5)",
                f"torch._foreach_lerp({one}, {other}, 0.25)",
                f"torch._foreach_norm({one})",
                f"torch._foreach_sqrt(torch._foreach_abs({one}))",
                f"torch._foreach_div({one}, {len(names) * [2.0]})",
                f"torch._foreach_maximum({one}, {other})",
            )
        )
    )


@operation(2)
def foreach_in_place(pool: Pool) -> Draft:
    first = pool.writable(lambda x: x.is_floating_point())
    names = [first]
    for name in pool.names(lambda x: x.dtype == pool[first].dtype):
        if pool.beside(name, " ".join(names)) and name not in pool.shared and len(names) < 3:
            names.append(pool.writable(lambda x, name=name: x is pool[name]))  # type: ignore[misc]
    one = _list(pool, names)
    other = f"[{', '.join(pool.make(pool[name].shape, pool[name].dtype) for name in names)}]"
    code = pool.chance.choice(
        (
            f"torch._foreach_add_({one}, {other}, alpha=0.5)",
            f"torch._foreach_mul_({one}, 0.5)",
            f"torch._foreach_addcdiv_({one}, {other}, torch._foreach_add({other}, 9), 2)",
            f"torch._foreach_lerp_({one}, {other}, 0.75)",
            f"torch._foreach_copy_({one}, {other})",
            f"torch._foreach_zero_({one})",
        )
    )
    return Draft(code, makes=False, writes=tuple(names))
