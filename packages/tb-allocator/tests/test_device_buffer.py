"""DeviceBuffer, memory for native streams, and the CUDA interfaces on drivers other than CUDA's."""

from __future__ import annotations

import ctypes
import os
import pickle
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tb_allocator
import tb_device
from conftest import Python, Stream, slot
from tb_allocator import DeviceBuffer, _core, foreign


def native_of(stream: Stream) -> int:
    out = ctypes.c_uint64()
    assert slot("stream_native")(stream.handle, ctypes.byref(out)) == 0
    return out.value


def test_bytes_go_in_and_out() -> None:
    buffer = DeviceBuffer.to_device(b"hello world")
    assert (buffer.size, buffer.nbytes, len(buffer)) == (11, 11, 11)
    assert buffer.tobytes() == bytes(buffer) == buffer.copy_to_host() == b"hello world"
    assert buffer.hex() == b"hello world".hex()
    target = np.zeros(11, np.uint8)
    assert buffer.copy_to_host(target) is target
    assert target.tobytes() == b"hello world"
    buffer.copy_from_host(b"HELLO WORLD")
    assert np.from_dlpack(buffer).tobytes() == b"HELLO WORLD"
    with pytest.raises(ValueError, match="the buffer has 11 bytes, but the target 3"):
        buffer.copy_to_host(bytearray(3))


def test_copies_are_memory_of_their_own() -> None:
    source = np.arange(100, dtype=np.uint8)
    first = DeviceBuffer(ptr=source.ctypes.data, size=100)
    source[:] = 0
    second = first.copy()
    first.copy_from_host(bytes(100))
    assert second.tobytes() == bytes(range(100))
    third = DeviceBuffer(size=100)
    third.copy_from_device(second)
    assert third.tobytes() == bytes(range(100))
    assert pickle.loads(pickle.dumps(third)).tobytes() == bytes(range(100))
    with pytest.raises(ValueError, match="the buffer has 100 bytes, but 3 were given"):
        third.copy_from_device(DeviceBuffer(size=3))


def test_a_copy_waits_for_the_work_that_writes_its_source(make_stream: Callable[[], Stream]) -> None:
    stream = make_stream()
    source = DeviceBuffer(size=4, stream=stream)
    gate = stream.hold()
    view = np.frombuffer((ctypes.c_uint8 * 4).from_address(source.ptr), np.uint8)
    stream.call(lambda: view.fill(7))
    target = DeviceBuffer(size=4)
    threading.Timer(0.1, gate.set).start()  # opens the gate while the copy waits
    target.copy_from_device(source)
    assert target.tobytes() == b"\x07" * 4


class _Array:
    """What another library's array shows."""

    def __init__(self, data: np.ndarray, strides: tuple[int, ...] | None = None) -> None:
        self.__cuda_array_interface__ = {
            "shape": data.shape,
            "typestr": data.dtype.str,
            "data": (data.ctypes.data, False),
            "strides": strides,
            "version": 3,
        }


def test_arrays_of_other_libraries_are_copied_whole() -> None:
    data = np.arange(6, dtype=np.int32).reshape(2, 3)
    buffer = DeviceBuffer(size=24)
    buffer.copy_from_device(_Array(data))
    assert buffer.tobytes() == data.tobytes()
    with pytest.raises(ValueError, match="not contiguous"):
        buffer.copy_from_device(_Array(data, strides=(4, 8)))


def test_memory_that_is_not_cuda_has_no_cuda_array_interface() -> None:
    with tb_allocator.empty(8) as buffer:
        assert not hasattr(buffer, "__cuda_array_interface__")
    assert not hasattr(DeviceBuffer(size=8), "__cuda_array_interface__")


