"""Logarithm, sine and cosine of random words against exact values: the errors that src/elementary.h documents."""

import random
from typing import Any

import mpmath
import pytest
from tb_generator import _core

# ulp_negative_log, ulp_cosine, ulp_sine of src/elementary.h
BOUNDS = _core.ulp_bounds()


def words(bits: int) -> list[int]:
    """Both ends, the borders of quadrants and of the logarithm's intervals, and 20,000 at random."""
    draw = random.Random(1)
    whole = 1 << bits
    borders = [0, whole - 1, *(whole * k // 8 for k in range(1, 8)), whole * 2 // 3, *(1 << k for k in range(1, bits))]
    near = {border + step for border in borders for step in range(-3, 4)}
    small = {draw.randrange(1 << draw.randrange(1, bits + 1)) for _ in range(4000)}
    ends = {whole - 1 - value for value in small}
    return sorted(
        word for word in near | small | ends | {draw.randrange(whole) for _ in range(12_000)} if 0 <= word < whole
    )


def ulps(got: float, exact: Any, digits: int) -> float:
    """The error in units of the last of `digits` binary digits of the exact value."""
    if exact == 0:
        return 0.0 if got == 0 else float("inf")
    _, exponent = mpmath.frexp(exact)
    return float(abs(mpmath.mpf(got) - exact) / mpmath.ldexp(1, int(exponent) - digits))


@pytest.mark.parametrize(("wide", "bits", "digits"), [(False, 32, 24), (True, 53, 53)], ids=["float32", "float64"])
def test_errors_stay_below_the_documented_bounds(wide: bool, bits: int, digits: int) -> None:
    mpmath.mp.prec = 160
    worst = [0.0, 0.0, 0.0]
    drawn = words(bits)
    for word, (logarithm, cosine, sine) in zip(drawn, _core.elementary(drawn, wide), strict=True):
        exact = -mpmath.log((word + mpmath.mpf("0.5")) / (1 << bits))
        turn = mpmath.mpf(word) / (1 << bits)
        errors = (
            ulps(logarithm, exact, digits),
            ulps(cosine, mpmath.cospi(2 * turn), digits),
            ulps(sine, mpmath.sinpi(2 * turn), digits),
        )
        worst = [max(pair) for pair in zip(worst, errors, strict=True)]
    print(f"worst of {len(drawn)} words, ulp: -log {worst[0]:.3f}, cos {worst[1]:.3f}, sin {worst[2]:.3f}")
    assert len(drawn) > 15_000
    assert [error <= bound for error, bound in zip(worst, BOUNDS, strict=True)] == [True] * 3, worst


def test_quadrants_are_exact() -> None:
    for wide, bits in ((False, 32), (True, 53)):
        quarters = [(1 << bits) // 4 * k for k in range(4)]
        found = [(cosine, sine) for _, cosine, sine in _core.elementary(quarters, wide)]
        assert found == [(1, 0), (0, 1), (-1, 0), (0, -1)]
