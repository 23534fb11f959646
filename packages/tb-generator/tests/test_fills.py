"""What the fills promise: bits that depend on seed, offset and index alone, bounds, and the right distributions."""

import hashlib
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy
import pytest
import tb_generator
from numpy.typing import NDArray
from tb_generator import _core
from tb_generator.buffers import ELEMENT_TYPES

FLOATING = ["float32", "float64", "float16", "bfloat16"]
INTEGER = ["int64", "int32", "int16", "int8", "uint8", "bool"]
CASES = [
    *((kind, dtype) for kind in ("uniform", "normal", "exponential") for dtype in FLOATING),
    *((kind, dtype) for kind in ("integers", "bernoulli") for dtype in FLOATING + INTEGER),
]
ARGUMENTS: dict[str, tuple[float, ...]] = {
    "uniform": (-1.0, 3.0),
    "normal": (1.0, 2.0),
    "integers": (0, 2),
    "bernoulli": (0.3,),
    "exponential": (1.5,),
}
KINDS = {"uniform": 1, "normal": 2, "integers": 3, "bernoulli": 4, "exponential": 5}  # TB_FILL_*
SEED, OFFSET = 1234567890123, 77


SETS = _core.instruction_sets()


@pytest.fixture(params=SETS)
def code(request: pytest.FixtureRequest) -> Iterator[str]:
    _core.use_instruction_set(request.param)
    yield request.param
    _core.use_instruction_set(SETS[-1])


def arguments_of(kind: str, dtype: str) -> tuple[float, ...]:
    """For integers intervals that reject every fourth word, where the type has such."""
    if kind == "integers" and dtype in ("int64", "float32", "float64"):
        return (-(2**62), 3 * 2**62)
    return (-(2**31), 3 * 2**30) if (kind, dtype) == ("integers", "int32") else ARGUMENTS[kind]


def fill(kind: str, dtype: str, count: int, first: int = 0, threads: int = 1, arguments: Any = None) -> bytes:
    element = ELEMENT_TYPES[dtype]
    out = bytearray(count * element.size)
    call = getattr(_core, kind)
    call(out, element.number, first, count, SEED, OFFSET, *(arguments or arguments_of(kind, dtype)), threads)
    return bytes(out)


