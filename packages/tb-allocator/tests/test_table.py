"""The record that other components import; tests/cpp tests the functions of its table."""

from __future__ import annotations

import ctypes

from tb_allocator import _core


class Export(ctypes.Structure):
    _fields_ = (
        ("magic", ctypes.c_char * 8),
        ("major", ctypes.c_uint16),
        ("minor", ctypes.c_uint16),
        ("table_size", ctypes.c_uint32),
        ("component", ctypes.c_char_p),
        ("version", ctypes.c_char_p),
        ("platform", ctypes.c_char_p),
        ("table", ctypes.POINTER(ctypes.c_uint32)),
    )


def test_the_record_has_component_versions_and_every_function() -> None:
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    export = Export.from_address(pointer(_core._tb_export, b"tb.export.v1"))
    assert (export.magic, export.component, export.major, export.minor) == (b"tbexport", b"tb-allocator", 1, 3)
    assert export.table.contents.value == export.table_size == 8 + 24 * 8
    words = ctypes.cast(export.table, ctypes.POINTER(ctypes.c_uint64))
    assert all(words[place] for place in range(1, 25))
