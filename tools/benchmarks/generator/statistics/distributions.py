"""The distributions under test: how their numbers are drawn, and their exact properties."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy
from numpy.typing import NDArray
from tb_generator import Generator

Numbers = NDArray[Any]


@dataclass(frozen=True)
class Continuous:
    """A continuous distribution.

    `cumulative`: its exact cumulative distribution function. `moments`: the exact raw moments of standard(numbers), of
    orders 1 to 8. Orders 1 to 4 are compared; orders 2 to 8 give their standard errors.
    """

    draw: Callable[[Generator, int], Numbers]
    cumulative: Callable[[Numbers], Numbers]
    moments: tuple[float, ...]
    standard: Callable[[Numbers], Numbers] = lambda numbers: numbers


@dataclass(frozen=True)
class Discrete:
    """A discrete distribution: `draw` returns classes 0, 1, ..., which have these probabilities.

    `freedom`: the degrees of freedom of chi-square; 0: one less than the number of classes.
    """

    draw: Callable[[Generator, int], Numbers]
    probabilities: Numbers
    freedom: int = 0


_GRID = numpy.linspace(-8, 8, (1 << 17) + 1)
_KNOWN = numpy.array([0.5 * math.erfc(-x / math.sqrt(2)) for x in _GRID])
NORMAL_MOMENTS = (0, 1, 0, 3, 0, 15, 0, 105)
UNIFORM_MOMENTS = tuple(1 / (order + 1) for order in range(1, 9))


def normal_cumulative(x: Numbers) -> Numbers:
    """The normal distribution's cumulative function by linear interpolation, exact to 1e-9."""
    return numpy.asarray(numpy.interp(x, _GRID, _KNOWN))


def truncated_cumulative(x: Numbers) -> Numbers:
    """The cumulative function of the standard normal distribution truncated to -1 and 2."""
    low, high = normal_cumulative(numpy.array([-1.0, 2.0]))
    return numpy.asarray((normal_cumulative(x) - low) / (high - low))


def truncated_moments() -> tuple[float, ...]:
    """The moments of the same distribution. Each follows from the moment two orders below."""
    low, high = -1.0, 2.0
    density = {x: math.exp(-x * x / 2) / math.sqrt(2 * math.pi) for x in (low, high)}
    mass = 0.5 * (math.erf(high / math.sqrt(2)) - math.erf(low / math.sqrt(2)))
    found = [1.0, (density[low] - density[high]) / mass]
    for order in range(2, 9):
        ends = (low ** (order - 1) * density[low] - high ** (order - 1) * density[high]) / mass
        found.append((order - 1) * found[order - 2] + ends)
    return tuple(found[1:])


def geometric_probabilities(p: float, classes: int) -> Numbers:
    """The probabilities of 1, 2, ... trials; the last one is that of `classes` or more."""
    shares = p * (1 - p) ** numpy.arange(classes - 1)
    return numpy.append(shares, 1 - shares.sum())


def _words(generator: Generator, count: int) -> Numbers:
    """The classes of all bits of raw words: twice the bit's place, plus its value."""
    words = generator.integers(count // 64, -(2**63), 2**63).view("u8")
    places = numpy.arange(64, dtype="u8")
    ones = numpy.array([((words >> place) & numpy.uint64(1)).sum() for place in places])
    return numpy.repeat(numpy.arange(128), numpy.column_stack([len(words) - ones, ones]).ravel().astype("i8"))


def _places(generator: Generator, count: int) -> Numbers:
    """The classes of the entries of permutations of ten: 10 * number + place."""
    orders = numpy.array([generator.permutation(10) for _ in range(count // 500)])
    return (10 * orders + numpy.arange(10)).ravel()


def _masks(generator: Generator, count: int) -> Numbers:
    return numpy.asarray(generator.dropout(numpy.ones(count, "f4"), 0.3) != 0, "i8")


WEIGHTS = numpy.array([1.0, 2.0, 3.0, 4.0])
CONTINUOUS = {
    "uniform": Continuous(lambda g, n: g.uniform(n), lambda x: x, UNIFORM_MOMENTS),
    "uniform float64": Continuous(lambda g, n: g.uniform(n, dtype="float64"), lambda x: x, UNIFORM_MOMENTS),
    "normal": Continuous(lambda g, n: g.normal(n), normal_cumulative, NORMAL_MOMENTS),
    "normal float64": Continuous(lambda g, n: g.normal(n, dtype="float64"), normal_cumulative, NORMAL_MOMENTS),
    "exponential": Continuous(
        lambda g, n: g.exponential(n), lambda x: -numpy.expm1(-x), tuple(math.factorial(k) for k in range(1, 9))
    ),
    "log_normal": Continuous(
        lambda g, n: g.log_normal(n), lambda x: normal_cumulative(numpy.log(x)), NORMAL_MOMENTS, numpy.log
    ),
    "cauchy": Continuous(
        lambda g, n: g.cauchy(n), lambda x: 0.5 + numpy.arctan(x) / math.pi, UNIFORM_MOMENTS,
        lambda x: 0.5 + numpy.arctan(x) / math.pi,
    ),
    "truncated_normal": Continuous(
        lambda g, n: g.truncated_normal(n, low=-1, high=2), truncated_cumulative, truncated_moments()
    ),
}  # fmt: skip
DISCRETE = {
    "integers of 1000": Discrete(lambda g, n: g.integers(n, 0, 1000), numpy.full(1000, 1e-3)),
    "integers of 3 * 2**61": Discrete(
        lambda g, n: g.integers(n, 0, 3 * 2**61) // 2**54, numpy.full(384, 1 / 384)
    ),
    "bernoulli": Discrete(lambda g, n: g.bernoulli(n, 0.3).astype("i8"), numpy.array([0.7, 0.3])),
    "dropout": Discrete(_masks, numpy.array([0.3, 0.7])),
    "geometric": Discrete(
        lambda g, n: numpy.minimum(g.geometric(n, 0.2), 40) - 1, geometric_probabilities(0.2, 40)
    ),
    "multinomial": Discrete(lambda g, n: g.multinomial(WEIGHTS, n), WEIGHTS / 10),
    "bits of the words": Discrete(_words, numpy.full(128, 1 / 128), 64),
    "permutation": Discrete(_places, numpy.full(100, 1e-2), 81),
}  # fmt: skip
