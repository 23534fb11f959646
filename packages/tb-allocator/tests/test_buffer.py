"""Buffer: bytes are shared through the buffer protocol and DLPack, copied, pinned, kept alive and freed."""

from __future__ import annotations

import ctypes
import gc
import pickle
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import tb_allocator
import tb_device
from conftest import Stream

MakeStream = Callable[[], Stream]


def view_of(buffer: tb_allocator.Buffer) -> memoryview:
    return memoryview(buffer)  # type: ignore[arg-type]  # the buffer protocol is not in stubs of Python 3.11


def test_a_buffer_has_size_device_stream_and_address() -> None:
    with tb_allocator.empty(1000) as buffer:
        assert (buffer.nbytes, len(buffer), buffer.device, buffer.freed) == (1000, 1000, 0, False)
        assert buffer.ptr % 64 == 0
        assert buffer.stream
        assert "1000 bytes" in repr(buffer)
        assert "device 0" in repr(buffer)
    assert buffer.freed
    assert "freed" in repr(buffer)


def test_an_empty_buffer_works() -> None:
    with tb_allocator.empty(0) as buffer:
        assert (buffer.ptr, buffer.nbytes, buffer.tobytes(), bytes(view_of(buffer))) == (0, 0, b"", b"")
        buffer.copy_from(b"")


def test_a_freed_buffer_refuses_use_and_may_be_freed_again() -> None:
    buffer = tb_allocator.empty(10)
    buffer.free()
    buffer.free()
    for use in (lambda: buffer.ptr, buffer.tobytes, lambda: view_of(buffer), buffer.__dlpack__):
        with pytest.raises((ValueError, BufferError), match="was freed"):
            use()


def test_memory_is_freed_with_the_last_reference() -> None:
    buffer = tb_allocator.empty(10)
    assert tb_allocator.memory_allocated() == 512
    del buffer
    gc.collect()
    assert tb_allocator.memory_allocated() == 0


def test_a_memoryview_reads_and_writes_the_bytes_and_keeps_them_alive() -> None:
    buffer = tb_allocator.empty(100)
    view = view_of(buffer)
    assert (view.nbytes, view.readonly, view.format) == (100, False, "B")
    view[:] = bytes(range(100))
    assert buffer.tobytes() == bytes(range(100))
    buffer.free()
    assert tb_allocator.memory_allocated() == 512
    assert view[99] == 99
    view.release()
    assert tb_allocator.memory_allocated() == 0


def test_a_memoryview_waits_for_the_work_queued_on_the_buffers_stream(make_stream: MakeStream) -> None:
    stream = make_stream()
    done: list[int] = []
    with tb_allocator.empty(10, stream=stream) as buffer:
        stream.call(lambda: done.append(1))
        view_of(buffer).release()
        assert done == [1]


def test_copies_are_in_the_order_of_the_stream(make_stream: MakeStream) -> None:
    with tb_allocator.empty(4, stream=make_stream()) as buffer:
        buffer.copy_from(bytearray(b"abcd"))
        assert buffer.tobytes() == b"abcd"
        with pytest.raises(ValueError, match="has 4 bytes, but 5 were given"):
            buffer.copy_from(b"12345")
        with pytest.raises(TypeError):
            buffer.copy_from(7)


def test_a_buffer_cannot_be_pickled_and_says_what_to_do() -> None:
    with tb_allocator.empty(4) as buffer, pytest.raises(TypeError, match="pickle its tobytes"):
        pickle.dumps(buffer)


# ---- DLPack ----


class DLTensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Legacy(ctypes.Structure):
    _fields_ = (("tensor", DLTensor), ("context", ctypes.c_void_p), ("deleter", DELETER))


class Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", DELETER),
        ("flags", ctypes.c_uint64),
        ("tensor", DLTensor),
    )


FORMS: dict[bytes, type[Any]] = {b"dltensor": Legacy, b"dltensor_versioned": Versioned}


def consume(capsule: object, name: bytes) -> tuple[Any, int]:
    """Takes the tensor from a capsule as a consumer does. Returns the struct, and its address for the deleter."""
    get, rename = ctypes.pythonapi.PyCapsule_GetPointer, ctypes.pythonapi.PyCapsule_SetName
    get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    rename.argtypes = (ctypes.py_object, ctypes.c_char_p)
    address = get(capsule, name)
    rename(capsule, b"used_" + name)
    return FORMS[name].from_address(address), address


