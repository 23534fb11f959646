"""Components check each other's function tables at import, and name the remedy in one sentence."""

from __future__ import annotations

import ctypes
import pathlib
import subprocess

import pytest
from conftest import ROOT, RunPython

# A module in the place of tb_device._core, with an export record of another version around an empty table.
FAKE = """
import ctypes, sys, types

class Record(ctypes.Structure):
    _fields_ = [("magic", ctypes.c_char * 8), ("major", ctypes.c_uint16), ("minor", ctypes.c_uint16),
                ("table_size", ctypes.c_uint32), ("component", ctypes.c_char_p), ("version", ctypes.c_char_p),
                ("platform", ctypes.c_char_p), ("table", ctypes.c_void_p)]

table = (ctypes.c_uint32 * 64)(256)
record = Record({magic!r}, {major}, {minor}, 256, {component!r}, b"9.8.7", b"linux-test", ctypes.addressof(table))
new = ctypes.pythonapi.PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
name = b"tb.export.v1"
package, core = types.ModuleType("tb_device"), types.ModuleType("tb_device._core")
package.__path__ = []
package._core = core
core._tb_export = new(ctypes.addressof(record), name, None)
sys.modules.update({{"tb_device": package, "tb_device._core": core}})
try:
    import {module}
except ImportError as error:
    print(error)
"""
MODULES = ["tb_stream", "tb_allocator", "tb_generator", "tb_ops"]


def refusal(run_python: RunPython, module: str, **record: object) -> str:
    values = {"magic": b"tbexport", "major": 1, "minor": 0, "component": b"tb-device", **record}
    environment = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    return run_python(FAKE.format(module=module, **values), environment).stdout.strip()


@pytest.mark.parametrize("module", MODULES)
def test_another_major_names_both_versions_and_the_remedy(run_python: RunPython, module: str) -> None:
    name = module.replace("_", "-")
    assert refusal(run_python, module, major=2) == (
        f"{name} was built for tb-device C API 1.x, but the installed tb-device 9.8.7 speaks 2.0. "
        f"Install matching versions: pip install -U {name} tb-device"
    )


@pytest.mark.parametrize("module", MODULES)
def test_a_missing_component_is_named_with_the_command(run_python: RunPython, module: str) -> None:
    code = f"""
        import sys
        sys.modules["tb_device"] = None
        try:
            import {module}
        except ImportError as error:
            print(error)
    """
    done = run_python(code, {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    assert done.stdout.strip() == (
        f"{module.replace('_', '-')} needs tb-device, which is not installed: pip install tb-device"
    )


def test_something_else_in_the_capsule_is_refused(run_python: RunPython) -> None:
    text = refusal(run_python, "tb_stream", magic=b"whatever")
    assert text == "tb-stream found something else where tb-device keeps its function table. Reinstall both."


@pytest.mark.parametrize("module", MODULES)
def test_a_package_with_another_components_table_is_refused(run_python: RunPython, module: str) -> None:
    name = module.replace("_", "-")
    assert refusal(run_python, module, component=b"tb-else") == (
        f"{name} found the function table of tb-else where tb-device keeps its own. "
        "Another package has replaced it: pip install --force-reinstall tb-device"
    )


def test_a_false_package_in_an_optional_ones_place_is_refused(run_python: RunPython) -> None:
    code = """
        import importlib.machinery, sys, types
        import tb_device._core
        package, core = types.ModuleType("tb_stream"), types.ModuleType("tb_stream._core")
        package.__path__ = []
        package.__spec__ = importlib.machinery.ModuleSpec("tb_stream", None, is_package=True)
        package._core = core
        core._tb_export = tb_device._core._tb_export
        sys.modules.update({"tb_stream": package, "tb_stream._core": core})
        try:
            import tb_allocator
        except ImportError as error:
            print(error)
    """
    done = run_python(code, {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    assert done.stdout.strip() == (
        "tb-allocator found the function table of tb-device where tb-stream keeps its own. "
        "Another package has replaced it: pip install --force-reinstall tb-stream"
    )


READ = """
#include "tb/component.h"
int try_read(unsigned minor, char *error) {
  uint32_t table[4] = {16, 1, 2, 3}, copy[2] = {0, 0};
  tb_export record = {"tbexport", 1, 2, sizeof table, "tb-device", "0.1.0", "linux-test", table};
  memcpy(record.magic, "tbexport", 8);
  int read = tb_export_read(&record, "tb-stream", "tb-device", 1, (uint16_t)minor, copy, sizeof copy, error, 512);
  return read ? (int)copy[1] : -1;
}
"""


def test_a_minor_that_is_too_old_asks_for_an_upgrade_and_a_newer_one_fits(tmp_path: pathlib.Path) -> None:
    source, library = tmp_path / "read.c", tmp_path / "read.so"
    source.write_text(READ)
    include = f"-I{ROOT / 'shared' / 'include'}"
    subprocess.run(["cc", "-std=c11", "-Werror", "-shared", "-fPIC", include, "-o", library, source], check=True)
    try_read = ctypes.CDLL(str(library)).try_read
    error = ctypes.create_string_buffer(512)
    assert try_read(7, error) == -1
    assert error.value.decode() == (
        "tb-stream needs tb-device C API 1.7 or newer, but the installed tb-device 0.1.0 offers 1.2. "
        "Upgrade it: pip install -U tb-device"
    )
    assert try_read(1, error) == 1, "the known part of a longer table is copied"
