"""Derives the coefficients of packages/tb-generator/src/elementary.h: `python tools/polynomials.py` prints them.

Minimax polynomials by Remez' exchange in 60 digits, each coefficient then rounded to its type. Needs mpmath and NumPy.
packages/tb-generator/tests/test_elementary.py measures the functions that use them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import mpmath  # type: ignore[import-untyped]
import numpy

mpmath.mp.dps = 60
Function = Callable[[Any], Any]


def remez(function: Function, weight: Function, low: Any, high: Any, powers: Sequence[int]) -> list[Any]:
    """Coefficients of x**power, power in `powers`, that minimise the largest |weight * (polynomial - function)|."""
    count = len(powers)
    centre, half = (low + high) / 2, (high - low) / 2
    points = [centre - half * mpmath.cos(mpmath.pi * (2 * i + 1) / (2 * (count + 1))) for i in range(count + 1)]
    grid = [centre - half * mpmath.cos(mpmath.pi * i / 2000) for i in range(2001)]
    coefficients: list[Any] = []
    for _ in range(12):
        rows = [[x**power for power in powers] + [(-1) ** i / weight(x)] for i, x in enumerate(points)]
        solution = mpmath.lu_solve(mpmath.matrix(rows), mpmath.matrix([function(x) for x in points]))
        coefficients = list(solution)[:count]

        def error(x: Any, found: Sequence[Any] = tuple(coefficients)) -> Any:
            value = sum(c * x**power for c, power in zip(found, powers, strict=True))
            return weight(x) * (value - function(x))

        errors = [error(x) for x in grid]
        # The largest of each run of one sign: where the error alternates.
        runs: list[tuple[Any, Any]] = []
        for x, e in zip(grid, errors, strict=True):
            if runs and (runs[-1][1] > 0) == (e > 0):
                if abs(e) > abs(runs[-1][1]):
                    runs[-1] = (x, e)
            else:
                runs.append((x, e))
        while len(runs) > count + 1:
            runs.pop(0 if abs(runs[0][1]) < abs(runs[-1][1]) else -1)
        if len(runs) < count + 1:
            break
        points = [x for x, _ in runs]
        if max(abs(e) for _, e in runs) < min(abs(e) for _, e in runs) * mpmath.mpf("1.0001"):
            break
    return coefficients


def rounded(function: Function, weight: Function, low: Any, high: Any, terms: int, kind: type) -> list[Any]:
    """remez() with the powers 0 to terms - 1, rounded to `kind` (numpy.float32 or float64)."""
    return [mpmath.mpf(float(kind(float(c)))) for c in remez(function, weight, low, high, range(terms))]


def show(name: str, coefficients: Sequence[Any], kind: type) -> None:
    suffix = "f" if kind is numpy.float32 else ""
    print(f"{name}: " + ", ".join(float(c).hex() + suffix for c in coefficients))


def main() -> int:
    one = mpmath.mpf(1)
    quarter = mpmath.mpf("0.5")  # of a quadrant: angles are x * pi / 2 with |x| <= 1/2
    half_pi = mpmath.pi / 2
    tiny = mpmath.mpf("1e-12")
    for kind, terms_log, terms_sin, terms_cos in ((numpy.float32, 10, 4, 4), (numpy.float64, 0, 8, 8)):
        print(kind.__name__)
        high = mpmath.mpf(float(kind(float(half_pi))))
        # sin(x pi / 2) = x * high + x * P(z), z = x * x; P(0) is what `high` lacks of pi / 2.
        show("half_pi", [high], kind)

        def sine(z: Any, high: Any = high) -> Any:
            x = mpmath.sqrt(z)
            return mpmath.sin(x * half_pi) / x - high if z > tiny else half_pi - high - half_pi**3 / 6 * z

        show("sine", rounded(sine, lambda z: one, tiny, quarter**2, terms_sin, kind), kind)

        # cos(x pi / 2) = 1 + z * Q(z)
        def cosine(z: Any) -> Any:
            return (mpmath.cos(mpmath.sqrt(z) * half_pi) - 1) / z if z > tiny else -(half_pi**2) / 2

        show("cosine", rounded(cosine, lambda z: z, tiny, quarter**2, terms_cos, kind), kind)
        if terms_log:
            # log(1 + f) = f + f * f * P(f), relative error
            def logarithm(f: Any) -> Any:
                return (mpmath.log1p(f) - f) / (f * f) if abs(f) > tiny else -one / 2 + f / 3

            def relative(f: Any) -> Any:  # kept from 0, where nothing is asked of P
                return max(abs(f * f / mpmath.log1p(f)), mpmath.mpf("1e-3")) if abs(f) > tiny else mpmath.mpf("1e-3")

            show("log", rounded(logarithm, relative, -one / 3, one / 3, terms_log, kind), kind)
        else:
            # log(1 + f) = 2 atanh(s), s = f / (2 + f): f - (f^2 / 2 - s * (f^2 / 2 + R)), R = z * P(z), z = s * s
            def tail(z: Any) -> Any:
                s = mpmath.sqrt(z)
                return (2 * mpmath.atanh(s) / s - 2) / z if z > tiny else 2 * one / 3 + 2 * z / 5

            show("log", rounded(tail, lambda z: z, tiny, mpmath.mpf(1) / 25, 8, kind), kind)
    return 0


if __name__ == "__main__":
    sys.exit(main())