def values(kind: str, dtype: str, count: int, arguments: Any = None) -> NDArray[Any]:
    """As float64, or int64 for integer types."""
    data = fill(kind, dtype, count, arguments=arguments)
    if dtype == "bfloat16":
        return (numpy.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4").astype("f8")
    array = numpy.frombuffer(data, ELEMENT_TYPES[dtype].formats[0])
    return array.astype("f8" if dtype in FLOATING else "i8")


@pytest.mark.parametrize(("kind", "dtype"), CASES)
def test_bits_do_not_depend_on_how_a_range_is_cut(kind: str, dtype: str, code: str) -> None:
    size = ELEMENT_TYPES[dtype].size
    whole = fill(kind, dtype, 3001)
    for cuts in ([1, 2, 3, 4, 5, 6, 7, 1023], [256, 257, 512, 513, 2047], [64, 1500], [2999, 3000]):
        parts = [fill(kind, dtype, end - start, start) for start, end in zip([0, *cuts], [*cuts, 3001], strict=True)]
        assert b"".join(parts) == whole
    assert fill(kind, dtype, 1, 3000) == whole[-size:]


@pytest.mark.parametrize(("kind", "dtype"), CASES)
def test_bits_do_not_depend_on_the_number_of_threads(kind: str, dtype: str) -> None:
    one = fill(kind, dtype, 50_001)
    assert one != bytes(len(one))
    for threads in (2, 3, 7, 64):
        assert fill(kind, dtype, 50_001, threads=threads) == one


@pytest.mark.parametrize(("kind", "dtype"), CASES)
def test_every_instruction_set_gives_the_same_bits(kind: str, dtype: str) -> None:
    written = {}
    try:
        for name in SETS:
            _core.use_instruction_set(name)
            written[name] = fill(kind, dtype, 20_003)
    finally:
        _core.use_instruction_set(SETS[-1])
    assert set(written.values()) == {written["portable"]}


# SHA-256 of 10,007 elements from element 5 on, written down once: other machines, compilers, releases must repeat it.
GOLDEN = {
    ("uniform", "float32"): "6de815ffa7f18fa4",
    ("uniform", "float64"): "911ec6bed7deabc7",
    ("uniform", "float16"): "9c1b70d760cf4a1e",
    ("uniform", "bfloat16"): "4b26c67ff878fd05",
    ("normal", "float32"): "a812db9d855ace2a",
    ("normal", "float64"): "09f490e955f1eb40",
    ("normal", "float16"): "d5d3910ebff111d2",
    ("normal", "bfloat16"): "e0556a6b6207c7cf",
    ("exponential", "float32"): "502e747c13d0a496",
    ("exponential", "float64"): "a29f9f865a52045d",
    ("exponential", "float16"): "a93ca0c0c4972b45",
    ("exponential", "bfloat16"): "91d6f11af6eee65e",
    ("integers", "float32"): "52b63c0d9391417f",
    ("integers", "float64"): "621bc2500b46f645",
    ("integers", "float16"): "c2e169d09a46fd97",
    ("integers", "bfloat16"): "048a38b4caafbce3",
    ("integers", "int64"): "59c884e91f889122",
    ("integers", "int32"): "03bb60dc2f9d18bf",
    ("integers", "int16"): "6c90beea8cd48fa7",
    ("integers", "int8"): "9dea3b22105b6563",
    ("integers", "uint8"): "9dea3b22105b6563",
    ("integers", "bool"): "9dea3b22105b6563",
    ("bernoulli", "float32"): "fb659db56dbf9c18",
    ("bernoulli", "float64"): "074d5bb7ef1a9dde",
    ("bernoulli", "float16"): "46dc5f816cd31d93",
    ("bernoulli", "bfloat16"): "1e496c9d91ca98b0",
    ("bernoulli", "int64"): "51e33f34e003dc75",
    ("bernoulli", "int32"): "d5c422df1acd6b0b",
    ("bernoulli", "int16"): "170ed212c7f786fd",
    ("bernoulli", "int8"): "ca3b039ce35e13b5",
    ("bernoulli", "uint8"): "ca3b039ce35e13b5",
    ("bernoulli", "bool"): "ca3b039ce35e13b5",
}


@pytest.mark.parametrize(("kind", "dtype"), CASES)
def test_bits_are_those_of_every_machine(kind: str, dtype: str) -> None:
    assert hashlib.sha256(fill(kind, dtype, 10_007, first=5)).hexdigest()[:16] == GOLDEN[kind, dtype]


def test_the_environment_chooses_the_instruction_set() -> None:
    program = "from tb_generator import _core; print(_core.instruction_set())"
    for name in [*SETS, "none such"]:
        environment = {**os.environ, "TB_GENERATOR_INSTRUCTIONS": name}
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        assert done.stdout.strip() == (name if name in SETS else SETS[-1]), done.stderr
    with pytest.raises(ValueError, match="no instruction set 'mmx' on this processor"):
        _core.use_instruction_set("mmx")


@pytest.mark.parametrize(("kind", "dtype"), CASES)
def test_successive_fills_do_not_share_words(kind: str, dtype: str) -> None:
    element = ELEMENT_TYPES[dtype]
    per_block = 16 // _core.words_needed(KINDS[kind], element.number, 4)
    whole, first, second = (bytearray(count * element.size) for count in (40, 10, 7))
    getattr(tb_generator.Generator(SEED), kind)(whole, *ARGUMENTS[kind], dtype=dtype)
    generator = tb_generator.Generator(SEED)
    getattr(generator, kind)(first, *ARGUMENTS[kind], dtype=dtype)
    taken = generator.offset
    assert taken == math.ceil(10 / per_block)
    getattr(generator, kind)(second, *ARGUMENTS[kind], dtype=dtype)
    start = taken * per_block * element.size
    assert first == whole[: 10 * element.size]
    assert second == whole[start : start + 7 * element.size]


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


def kolmogorov(drawn: NDArray[Any], cumulative: NDArray[Any]) -> float:
    """Distance of the empirical distribution from the true one, times the root of the number of samples.

    Beyond 1.95 with probability 0.001.
    """
    order = numpy.argsort(drawn)
    steps = numpy.arange(1, drawn.size + 1) / drawn.size
    return float(numpy.abs(cumulative[order] - steps).max() * math.sqrt(drawn.size))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_uniform_has_the_uniform_distribution(dtype: str) -> None:
    drawn = values("uniform", dtype, 1_000_000, (0.0, 1.0))
    assert kolmogorov(drawn, drawn) < 1.95
    assert abs(drawn.mean() - 0.5) < 4 * math.sqrt(1 / 12 / 1e6)
    assert abs(drawn.var() - 1 / 12) < 4e-4
    # neighbours, and elements a block apart, are not correlated
    for lag in (1, 2, 4, 256):
        assert abs(numpy.corrcoef(drawn[:-lag], drawn[lag:])[0, 1]) < 4e-3


@pytest.mark.parametrize("dtype", FLOATING)
def test_uniform_of_every_type_has_the_moments(dtype: str) -> None:
    drawn = values("uniform", dtype, 1_000_000, (-1.0, 3.0))
    # 16-bit types round to steps of up to 2^-7 below 2, both ways alike
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


def chi_square(counts: NDArray[Any], expected: float) -> float:
    """In standard deviations from what is expected of it."""
    freedom = counts.size - 1
    return float((((counts - expected) ** 2 / expected).sum() - freedom) / math.sqrt(2 * freedom))


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
def test_bernoulli_refuses_what_is_no_probability(p: float) -> None:
    with pytest.raises(ValueError, match="give a probability"):
        tb_generator.Generator(1).bernoulli(10, p)


def test_normal_and_exponential_refuse_what_has_no_distribution() -> None:
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
