"""Fills: bounds and distributions of their elements."""

import math

import numpy
import pytest
import tb_generator
from fills import FLOATING, INTEGER, chi_square, kolmogorov, values


@pytest.mark.parametrize("dtype", FLOATING)
@pytest.mark.parametrize(
    ("low", "high"), [(0.0, 1.0), (-1.0, 1.0), (0.1, 0.3), (-7.3, -7.1), (1.0, 1.1), (1e-6, 2e-6), (-6e4, 6e4)]
)
def test_uniform_stays_in_its_half_open_interval_after_rounding(dtype: str, low: float, high: float) -> None:
    drawn = values("uniform", dtype, 200_000, (low, high))
    assert drawn.min() >= low
    assert drawn.max() < high
    if dtype in ("float32", "float64"):
        assert drawn.min() < low + (high - low) * 1e-4
        assert drawn.max() > high - (high - low) * 1e-4


def test_uniform_on_an_empty_interval_is_its_bound_and_impossible_intervals_are_refused() -> None:
    generator = tb_generator.Generator(1)
    assert (generator.uniform(5, 2.5, 2.5) == 2.5).all()
    with pytest.raises(ValueError, match=r"uniform on 1 <= x < 0 as float32: give finite bounds"):
        generator.uniform(5, 1.0, 0.0)
    with pytest.raises(ValueError, match="no value there"):
        generator.uniform(5, 1.001, 1.002, dtype="bfloat16")
    with pytest.raises(ValueError, match="beyond the type's range"):
        generator.uniform(5, -3e38, 3e38)
    with pytest.raises(ValueError, match="not int32"):
        generator.uniform(5, dtype="int32")
    assert generator.offset == 2, "a refused fill must not take words"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_uniform_has_the_uniform_distribution(dtype: str) -> None:
    drawn = values("uniform", dtype, 1_000_000, (0.0, 1.0))
    assert kolmogorov(drawn, drawn) < 1.95
    assert abs(drawn.mean() - 0.5) < 4 * math.sqrt(1 / 12 / 1e6)
    assert abs(drawn.var() - 1 / 12) < 4e-4
    # neither neighbours nor elements a block apart are correlated
    for lag in (1, 2, 4, 256):
        assert abs(numpy.corrcoef(drawn[:-lag], drawn[lag:])[0, 1]) < 4e-3


@pytest.mark.parametrize("dtype", FLOATING)
def test_uniform_of_every_type_has_the_moments(dtype: str) -> None:
    drawn = values("uniform", dtype, 1_000_000, (-1.0, 3.0))
    # 16-bit types round up as often as down, to steps of up to 2^-7 below 2.
    assert abs(drawn.mean() - 1) < (0.006 if dtype == "bfloat16" else 0.005)
    assert abs(drawn.var() - 16 / 12) < 0.01


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normal_has_the_normal_distribution(dtype: str) -> None:
    drawn = values("normal", dtype, 1_000_000, (0.0, 1.0))
    grid = numpy.linspace(-6, 6, 24_001)
    known = numpy.array([0.5 * math.erfc(-x / math.sqrt(2)) for x in grid])
    assert kolmogorov(drawn, numpy.interp(drawn, grid, known)) < 1.95
    assert abs(drawn.mean()) < 4e-3
    assert abs(drawn.std() - 1) < 3e-3
    assert abs((drawn**3).mean()) < 0.02
    assert abs((drawn**4).mean() - 3) < 0.05
    assert abs(numpy.corrcoef(drawn[::2], drawn[1::2])[0, 1]) < 6e-3, "the two of a pair are independent"


@pytest.mark.parametrize("dtype", FLOATING)
def test_normal_of_every_type_has_mean_and_standard_deviation(dtype: str) -> None:
    drawn = values("normal", dtype, 1_000_000, (3.0, 0.5))
    assert numpy.isfinite(drawn).all()
    assert abs(drawn.mean() - 3) < 0.004
    assert abs(drawn.std() - 0.5) < 0.003


@pytest.mark.parametrize("dtype", FLOATING)
def test_exponential_has_its_distribution_and_is_never_zero(dtype: str) -> None:
    drawn = values("exponential", dtype, 1_000_000, (2.0,))
    assert drawn.min() > 0
    assert abs(drawn.mean() - 0.5) < 0.003
    assert abs(drawn.std() - 0.5) < 0.005
    if dtype in ("float32", "float64"):
        assert kolmogorov(drawn, 1 - numpy.exp(-2 * drawn)) < 1.95


