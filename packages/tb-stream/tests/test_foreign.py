"""Streams from elsewhere: native handles, protocols, callbacks in Python, other processes and other devices."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import textwrap
import weakref

import pytest
import tb_device
import tb_stream
from conftest import Python, Work, slot


def test_a_native_handle_of_ours_is_our_stream() -> None:
    stream = tb_stream.Stream()
    assert tb_stream.Stream.from_native(stream.native) == stream
    standard = tb_stream.default_stream()
    assert tb_stream.Stream.from_native(standard.native, device=0) == standard


def test_a_foreign_stream_takes_part(work: Work) -> None:
    handle, native = ctypes.c_void_p(), ctypes.c_uint64()
    assert slot("stream_create")(ctypes.c_int32(0), ctypes.c_int32(0), ctypes.c_uint64(0), ctypes.byref(handle)) == 0
    assert slot("stream_native")(handle, ctypes.byref(native)) == 0
    stream = tb_stream.Stream.from_native(native.value)
    assert stream == tb_stream.Stream.from_native(native.value)  # wrapped once
    assert (stream.device, stream.native) == (0, native.value)
    log: list[str] = []
    foreign = tb_stream.Stream.from_native(native.value)
    gate = work.hold(foreign)
    with foreign:
        assert tb_stream.current_stream() == foreign
        work.call(tb_stream.current_stream(), lambda: log.append("ran"))
    assert not foreign.query()
    gate.set()
    foreign.synchronize()
    assert log == ["ran"]


def test_an_invalid_native_handle_is_refused() -> None:
    with pytest.raises(tb_device.Error):
        tb_stream.Stream.from_native(12345)
    with pytest.raises(tb_device.Error, match="device 9"):
        tb_stream.Stream.from_native(1, device=9)


def test_wrappers_alive_at_the_end_are_no_leak(python: Python) -> None:
    code = """
    import ctypes, sys
    sys.path.insert(0, TESTS)
    from conftest import slot
    import tb_stream
    tb_stream.default_stream()
    handle, native = ctypes.c_void_p(), ctypes.c_uint64()
    assert slot("stream_create")(ctypes.c_int32(0), ctypes.c_int32(0), ctypes.c_uint64(0), ctypes.byref(handle)) == 0
    assert slot("stream_native")(handle, ctypes.byref(native)) == 0
    stream = tb_stream.Stream.from_native(native.value)
    stream.synchronize()
    assert slot("stream_destroy")(handle) == 0
    """.replace("TESTS", repr(__file__.rpartition("/")[0]))
    assert python.output(code, TB_LAYERS="leak", TB_LOG="warning", TB_DRIVER="cpu") == ""


class CudaStream:
    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, 1


def test_streams_of_cuda_are_taken_from_and_given_to_a_driver_of_cuda_only() -> None:
    with pytest.raises(NotImplementedError, match="not CUDA's"):
        tb_stream.Stream().__cuda_stream__()
    with pytest.raises(TypeError, match="the open driver is not"):
        tb_stream.Stream().wait_stream(CudaStream())
    with pytest.raises(TypeError, match="__tb_stream__"):
        tb_stream.Stream().wait_stream(object())


def test_callbacks_run_in_order_with_their_arguments(work: Work) -> None:
    log: list[object] = []
    stream = tb_stream.Stream()
    gate = work.hold(stream)
    stream.add_callback(log.append, 1)
    stream.add_callback(lambda *numbers: log.append(numbers), 2, 3)
    assert log == []
    gate.set()
    stream.synchronize()
    assert log == [1, (2, 3)]
    with pytest.raises(TypeError, match="callable"):
        stream.add_callback(1)


def test_a_callbacks_objects_are_let_go_after_it() -> None:
    class Thing:
        pass

    thing = Thing()
    gone = weakref.ref(thing)
    stream = tb_stream.Stream()
    stream.add_callback(lambda _thing: None, thing)
    del thing
    stream.synchronize()
    stream.synchronize()
    gc.collect()
    assert gone() is None


def test_an_exception_of_a_callback_is_unraisable(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda info: seen.append(info.exc_type))
    stream = tb_stream.Stream()
    stream.add_callback(lambda: 1 / 0)
    stream.synchronize()
    assert seen == [ZeroDivisionError]


def test_a_captured_callback_is_called_at_each_replay() -> None:
    log: list[int] = []
    with tb_stream.capture() as graph:
        tb_stream.current_stream().add_callback(log.append, 7)
    for _ in range(3):
        graph.replay()
    tb_stream.synchronize()
    assert log == [7, 7, 7]


def test_the_stream_context_is_a_decorator_too() -> None:
    side = tb_stream.Stream()

    @tb_stream.stream(side)
    def inside() -> tb_stream.Stream:
        return tb_stream.current_stream()

    assert inside() == side == inside()
    assert tb_stream.current_stream() == tb_stream.default_stream()


def test_an_event_orders_streams_of_two_devices(python: Python) -> None:
    code = """
    import threading, tb_stream
    gate, log = threading.Event(), []
    first, second = tb_stream.Stream(device=0), tb_stream.Stream(device=1)
    first.add_callback(gate.wait, 20)
    first.add_callback(log.append, "first")
    second.wait_event(first.record_event())
    second.add_callback(log.append, "second")
    assert not second.query()
    gate.set()
    second.synchronize()
    print(log)
    """
    assert python.output(code, TB_CPU_DEVICES="2") == "['first', 'second']"


IMPORTER = """
import sys, tb_stream
event = tb_stream.Event.from_ipc_handle(0, bytes.fromhex(sys.argv[1]))
print(event.query(), flush=True)
sys.stdin.readline()
tb_stream.current_stream().wait_event(event)
tb_stream.synchronize()
event.synchronize()
print(event.query(), flush=True)
"""


def _refused(event: tb_stream.Event) -> bool:
    """Whether the CPU driver has no IPC, because it lacks userfaultfd, as in many containers."""
    if "IPC" in tb_device.default_driver().groups:
        return False
    with pytest.raises(tb_device.UnsupportedError, match="group IPC not offered"):
        event.ipc_handle()
    return True


def test_another_process_waits_for_an_event(work: Work) -> None:
    stream = tb_stream.Stream()
    event = tb_stream.Event(interprocess=True)
    if _refused(event):
        return
    handle = event.ipc_handle()
    gate = work.hold(stream)
    event.record(stream)
    command = [sys.executable, "-c", textwrap.dedent(IMPORTER), handle.hex()]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "False\n"
        gate.set()
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "True\n"
    assert child.returncode == 0


def test_events_for_other_processes_are_never_used_again() -> None:
    event = tb_stream.Event(interprocess=True)
    event.record()
    assert event.device == 0
    if _refused(event):
        return
    handle = event.ipc_handle()
    other = tb_stream.Event.from_ipc_handle(0, handle)
    del event
    gc.collect()
    assert tb_stream.Event(interprocess=True).ipc_handle() != handle
    del other
    with pytest.raises(ValueError, match="interprocess=True"):
        tb_stream.Event().ipc_handle()
    with pytest.raises(ValueError, match="ipc_handle"):
        tb_stream.Event.from_ipc_handle(0, b"short")
