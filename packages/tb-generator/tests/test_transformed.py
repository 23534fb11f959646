"""Cauchy, log-normal, geometric and truncated normal numbers: distributions, ends, refusals."""

import math

import numpy
import pytest
import tb_generator
from fills import COUNTED, FLOATING, chi_square, kolmogorov, values


def normal_cumulative(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_cauchy_has_its_distribution(dtype: str) -> None:
    drawn = values("cauchy", dtype, 500_000, (1.0, 3.0))
    assert numpy.isfinite(drawn).all()
    assert kolmogorov(drawn, 0.5 + numpy.arctan((drawn - 1) / 3) / math.pi) < 1.95


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_log_normal_has_its_distribution(dtype: str) -> None:
    drawn = values("log_normal", dtype, 500_000, (0.5, 0.75))
    assert drawn.min() > 0
    grid = numpy.linspace(-6, 6, 24_001)
    known = numpy.array([normal_cumulative(x) for x in grid])
    assert kolmogorov(drawn, numpy.interp((numpy.log(drawn) - 0.5) / 0.75, grid, known)) < 1.95


@pytest.mark.parametrize("dtype", COUNTED)
@pytest.mark.parametrize("p", [0.2, 0.5, 0.9])
def test_geometric_counts_trials(dtype: str, p: float) -> None:
    drawn = values("geometric", dtype, 500_000, (p,))
    assert drawn.min() == 1
    classes = max(2, min(12, 1 + math.floor(math.log(1e-3) / math.log(1 - p))))
    counts = numpy.bincount(numpy.minimum(drawn.astype("i8"), classes + 1))[1:]
    expected = 500_000 * p * (1 - p) ** numpy.arange(classes)
    expected = numpy.append(expected, 500_000 - expected.sum())
    assert abs(chi_square(counts, expected)) < 5


def test_geometric_at_its_ends() -> None:
    generator = tb_generator.Generator(1)
    assert (generator.geometric(100, 1.0) == 1).all()
    assert (generator.geometric(100, 1e-9, dtype="int8") == 127).all()
    assert (generator.geometric(100, 1e-300) == 2**63 - 1).all()
    assert abs(generator.geometric(100_000, 1e-9, dtype="float64").mean() * 1e-9 - 1) < 0.02
    for p in (0.0, -0.1, 1.1, math.nan):
        with pytest.raises(ValueError, match="give a probability, 0 < p <= 1"):
            generator.geometric(10, p)
    with pytest.raises(ValueError, match="bool cannot hold"):
        generator.geometric(10, 0.5, dtype="bool")


@pytest.mark.parametrize(
    ("low", "high"),
    [(-2, 2), (-0.5, 0.25), (0.5, 0.6), (1, math.inf), (6, 7), (-math.inf, -3), (-9, -6), (-math.inf, math.inf)],
)
def test_truncated_normal_has_its_distribution(low: float, high: float) -> None:
    drawn = values("truncated_normal", "float64", 200_000, (0.0, 1.0, low, high))
    assert low <= drawn.min()
    assert drawn.max() <= high
    sign = -1 if high < 0 else 1  # uses the upper tail, where erfc is accurate
    upper = numpy.array([math.erfc(sign * x / math.sqrt(2)) for x in drawn])
    ends = [math.erfc(sign * x / math.sqrt(2)) for x in (low, high)]
    assert kolmogorov(drawn, (upper - ends[0]) / (ends[1] - ends[0])) < 1.95


@pytest.mark.parametrize("dtype", FLOATING)
def test_truncated_normal_stays_in_its_interval_after_rounding(dtype: str) -> None:
    drawn = values("truncated_normal", dtype, 100_000, (1.0, 2.0, 0.3, 0.7))
    assert drawn.min() >= 0.3
    assert drawn.max() <= 0.7


def test_impossible_parameters_are_refused_and_take_no_words() -> None:
    generator = tb_generator.Generator(1)
    for mean, std, low, high in ((0, 0, -1, 1), (0, 1, 1, -1), (math.nan, 1, -1, 1), (0, 1, math.nan, 1)):
        with pytest.raises(ValueError, match="std > 0 and low <= high"):
            generator.truncated_normal(10, mean, std, low, high)
    with pytest.raises(ValueError, match="no value there"):
        generator.truncated_normal(10, 0, 1, 1.001, 1.002, dtype="bfloat16")
    with pytest.raises(ValueError, match="sigma > 0"):
        generator.cauchy(10, 0, 0)
    with pytest.raises(ValueError, match="log_normal with mean 0 and std -1"):
        generator.log_normal(10, 0, -1)
    assert generator.offset == 0
