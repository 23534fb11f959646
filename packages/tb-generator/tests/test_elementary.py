"""Errors of logarithm, sine and cosine of random words, as src/distribution/elementary.h documents them."""

import math
import random
import struct
from typing import Any

import mpmath
import pytest
from tb_generator import _testing

# ulp_negative_log, ulp_cosine, ulp_sine, ulp_exponential of src/distribution/elementary.h
BOUNDS = _testing.ulp_bounds()


def words(bits: int) -> list[int]:
    """Words near the ends, the borders of quadrants and of the logarithm's intervals, and some 20,000 random ones."""
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


def direction(word: int, bits: int) -> tuple[Any, Any]:
    """Cosine and sine as src/distribution/elementary.h defines them: the upper bits give sign, exchange and angle."""
    parts = bits - 2
    angle = word % (1 << parts)
    angle -= (angle >> (parts - 1)) << parts  # as a signed number
    turn = (angle + mpmath.mpf("0.5")) / (1 << (parts - 1)) / 4  # in units of pi
    cosine, sine = mpmath.cospi(turn), mpmath.sinpi(turn)
    cosine = -cosine if word >> (bits - 1) else cosine
    return (sine, cosine) if word >> (bits - 2) & 1 else (cosine, sine)


@pytest.mark.parametrize(("wide", "bits", "digits"), [(False, 32, 24), (True, 52, 53)], ids=["float32", "float64"])
def test_errors_stay_below_the_documented_bounds(wide: bool, bits: int, digits: int) -> None:
    mpmath.mp.prec = 160
    worst = [0.0, 0.0, 0.0]
    drawn = words(bits)
    # float64 takes the upper 52 bits of 64; the others do not matter
    given = [word << 12 | 0x5A5 for word in drawn] if wide else drawn
    for word, (logarithm, cosine, sine) in zip(drawn, _testing.elementary(given, wide), strict=True):
        exact = -mpmath.log((word + mpmath.mpf("0.5")) / (1 << bits))
        exact_cosine, exact_sine = direction(word, bits)
        errors = (ulps(logarithm, exact, digits), ulps(cosine, exact_cosine, digits), ulps(sine, exact_sine, digits))
        worst = [max(pair) for pair in zip(worst, errors, strict=True)]
    print(f"worst of {len(drawn)} words, ulp: -log {worst[0]:.3f}, cos {worst[1]:.3f}, sin {worst[2]:.3f}")
    assert len(drawn) > 15_000
    assert [error <= bound for error, bound in zip(worst, BOUNDS, strict=False)] == [True] * 3, worst


@pytest.mark.parametrize(
    ("wide", "digits", "low", "high"), [(False, 24, -87, 88.7), (True, 53, -708, 709.7)], ids=["float32", "float64"]
)
def test_the_exponential_stays_below_its_bound(wide: bool, digits: int, low: float, high: float) -> None:
    mpmath.mp.prec = 160
    draw = random.Random(1)
    numbers = [0.0, low, high, *(draw.uniform(low, high) for _ in range(10_000))]
    numbers += [draw.uniform(-1, 1) * 2.0 ** -draw.randrange(40) for _ in range(5000)]
    if not wide:
        numbers = [struct.unpack("f", struct.pack("f", number))[0] for number in numbers]
    worst = max(
        ulps(got, mpmath.exp(mpmath.mpf(number)), digits)
        for number, got in zip(numbers, _testing.exponentials(numbers, wide), strict=True)
    )
    print(f"worst of {len(numbers)} numbers, ulp: exp {worst:.3f}")
    assert worst <= BOUNDS[3]
    assert _testing.exponentials([-1e30, 1e30], wide) == [0.0, math.inf]


def test_both_parts_of_a_direction_differ_from_zero() -> None:
    for wide, bits in ((False, 32), (True, 64)):
        quarters = [(1 << bits) // 4 * k for k in range(4)]
        for _, cosine, sine in _testing.elementary([*quarters, *(q - 1 for q in quarters[1:]), (1 << bits) - 1], wide):
            assert 0 < min(abs(cosine), abs(sine)) < 1e-9
            assert max(abs(cosine), abs(sine)) == 1
