"""The C table that other components import."""

from __future__ import annotations

import ctypes

import tb_stream
from conftest import Export, Python


def test_the_record_names_component_and_versions(export: Export) -> None:
    assert (export.magic, export.component) == (b"tbexport", b"tb-stream")
    assert (export.major, export.minor) == (1, 3)
    assert export.table.contents.struct_size == export.table_size


def test_the_table_and_python_share_one_state(export: Export) -> None:
    table = export.table.contents
    stream = tb_stream.Stream()
    assert table.current(0) == tb_stream.current_stream().handle
    assert table.set_current(0, stream.handle) == 0
    assert tb_stream.current_stream() == stream
    assert table.set_current(0, None) == 0
    assert tb_stream.current_stream() == tb_stream.default_stream()
    device, priority = ctypes.c_int32(-1), ctypes.c_int32(-99)
    assert table.device_of(stream.handle, ctypes.byref(device)) == 0
    assert table.priority_of(stream.handle, ctypes.byref(priority)) == 0
    assert (device.value, priority.value) == (0, stream.priority)


def test_failures_are_statuses_and_leave_out_parameters_alone(export: Export) -> None:
    table = export.table.contents
    out, device = ctypes.c_void_p(7), ctypes.c_int32(7)
    assert table.current(5) is None
    assert table.from_pool(5, 0, ctypes.byref(out)) == 11
    assert table.event_acquire(5, 0, ctypes.byref(out)) != 0
    assert table.device_of(12345, ctypes.byref(device)) == 5
    assert (out.value, device.value) == (7, 7)


def test_an_event_is_released_once(export: Export) -> None:
    table = export.table.contents
    event = ctypes.c_void_p()
    assert table.event_acquire(0, 0, ctypes.byref(event)) == 0
    assert table.event_release(event) == 0
    assert table.event_release(event) == 3
    assert table.event_release(12345) == 3
    assert table.event_release(None) == 0


def test_a_stream_of_another_device_cannot_become_current(python: Python) -> None:
    code = """
    import ctypes, sys, tb_stream
    sys.path.insert(0, TESTS)
    from conftest import Export
    from tb_stream import _core
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    table = Export.from_address(pointer(_core._tb_export, b"tb.export.v1")).table.contents
    stream = tb_stream.Stream(device=1)
    assert table.set_current(1, stream.handle) == 0
    print(table.set_current(0, stream.handle))
    """.replace("TESTS", repr(__file__.rpartition("/")[0]))
    assert python.output(code, TB_CPU_DEVICES="2") == "3"


def test_without_tb_device_the_import_says_what_to_install(python: Python) -> None:
    code = """
    import sys
    sys.modules["tb_device"] = None
    try:
        import tb_stream
    except ImportError as error:
        print(error)
    """
    assert python.output(code) == "tb-stream needs tb-device, which is not installed: pip install tb-device"


def test_importing_opens_no_driver(python: Python) -> None:
    assert python.output("import tb_device, tb_stream; print(tb_device.is_open())") == "False"
