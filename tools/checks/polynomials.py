"""Prints the coefficients of packages/tb-generator/src/distribution/elementary.h: `python tools/checks/polynomials.py`.

They are minimax polynomials, computed by Remez' exchange in 60 digits and then rounded. Needs mpmath and NumPy.
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
        # The point with the largest error in each run of errors of one sign; consecutive runs alternate in sign.
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


ONE = mpmath.mpf(1)
TINY = mpmath.mpf("1e-12")
EIGHTH = mpmath.pi / 4  # of a turn


def sine(z: Any) -> Any:
    """sin(x pi / 4) / x as a function of z = x * x."""
    x = mpmath.sqrt(z)
    return mpmath.sin(x * EIGHTH) / x if z > TINY else EIGHTH - EIGHTH**3 / 6 * z


def cosine(z: Any) -> Any:
    """(cos(x pi / 4) - 1) / z as a function of z = x * x."""
    return (mpmath.cos(mpmath.sqrt(z) * EIGHTH) - 1) / z if z > TINY else -(EIGHTH**2) / 2


def logarithm(f: Any) -> Any:
    """P(f) with -log(1 + f) = f * f * P(f) - f."""
    return (f - mpmath.log1p(f)) / (f * f) if abs(f) > TINY else ONE / 2 - f / 3


def logarithm_weight(f: Any) -> Any:
    """Makes the error relative to the logarithm. It is at least 1e-3, also near f = 0, where P has no effect."""
    return max(abs(f * f / mpmath.log1p(f)), mpmath.mpf("1e-3")) if abs(f) > TINY else mpmath.mpf("1e-3")


def logarithm_tail(z: Any) -> Any:
    """P(z) with log(1 + f) = 2 atanh(s) = f - (h - s * (h + z * P(z))), s = f / (2 + f), z = s * s, h = f * f / 2."""
    s = mpmath.sqrt(z)
    return (2 * mpmath.atanh(s) / s - 2) / z if z > TINY else 2 * ONE / 3 + 2 * z / 5


def exponential(x: Any) -> Any:
    """P(x) with exp(x) = 1 + x + x * x * P(x)."""
    return (mpmath.exp(x) - 1 - x) / (x * x) if abs(x) > TINY else ONE / 2 + x / 6


def main() -> int:
    half_ln2 = mpmath.log(2) / 2
    for kind, sine_terms, cosine_terms, exp_terms in ((numpy.float32, 4, 3, 5), (numpy.float64, 8, 8, 10)):
        print(kind.__name__)
        show("sine", rounded(sine, lambda z: ONE / sine(z), TINY, ONE, sine_terms, kind), kind)
        show("cosine", rounded(cosine, lambda z: z, TINY, ONE, cosine_terms, kind), kind)
        show("exp", rounded(exponential, lambda x: x * x + TINY, -half_ln2, half_ln2, exp_terms, kind), kind)
        if kind is numpy.float32:
            show("log", rounded(logarithm, logarithm_weight, -ONE / 2, mpmath.mpf(0), 8, kind), kind)
        else:
            show("log", rounded(logarithm_tail, lambda z: z, TINY, ONE / 9, 11, kind), kind)
    return 0


if __name__ == "__main__":
    sys.exit(main())
