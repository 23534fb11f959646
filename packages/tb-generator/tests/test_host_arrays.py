"""The memory that fills write: strided arrays, DLPack tensors, and errors for other memory."""

import ctypes
from typing import Any

import numpy
import pytest
import tb_generator
from fills import ARGUMENTS
from tb_generator import _core


@pytest.mark.parametrize("kind", ["uniform", "normal", "exponential", "geometric", "truncated_normal"])
@pytest.mark.parametrize("threads", [1, 2, 7])
def test_strided_targets_get_the_same_numbers_in_row_major_order(kind: str, threads: int) -> None:
    def made(out: Any) -> Any:
        return getattr(tb_generator.Generator(5), kind)(out, *ARGUMENTS[kind], threads=threads)

    plain = made(numpy.zeros((60, 70, 8)))
    for strided in (
        numpy.zeros((8, 70, 60)).T,
        numpy.zeros((60, 140, 8))[:, ::2],
        numpy.zeros((60, 70, 8))[::-1, :, ::-1],
        numpy.zeros((60, 70, 11))[..., 2:10],
    ):
        assert made(strided) is strided
        assert (strided == plain).all()


def test_memory_between_the_elements_is_not_written() -> None:
    whole = numpy.full((40, 40), 7.0, numpy.float32)
    tb_generator.Generator(1).uniform(whole[1::2, ::3])
    touched = numpy.zeros((40, 40), bool)
    touched[1::2, ::3] = True
    assert (whole[~touched] == 7).all()
    assert (whole[touched] < 1).all()


class Tensor:
    """A DLPack tensor that owns its memory and counts calls of its deleter."""

    class Layout(ctypes.Structure):
        _fields_ = (
            ("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
            ("dimensions", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
            ("lanes", ctypes.c_uint16), ("shape", ctypes.c_void_p), ("strides", ctypes.c_void_p),
            ("byte_offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p),
        )  # fmt: skip

    def __init__(self, code: int, bits: int, shape: list[int], strides: list[int] | None, device: int = 1) -> None:
        self.memory = ctypes.create_string_buffer(4096)
        self.deleted = 0

        def delete(_: Any) -> None:
            self.deleted += 1

        self.deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(delete)
        numbers = ctypes.c_int64 * len(shape)
        self.shape, self.strides = numbers(*shape), numbers(*(strides or shape))
        self.layout = self.Layout(
            ctypes.addressof(self.memory), device, 0, len(shape), code, bits, 1, ctypes.addressof(self.shape),
            ctypes.addressof(self.strides) if strides else None, 16, None, ctypes.cast(self.deleter, ctypes.c_void_p),
        )  # fmt: skip

    def __dlpack__(self) -> Any:
        make = ctypes.pythonapi.PyCapsule_New
        make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        self.name = b"dltensor"
        return make(ctypes.addressof(self.layout), self.name, None)


@pytest.mark.parametrize(("code", "bits", "dtype"), [(2, 32, "float32"), (2, 16, "float16"), (4, 16, "bfloat16")])
def test_dlpack_tensors_are_filled_with_their_own_type_and_given_back(code: int, bits: int, dtype: str) -> None:
    expected = tb_generator.Generator(1).normal(12, dtype=dtype)
    for strides in (None, [1, 3]):
        tensor = Tensor(code, bits, [3, 4], strides)
        assert tb_generator.Generator(1).normal(tensor) is tensor
        got = numpy.frombuffer(tensor.memory.raw, expected.dtype, 12, 16)
        assert (got == (expected if strides is None else expected.reshape(3, 4).T.ravel())).all()
        assert tensor.memory.raw[:16] == bytes(16)
        assert tensor.deleted == 1


def test_dlpack_tensors_that_cannot_be_filled_are_refused() -> None:
    generator = tb_generator.Generator(1)
    with pytest.raises(ValueError, match="not in host memory"):
        generator.uniform(Tensor(2, 32, [4], None, device=2))
    with pytest.raises(ValueError, match="elements that no fill makes"):
        generator.uniform(Tensor(5, 64, [4], None))
    with pytest.raises(ValueError, match="not of the dtype asked for"):
        generator.uniform(Tensor(2, 32, [4], None), dtype="float64")
    assert generator.offset == 0


def test_memory_that_cannot_be_filled_is_refused_with_the_reason() -> None:
    generator = tb_generator.Generator(1)
    with pytest.raises(ValueError, match="read-only"):
        generator.uniform(bytes(8), dtype="float32")
    with pytest.raises(ValueError, match="several elements in the same place"):
        _core.HostArray(numpy.broadcast_to(numpy.zeros(4, "f4"), (3, 4)), 0, False)
    with pytest.raises(ValueError, match="not contiguous, so its bytes"):
        generator.uniform(numpy.zeros((4, 8), "u1")[:, ::2], dtype="float32")
    with pytest.raises(ValueError, match="not of the dtype asked for"):
        generator.uniform(numpy.zeros(4, "i8"), dtype="float32")
    with pytest.raises(ValueError, match="not int64"):
        generator.uniform(numpy.zeros(4, "i8"))
    with pytest.raises(ValueError, match="no fill makes"):
        generator.uniform(numpy.zeros(4, "c8"))
    with pytest.raises(ValueError, match="no fill makes"):
        generator.uniform(numpy.zeros(4, ">f4"))
    with pytest.raises(ValueError, match="not a multiple of the dtype's 4"):
        generator.uniform(bytearray(6), dtype="float32")
    with pytest.raises(ValueError, match="dtype 'float8' is not known"):
        generator.uniform(4, dtype="float8")
    with pytest.raises(TypeError, match="out is a object"):
        generator.uniform(object())
    with pytest.raises(TypeError, match="out is a str"):
        generator.uniform("abc")
    with pytest.raises(ValueError, match="negative size"):
        generator.uniform((2, -1))
    with pytest.raises(ValueError, match="threads is 0"):
        generator.uniform(4, threads=0)
    assert generator.offset == 0
