"""Work that a test queues, holds or lets fail, the C table through ctypes, and separate Python processes."""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tb_stream
from tb_stream import _core

sys.path.append(str(Path(__file__).resolve().parents[1] / "shared" / "testing"))

from tb_testing import HostCalls, Python, slot

__all__ = ["Closure", "Export", "Python", "Work", "slot"]

RUN = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
DESTROY = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
INTERRUPTED = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class Closure(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("name", ctypes.c_char_p),
        ("run", RUN),
        ("destroy", DESTROY),
    )


class Work:
    """Work on streams. The end of the test releases all streams that it holds."""

    def __init__(self) -> None:
        self._calls = HostCalls()
        self._closures: list[Closure] = []

    def call(self, stream: tb_stream.Stream, function: Callable[[], object]) -> None:
        """Runs `function` in the order of the stream."""
        self._calls.queue(ctypes.c_void_p(stream.handle), function)

    def hold(self, stream: tb_stream.Stream) -> threading.Event:
        """Stops the stream until the returned event is set, 20 s at most."""
        return self._calls.gate(ctypes.c_void_p(stream.handle))

    def fail(self, stream: tb_stream.Stream, name: bytes) -> None:
        """Queues work, called `name`, that ends with status 13."""
        self.closure(stream, name, lambda _context: 13)

    def closure(self, stream: tb_stream.Stream, name: bytes, run: Callable[[int], int]) -> None:
        """Queues a closure; `run` gets the address of its tb_closure_context and gives the status."""
        closure = Closure(
            ctypes.sizeof(Closure), 0, name, RUN(lambda _storage, context: run(context)), DESTROY(lambda _: None)
        )
        self._closures.append(closure)
        storage = ctypes.c_void_p()
        handle = ctypes.c_void_p(stream.handle)
        assert slot("closure_reserve")(handle, ctypes.c_uint64(64), ctypes.byref(storage)) == 0
        assert slot("closure_commit")(handle, storage, ctypes.byref(closure)) == 0

    def end(self) -> None:
        self._calls.open_gates()
        tb_stream.synchronize()


@pytest.fixture
def work() -> Iterator[Work]:
    made = Work()
    yield made
    made.end()


class Table(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_uint32),
        ("current", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int32)),
        ("set_current", ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p)),
        ("default_stream", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int32)),
        ("from_pool", ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p)),
        ("device_of", ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int32))),
        ("priority_of", ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int32))),
        ("event_acquire", ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32, ctypes.c_uint64, ctypes.c_void_p)),
        ("event_release", ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)),
        ("capturing", ctypes.POINTER(ctypes.c_int32)),
        ("add_capture_part", ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)),
        (
            "capture_part",
            ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p)),
        ),
        ("new_capture_pool", ctypes.CFUNCTYPE(ctypes.c_uint64)),
        (
            "capture_begin",
            ctypes.CFUNCTYPE(
                ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(ctypes.c_void_p)
            ),
        ),
        ("capture_end", ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)),
        ("capture_instantiate", ctypes.c_void_p),
        ("capture_launch", ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)),
        ("not used here", ctypes.c_void_p * 3),
        ("capture_destroy", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("not used here either", ctypes.c_void_p * 8),
        ("capture_allow_interruption", ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, INTERRUPTED, ctypes.c_void_p)),
        (
            "capture_interrupt",
            ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int32)),
        ),
        ("capture_complete", ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint64))),
        ("capture_interruption", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_void_p)),
    )


class Export(ctypes.Structure):
    _fields_ = (
        ("magic", ctypes.c_char * 8),
        ("major", ctypes.c_uint16),
        ("minor", ctypes.c_uint16),
        ("table_size", ctypes.c_uint32),
        ("component", ctypes.c_char_p),
        ("version", ctypes.c_char_p),
        ("platform", ctypes.c_char_p),
        ("table", ctypes.POINTER(Table)),
    )


@pytest.fixture
def export() -> Export:
    """The table that other components import."""
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    return Export.from_address(pointer(_core._tb_export, b"tb.export.v1"))


@pytest.fixture
def python(tmp_path: Path) -> Python:
    return Python(tmp_path)
