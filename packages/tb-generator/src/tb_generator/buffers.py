"""Where random elements go: a caller's buffer or a new array, and the element type that it holds."""

import importlib
import math
import operator
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple


class ElementType(NamedTuple):
    """An element type: its number in tb/component.h, bytes, and what the buffer protocol calls it."""

    number: int
    size: int
    formats: str


# bfloat16 has no letter in the buffer protocol: its bits are kept as unsigned 16-bit integers.
ELEMENT_TYPES = {
    "float32": ElementType(1, 4, "f"),
    "float64": ElementType(2, 8, "d"),
    "float16": ElementType(3, 2, "e"),
    "bfloat16": ElementType(4, 2, "H"),
    "int64": ElementType(5, 8, "ql"),
    "int32": ElementType(6, 4, "i"),
    "int16": ElementType(7, 2, "h"),
    "int8": ElementType(8, 1, "b"),
    "uint8": ElementType(9, 1, "B"),
    "bool": ElementType(10, 1, "?"),
}
NATIVE = "<>"[sys.byteorder == "big"] + "@="


class Target(NamedTuple):
    """What a fill writes: `result` is what the user gets, `view` its bytes."""

    result: Any
    view: memoryview
    element: ElementType
    elements: int


def target(out: Any, dtype: str | None, default: str) -> Target:
    """`out` is a writable contiguous buffer, a number of elements or a shape; see Generator."""
    if dtype is not None and dtype not in ELEMENT_TYPES:
        raise ValueError(f"dtype {dtype!r} is not known. Use one of {', '.join(ELEMENT_TYPES)}")
    shape = shape_of(out)
    if shape is not None:
        return new_array(shape, dtype or default)
    try:
        view = memoryview(out)
    except TypeError as error:
        raise TypeError(
            f"out is a {type(out).__name__}. Give a writable buffer, a number of elements or a shape"
        ) from error
    return existing_buffer(out, view, dtype)


def shape_of(out: Any) -> tuple[int, ...] | None:
    """The shape that `out` asks for; None if it is a buffer."""
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


def new_array(shape: tuple[int, ...], dtype: str) -> Target:
    """A NumPy array where numpy is installed, else a memoryview of the same shape."""
    element = ELEMENT_TYPES[dtype]
    count = math.prod(shape)
    letter: Any = element.formats[0]
    try:
        numpy = importlib.import_module("numpy")
    except ModuleNotFoundError:
        flat = memoryview(bytearray(count * element.size))
        # An empty memoryview cannot be given a shape.
        result = flat.cast(letter, shape) if count and shape else flat.cast(letter)
        return Target(result, flat, element, count)
    array = numpy.empty(shape, letter)
    return Target(array, memoryview(array.reshape(-1)).cast("B") if count else memoryview(bytearray()), element, count)


def existing_buffer(out: Any, view: memoryview, dtype: str | None) -> Target:
    """`out` itself, whose own element type is taken unless `dtype` says what its bytes shall be."""
    if view.readonly:
        raise ValueError("out is read-only. Give a writable buffer, for example a bytearray instead of bytes")
    if not view.c_contiguous:
        raise ValueError(f"out is not contiguous: shape {view.shape}, strides {view.strides}. Fill a copy instead")
    letter = view.format[1:] if view.format[:1] in NATIVE else view.format
    if dtype is None:
        dtype = next((name for name, element in ELEMENT_TYPES.items() if letter in element.formats), None)
        if dtype is None or letter == "H":
            raise ValueError(
                f"out has elements of format {view.format!r}, which no fill makes. Say with dtype what its bytes shall "
                f"be: one of {', '.join(ELEMENT_TYPES)}"
            )
    element = ELEMENT_TYPES[dtype]
    # Other formats of the right size are refused, or a float32 fill of int32 numbers would go unseen.
    if letter not in element.formats and letter not in "Bbc":
        raise ValueError(
            f"out has elements of format {view.format!r}, not {dtype}. Leave dtype out, or view it as bytes"
        )
    if view.nbytes % element.size:
        raise ValueError(f"out has {view.nbytes} bytes, not a multiple of {dtype}'s {element.size}")
    return Target(out, view, element, view.nbytes // element.size)
