"""Fills with given elements of one sequence, for the tests of bits and of distributions."""

import math
import struct
from typing import Any

import numpy
from numpy.typing import NDArray
from tb_generator import _core
from tb_generator.host_arrays import ELEMENT_TYPES

FLOATING = ["float32", "float64", "float16", "bfloat16"]
INTEGER = ["int64", "int32", "int16", "int8", "uint8", "bool"]
ARGUMENTS: dict[str, tuple[float, ...]] = {
    "uniform": (-1.0, 3.0),
    "normal": (1.0, 2.0),
    "integers": (0, 2),
    "bernoulli": (0.3,),
    "exponential": (1.5,),
    "cauchy": (0.5, 2.0),
    "log_normal": (0.25, 1.5),
    "geometric": (0.2,),
    "truncated_normal": (0.5, 2.0, -1.0, 3.0),
}
KINDS = {name: number for number, name in enumerate(ARGUMENTS, 1)}  # TB_FILL_*
COUNTED = [dtype for dtype in FLOATING + INTEGER if dtype != "bool"]
CASES = [
    *((kind, dtype) for kind in ARGUMENTS for dtype in FLOATING if kind not in ("integers", "bernoulli", "geometric")),
    *((kind, dtype) for kind in ("integers", "bernoulli") for dtype in FLOATING + INTEGER),
    *(("geometric", dtype) for dtype in COUNTED),
]
SEED, OFFSET = 1234567890123, 77
SETS = _core.instruction_sets()


def arguments_of(kind: str, dtype: str) -> tuple[float, ...]:
    """The arguments of a fill. Integers get (low, width), which rejects every fourth word, if the type has such."""
    if kind == "integers" and dtype in ("int64", "float32", "float64"):
        return (-(2**62), 3 * 2**62)
    return (-(2**31), 3 * 2**30) if (kind, dtype) == ("integers", "int32") else ARGUMENTS[kind]


def fill(kind: str, dtype: str, count: int, first: int = 0, threads: int = 1, arguments: Any = None) -> bytes:
    """The bytes of elements `first` to `first` + `count` of the sequence SEED, OFFSET."""
    number, letter = ELEMENT_TYPES[dtype]
    out = bytearray(count * struct.calcsize(letter))
    given = arguments or arguments_of(kind, dtype)
    numbers, low, width = (given, 0, 0) if kind != "integers" else ((), *given)
    target = _core.HostArray(out, number, True)
    four = [*numbers, 0.0, 0.0, 0.0, 0.0][:4]
    _core.fill(target, KINDS[kind], four, low, width, SEED, OFFSET, first, threads)
    return bytes(out)


def values(kind: str, dtype: str, count: int, arguments: Any = None) -> NDArray[Any]:
    """The elements of a fill as float64, or as int64 for integer types."""
    data = fill(kind, dtype, count, arguments=arguments)
    if dtype == "bfloat16":
        return (numpy.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4").astype("f8")
    array = numpy.frombuffer(data, ELEMENT_TYPES[dtype][1])
    return array.astype("f8" if dtype in FLOATING else "i8")


def kolmogorov(drawn: NDArray[Any], cumulative: NDArray[Any]) -> float:
    """The distance of the empirical distribution from the true one, times the square root of the number of samples.

    It exceeds 1.95 with a probability of 0.001.
    """
    order = numpy.argsort(drawn)
    steps = numpy.arange(1, drawn.size + 1) / drawn.size
    return float(numpy.abs(cumulative[order] - steps).max() * math.sqrt(drawn.size))


def chi_square(counts: NDArray[Any], expected: float) -> float:
    """Chi-square of the counts, as a number of standard deviations from its expected value."""
    freedom = counts.size - 1
    return float((((counts - expected) ** 2 / expected).sum() - freedom) / math.sqrt(2 * freedom))
