"""Permutations, samples with weights, dropout."""

import math

import numpy
import pytest
import tb_generator
from fills import chi_square


def test_every_permutation_is_equally_probable() -> None:
    generator = tb_generator.Generator(3)
    counts = numpy.zeros(24)
    ranks = {order: i for i, order in enumerate(sorted(tuple(generator.permutation(4)) for _ in range(600)))}
    assert len(ranks) == 24
    ranks = {order: i for i, order in enumerate(sorted(ranks))}
    for _ in range(24_000):
        counts[ranks[tuple(generator.permutation(4))]] += 1
    assert abs(chi_square(counts, 1000)) < 4


@pytest.mark.parametrize("count", [0, 1, 2, 3, 1000, 100_003])
def test_a_permutation_has_every_number_once_in_the_order_of_random_words(count: int) -> None:
    drawn = tb_generator.Generator(3).permutation(count)
    assert sorted(drawn.tolist()) == list(range(count))
    words = tb_generator.Generator(3).integers(count, -(2**63), 2**63)
    assert drawn.tolist() == numpy.argsort(words, kind="stable").tolist()


def test_samples_follow_their_weights() -> None:
    generator = tb_generator.Generator(3)
    weights = numpy.array([1.0, 0.0, 3.0, 6.0])
    counts = numpy.bincount(generator.multinomial(weights, 100_000), minlength=4)
    assert counts[1] == 0
    assert abs(chi_square(counts[[0, 2, 3]], 1e4 * weights[[0, 2, 3]])) < 4
    first = numpy.bincount(
        [generator.multinomial(weights, 2, replacement=False)[0] for _ in range(20_000)], minlength=4
    )
    assert first[1] == 0
    assert abs(chi_square(first[[0, 2, 3]], 2e3 * weights[[0, 2, 3]])) < 4
    for _ in range(100):
        assert sorted(generator.multinomial([5, 0, 1, 2], 3, replacement=False)) == [0, 2, 3]


def test_impossible_samples_are_refused_and_take_no_words() -> None:
    generator = tb_generator.Generator(3)
    for weights in ([1, -1], [math.nan, 1], [math.inf, 1]):
        with pytest.raises(ValueError, match=r"weight \d is below 0, infinity or NaN"):
            generator.multinomial(weights, 1)
    with pytest.raises(ValueError, match="sum to 0"):
        generator.multinomial([0, 0], 1)
    with pytest.raises(ValueError, match="3 samples of 2 weights above 0 without replacement"):
        generator.multinomial([1, 0, 2], 3, replacement=False)
    with pytest.raises(ValueError, match="-1 elements"):
        generator.permutation(-1)
    assert generator.offset == 0


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("threads", [1, 7])
def test_dropout_zeroes_the_elements_of_the_bernoulli_mask_and_scales_the_rest(dtype: str, threads: int) -> None:
    source = tb_generator.Generator(1).normal(100_003, dtype=dtype)
    mask = numpy.zeros(source.shape, bool)
    out = tb_generator.Generator(5).dropout(source, 0.25, mask=mask, threads=threads)
    assert (mask == tb_generator.Generator(5).bernoulli(source.shape, 0.75)).all()
    scale = numpy.dtype("f8" if dtype == "float64" else "f4").type(1 / 0.75)
    assert (out == (source * mask * scale).astype(dtype)).all()
    same = source.copy()
    assert tb_generator.Generator(5).dropout(same, 0.25, out=same) is same
    assert same.tobytes() == out.tobytes()


def test_dropout_with_probability_0_and_1() -> None:
    generator = tb_generator.Generator(1)
    source = generator.normal((3, 5))
    assert (generator.dropout(source, 0.0) == source).all()
    assert (generator.dropout(source, 1.0) == 0).all()
    assert generator.dropout(source, 1.0).shape == (3, 5)
    offset = generator.offset
    with pytest.raises(ValueError, match="0 <= p <= 1"):
        generator.dropout(source, 1.5)
    with pytest.raises(ValueError, match="contiguous"):
        generator.dropout(source.T)
    assert generator.offset == offset