@pytest.mark.parametrize(("dtype", "low", "width"), [
    ("int64", -3, 7), ("int32", 10, 1000), ("int16", -32768, 65536), ("int8", -128, 256), ("uint8", 0, 256),
    ("uint8", 200, 56), ("bool", 0, 2), ("float32", -5, 11), ("float64", 0, 1000), ("float16", 0, 2048),
    ("bfloat16", 0, 256),
])  # fmt: skip
def test_integers_are_equally_probable(dtype: str, low: int, width: int) -> None:
    drawn = values("integers", dtype, 1_000_000, (low, width)).astype("i8")
    assert drawn.min() >= low
    assert drawn.max() < low + width
    assert abs(chi_square(numpy.bincount(drawn - low, minlength=width), 1e6 / width)) < 4


@pytest.mark.parametrize(("dtype", "width"), [("int32", 3 * 2**30), ("int64", 3 * 2**62)])
def test_integers_reject_words_so_that_wide_intervals_are_unbiased(dtype: str, width: int) -> None:
    # Without rejection one third of these values would be twice as probable as the others.
    low = -(2**31) if dtype == "int32" else -(2**63)
    drawn = values("integers", dtype, 1_000_000, (low, width))
    thirds = (drawn - low if dtype == "int32" else drawn.view("u8") + numpy.uint64(2**63)).astype("u8") % 3
    assert abs(chi_square(numpy.bincount(thirds.astype("i8"), minlength=3), 1e6 / 3)) < 5


def test_integers_of_all_64_bits_set_every_bit_half_of_the_time() -> None:
    drawn = values("integers", "int64", 200_000, (0, 0)).view("u8")
    for bit in range(64):
        share = float(((drawn >> numpy.uint64(bit)) & numpy.uint64(1)).mean())
        assert abs(share - 0.5) < 5 * 0.5 / math.sqrt(200_000), bit


@pytest.mark.parametrize(("dtype", "low", "high"), [
    ("float32", 2**24, 2**24 + 3), ("float16", 2047, 2050), ("bfloat16", 255, 258), ("float64", 2**53 + 1, 2**53 + 4),
    ("float32", -(2**63), 2**63), ("float16", 65000, 65504 + 1),
])  # fmt: skip
def test_integers_in_floating_types_round_inside_the_interval(dtype: str, low: int, high: int) -> None:
    drawn = values("integers", dtype, 10_000, (low, (high - low) % 2**64))
    assert int(drawn.min()) >= low
    assert int(drawn.max()) < high


@pytest.mark.parametrize(("dtype", "low", "high"), [
    ("uint8", -1, 4), ("uint8", 0, 257), ("int8", 0, 129), ("int16", -32769, 0), ("int32", 0, 2**31 + 1),
    ("bool", 0, 3), ("int32", 0, 2**63), ("int64", 5, 5), ("int64", 0, 2**63 + 1),
])  # fmt: skip
def test_integers_outside_the_type_are_refused(dtype: str, low: int, high: int) -> None:
    with pytest.raises(ValueError, match="integers from"):
        tb_generator.Generator(1).integers(10, low, high, dtype=dtype)


@pytest.mark.parametrize("dtype", FLOATING + INTEGER)
def test_bernoulli_gives_ones_with_its_probability(dtype: str) -> None:
    for p in (0.0, 0.1, 0.5, 1.0):
        drawn = values("bernoulli", dtype, 1_000_000, (p,))
        assert set(numpy.unique(drawn)) <= {0, 1}
        assert abs(drawn.mean() - p) <= 4 * math.sqrt(p * (1 - p) / 1e6)


@pytest.mark.parametrize("p", [-0.1, 1.1, math.nan])
def test_bernoulli_refuses_numbers_that_are_no_probability(p: float) -> None:
    with pytest.raises(ValueError, match="give a probability"):
        tb_generator.Generator(1).bernoulli(10, p)


def test_normal_and_exponential_refuse_parameters_without_distribution() -> None:
    generator = tb_generator.Generator(1)
    for mean, std in ((0.0, -1.0), (math.nan, 1.0), (0.0, math.inf)):
        with pytest.raises(ValueError, match="std >= 0"):
            generator.normal(10, mean, std)
    for rate in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="rate > 0"):
            generator.exponential(10, rate)


def test_different_seeds_and_offsets_give_different_numbers() -> None:
    drawn = {tb_generator.Generator(seed).integers(4, 0, 2**62).tobytes() for seed in (*range(500), 2**64 - 1, 2**32)}
    assert len(drawn) == 502
