"""The memory that fills write: the caller's, or a new array."""

import importlib
import math
import operator
import struct
import sys
from collections.abc import Sequence
from typing import Any

from . import _core

ELEMENT_TYPES = {
    "float32": (1, "f"),
    "float64": (2, "d"),
    "float16": (3, "e"),
    "bfloat16": (4, "H"),
    "int64": (5, "q"),
    "int32": (6, "i"),
    "int16": (7, "h"),
    "int8": (8, "b"),
    "uint8": (9, "B"),
    "bool": (10, "?"),
}
"""The number in tb/component.h and the format letter of the buffer protocol; bfloat16 has that of 16-bit integers."""


def array_for(out: Any, dtype: str | None, default: str) -> tuple[Any, _core.HostArray]:
    """The object to return to the user and the elements to fill, for a buffer, DLPack tensor, count or shape.

    ValueError: an unknown dtype or a negative size. TypeError: `out` is none of these.
    """
    if dtype is not None and dtype not in ELEMENT_TYPES:
        raise ValueError(f"dtype {dtype!r} is not known. Use one of {', '.join(ELEMENT_TYPES)}")
    shape = shape_of(out)
    if shape is not None:
        return new_array(shape, dtype or default)
    return out, _core.HostArray(out, ELEMENT_TYPES[dtype][0] if dtype else 0, True)


def shape_of(out: Any) -> tuple[int, ...] | None:
    """The shape that `out` describes; None if it is memory."""
    if isinstance(out, tuple | list):
        sizes: Sequence[Any] = out
    elif hasattr(out, "__index__") and not hasattr(out, "shape"):
        sizes = (out,)
    else:
        return None
    shape = tuple(operator.index(size) for size in sizes)
    if any(size < 0 for size in shape):
        raise ValueError(f"shape {shape} has a negative size")
    return shape


def new_array(shape: tuple[int, ...], dtype: str) -> tuple[Any, _core.HostArray]:
    """A NumPy array if numpy is installed, else a memoryview of the same shape."""
    number, letter = ELEMENT_TYPES[dtype]
    try:
        numpy = importlib.import_module("numpy")
    except ModuleNotFoundError:
        flat = memoryview(bytearray(math.prod(shape) * struct.calcsize(letter)))
        # memoryview.cast supports float16 from Python 3.12 on. Earlier versions get the bits as integers.
        form: Any = "H" if letter == "e" and sys.version_info < (3, 12) else letter
        # An empty memoryview cannot be given a shape.
        result = flat.cast(form, shape) if len(flat) and shape else flat.cast(form)
        return result, _core.HostArray(flat, number, True)
    array = numpy.empty(shape, letter)
    return array, _core.HostArray(array, number, True)
