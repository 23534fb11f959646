"""tb_device_table (tb/component.h) through ctypes, as another component sees it."""

from __future__ import annotations

import ctypes
from ctypes import CFUNCTYPE, POINTER, c_char, c_char_p, c_int32, c_int64, c_uint16, c_uint32, c_uint64, c_void_p

from tb_device import _core


class TbError(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("status", c_int32),
        ("native_code", c_int64),
        ("device", c_int32),
        ("driver", c_char * 32),
        ("function", c_char * 48),
        ("text", c_char * 1024),
    )


Explainer = CFUNCTYPE(None, c_void_p, c_uint64)
LateReporter = CFUNCTYPE(c_int32)


class Table(ctypes.Structure):
    _fields_ = (
        ("struct_size", c_uint32),
        ("driver", CFUNCTYPE(c_int32, POINTER(c_void_p), POINTER(c_void_p))),
        ("is_open", CFUNCTYPE(c_int32)),
        ("device_count", CFUNCTYPE(c_int32, POINTER(c_int32))),
        ("current_device", CFUNCTYPE(c_int32)),
        ("set_current_device", CFUNCTYPE(c_int32, c_int32)),
        ("device_info", CFUNCTYPE(c_int32, c_int32, c_void_p)),
        ("set_error", CFUNCTYPE(None, c_int32, c_int64, c_int32, c_char_p, c_char_p)),
        ("take_error", CFUNCTYPE(c_int32, POINTER(TbError))),
        ("describe_error", CFUNCTYPE(None, c_int32, c_char_p, c_int32, c_char_p, c_uint64)),
        ("on_shutdown", CFUNCTYPE(c_int32, c_void_p, c_void_p)),
        ("forked", POINTER(c_int32)),
        ("set_explainer", CFUNCTYPE(None, Explainer)),
        ("before_wait", CFUNCTYPE(c_void_p)),
        ("after_wait", CFUNCTYPE(None, c_void_p)),
        ("is_stream", CFUNCTYPE(c_int32, c_void_p)),
        ("tell", CFUNCTYPE(c_int32)),
        ("set_late_reporter", CFUNCTYPE(None, LateReporter)),
    )


class Export(ctypes.Structure):
    _fields_ = (
        ("magic", c_char * 8),
        ("major", c_uint16),
        ("minor", c_uint16),
        ("table_size", c_uint32),
        ("component", c_char_p),
        ("version", c_char_p),
        ("platform", c_char_p),
        ("table", POINTER(Table)),
    )


def export() -> Export:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = c_void_p, (ctypes.py_object, c_char_p)
    return Export.from_address(pointer(_core._tb_export, b"tb.export.v1"))


def table() -> Table:
    found: Table = export().table.contents
    return found


def describe(status: int, function: str, device: int) -> str:
    out = ctypes.create_string_buffer(2048)
    table().describe_error(status, function.encode(), device, out, 2048)
    return out.value.decode()