@pytest.mark.usefixtures("says_cuda")
def test_the_cuda_array_interface_names_the_bytes_and_their_stream(make_stream: Callable[[], Stream]) -> None:
    stream = make_stream()
    with tb_allocator.empty(24, stream=stream) as buffer:
        assert buffer.__cuda_array_interface__ == {
            "shape": (24,),
            "typestr": "|u1",
            "data": (buffer.ptr, False),
            "strides": None,
            "version": 3,
            "stream": native_of(stream),
        }
        target = DeviceBuffer(size=24)
        source = DeviceBuffer(size=24, stream=stream)
        view = np.frombuffer((ctypes.c_uint8 * 24).from_address(source.ptr), np.uint8)
        gate = stream.hold()
        stream.call(lambda: view.fill(7))
        threading.Timer(0.1, gate.set).start()  # opens the gate while the copy waits
        target.copy_from_device(_Shown(source.__cuda_array_interface__))
        assert target.tobytes() == b"\x07" * 24


class _Shown:
    def __init__(self, interface: dict[str, object]) -> None:
        self.__cuda_array_interface__ = interface


@pytest.mark.usefixtures("says_cuda")
def test_on_cuda_the_consumers_stream_waits_and_not_the_host(make_stream: Callable[[], Stream]) -> None:
    producer, consumer = make_stream(), make_stream()
    order: list[str] = []
    buffer = tb_allocator.empty(24, stream=producer)
    assert buffer.__dlpack_device__() == (2, 0)
    gate = producer.hold()
    producer.call(lambda: order.append("written"))
    capsule = buffer.__dlpack__(stream=native_of(consumer), max_version=(1, 0))  # returns although the producer is held
    consumer.call(lambda: order.append("read"))
    assert order == []
    gate.set()
    tb_device.synchronize()
    assert order == ["written", "read"]
    # Memory that the consumer still uses is not handed out again.
    address, gate = buffer.ptr, consumer.hold()
    del capsule
    buffer.free()
    with tb_allocator.empty(24, stream=producer) as other:
        assert other.ptr != address
    gate.set()


@pytest.mark.usefixtures("says_cuda")
def test_stream_0_of_cuda_is_refused() -> None:
    with tb_allocator.empty(8) as buffer, pytest.raises(ValueError, match="stream 0 of CUDA could mean two streams"):
        buffer.__dlpack__(stream=0)


def test_a_native_stream_is_wrapped_once(make_stream: Callable[[], Stream]) -> None:
    native = native_of(make_stream())
    wrapped = _core._foreign_stream(0, native)
    assert wrapped == _core._foreign_stream(0, native) != 0
    with foreign.allocate(512, 0, native) as buffer:
        assert buffer.stream == wrapped
        foreign.record_stream(buffer, 0, 0)
    with foreign.allocate(512, 0, 0) as buffer:
        assert buffer.stream != wrapped
    with pytest.raises(tb_device.NotFoundError, match="no live stream"):
        _core._foreign_stream(0, 12345)


def test_adapters_refuse_a_driver_that_is_not_cuda() -> None:
    with pytest.raises(RuntimeError, match=r"tb_allocator\.rmm gives memory of a CUDA device, .*set TB_DRIVER=cuda"):
        foreign.require_cuda("rmm")


def test_other_libraries_are_imported_only_when_asked(python: Python) -> None:
    code = """
        import sys, tb_allocator
        tb_allocator.DeviceBuffer
        print({"cupy", "numba", "rmm", "torch", "numpy"} & set(sys.modules))
    """
    assert python.output(code) == "set()"


def test_the_header_for_cpp_is_installed_and_compiles_alone(tmp_path: Path) -> None:
    source = tmp_path / "user.cpp"
    source.write_text(
        """
        #include "tb/memory_resource.h"
        #include <vector>
        void use(const tb_allocator_table &table, tb_stream *stream) {
          tb::PinnedMemoryResource pinned(table);
          std::pmr::vector<float> numbers(1000, &pinned);
          tb::StreamMemoryResource memory(table, 0);
          memory.deallocate(stream, memory.allocate(stream, numbers.size()));
        }
        """
    )
    folders = [f"-I{folder}" for folder in (tb_allocator.get_include(), tb_device.get_include())]
    options = ["-std=c++20", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
    subprocess.run([os.environ.get("CXX", "c++"), *options, *folders, str(source)], check=True)