@pytest.mark.parametrize(
    ("max_version", "name"),
    [
        (None, b"dltensor"),
        ((0, 8), b"dltensor"),
        ((1, 0), b"dltensor_versioned"),
        ((1, 3), b"dltensor_versioned"),
        ((2, 0), b"dltensor_versioned"),
    ],
)
def test_dlpack_exports_the_version_that_the_consumer_asks_for(
    max_version: tuple[int, int] | None, name: bytes
) -> None:
    buffer = tb_allocator.empty(100)
    view_of(buffer)[:] = bytes(range(100))
    managed, address = consume(buffer.__dlpack__(max_version=max_version), name)
    tensor = managed.tensor
    assert (tensor.data, tensor.ndim, tensor.shape[0], tensor.strides[0]) == (buffer.ptr, 1, 100, 1)
    assert (tensor.code, tensor.bits, tensor.lanes, tensor.byte_offset) == (1, 8, 1, 0)
    assert (tensor.device_type, tensor.device_id) == buffer.__dlpack_device__() == (1, 0)
    if name == b"dltensor_versioned":
        assert (managed.major, managed.flags) == (1, 0)
    del buffer
    gc.collect()
    assert tb_allocator.memory_allocated() == 512
    assert ctypes.string_at(tensor.data, 100) == bytes(range(100))
    managed.deleter(address)
    assert tb_allocator.memory_allocated() == 0


def test_an_unused_capsule_frees_the_memory() -> None:
    for max_version in (None, (1, 0)):
        capsule = tb_allocator.empty(10).__dlpack__(max_version=max_version)
        assert tb_allocator.memory_allocated() == 512
        del capsule
        gc.collect()
        assert tb_allocator.memory_allocated() == 0


def test_dlpack_copies_when_asked_and_marks_it() -> None:
    with tb_allocator.empty(3) as buffer:
        buffer.copy_from(b"abc")
        managed, address = consume(buffer.__dlpack__(max_version=(1, 0), copy=True), b"dltensor_versioned")
        assert managed.tensor.data != buffer.ptr
        assert managed.flags == 2
        buffer.copy_from(b"xyz")
        assert ctypes.string_at(managed.tensor.data, 3) == b"abc"
        managed.deleter(address)


def test_dlpack_waits_for_the_buffers_stream(make_stream: MakeStream) -> None:
    stream = make_stream()
    done: list[int] = []
    with tb_allocator.empty(10, stream=stream) as buffer:
        stream.call(lambda: done.append(1))
        del_me = buffer.__dlpack__()
        assert done == [1]
        del del_me


def test_dlpack_refuses_unsupported_requests() -> None:
    with tb_allocator.empty(3) as buffer:
        with pytest.raises(BufferError, match="without a copy"):
            buffer.__dlpack__(dl_device=(2, 0))
        with pytest.raises(ValueError, match="stream must be None"):
            buffer.__dlpack__(stream=5)
        assert buffer.__dlpack__(dl_device=(1, 0), stream=-1) is not None


def test_numpy_shares_the_bytes() -> None:
    with tb_allocator.empty(16) as buffer, tb_allocator.pinned(16) as pinned:
        for one in (buffer, pinned):
            array = numpy.from_dlpack(one)
            array[:] = range(16)
            assert one.tobytes() == bytes(range(16))
            assert array.ctypes.data == one.ptr
            del array


# ---- pinned memory ----


def test_pinned_memory_is_host_memory_and_cached() -> None:
    with tb_allocator.pinned(1000) as buffer:
        assert (buffer.nbytes, buffer.device, buffer.stream, buffer.__dlpack_device__()) == (1000, None, 0, (1, 0))
        view_of(buffer)[:3] = b"abc"
        assert buffer.tobytes()[:3] == b"abc"
        assert "pinned" in repr(buffer)
        address = buffer.ptr
    with tb_allocator.pinned(1000) as again:
        assert again.ptr == address
    assert tb_allocator.host_memory_stats()["num_device_alloc"] >= 1


def test_pinned_memory_waits_for_the_streams_that_copy_it(make_stream: MakeStream) -> None:
    stream = make_stream()
    buffer = tb_allocator.pinned(1000)
    address = buffer.ptr
    buffer.record_stream(stream)
    gate = stream.hold()
    buffer.free()
    with tb_allocator.pinned(1000) as other:
        assert other.ptr != address
    gate.set()
    tb_device.synchronize()
    both = [tb_allocator.pinned(1000) for _ in range(2)]
    assert address in [one.ptr for one in both]


def test_large_pinned_memory_is_rounded_up_to_pages() -> None:
    tb_allocator.empty_host_cache()  # idle memory that the allocation returns would change the statistics
    before = tb_allocator.host_memory_stats()["reserved_bytes.all.current"]
    with tb_allocator.pinned((5 << 20) + 1):
        taken = tb_allocator.host_memory_stats()["reserved_bytes.all.current"] - before
    assert taken == (5 << 20) + (4 << 10)
