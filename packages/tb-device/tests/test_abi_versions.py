"""Drivers and hosts of an older and of a newer ABI minor work with those of today, in both directions.

The older and newer headers are made from today's: fewer groups and shorter structs, or ten more functions, a further
group and longer structs.
"""

from __future__ import annotations

import ctypes
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import tb_device
from conftest import Slots
from tb_device import _core

TEMPLATE = Path(tb_device.__file__).parent / "new_driver" / "c" / "mychip.c"
OTHER_HOST = Path(__file__).parent / "drivers" / "other_host.c"
VERSIONS = ["old", "today", "future"]
NEWEST_GROUPS = ("IPC", "CLOSURE")  # the table of the older headers ends before them
FUTURE_SLOTS = [f"future_{number}" for number in range(10)]
MINOR = int(
    re.findall(r"#define TB_ABI_MINOR (\d+)", (Path(tb_device.get_include()) / "tb" / "driver.h").read_text())[0]
)
TODAY = {name: offset for *_, name, offset in _core.slots()}
TABLE_OF_TODAY = max(TODAY.values()) + 8


def replace(path: Path, pattern: str, by: str) -> None:
    text, count = re.subn(pattern, by, path.read_text(), count=1, flags=re.DOTALL)
    assert count == 1, pattern
    path.write_text(text)


def make_headers(version: str, include: Path) -> Path:
    """Writes include/tb as an older, today's or a newer version has it."""
    shutil.copytree(Path(tb_device.get_include()), include)
    header, slots = include / "tb" / "driver.h", include / "tb" / "driver_slots.inc"
    if version == "old":
        replace(slots, rf"/\* ---- {NEWEST_GROUPS[0]}: .*", "")
        replace(header, r"  int32_t numa_node;.*?\n\} tb_device_info;", "} tb_device_info;")
        replace(header, r"  char native\[32\];[^\n]*\n\} tb_driver_info;", "} tb_driver_info;")
    if version == "future":
        replace(header, f"#define TB_ABI_MINOR {MINOR}\n", f"#define TB_ABI_MINOR {MINOR + 1}\n")
        replace(header, "  TB_GROUP_CORE = ", "  TB_GROUP_FUTURE = 1 << 30,\n  TB_GROUP_CORE = ")
        for struct in ("tb_device_info", "tb_driver_info", "tb_pointer_info"):
            replace(header, rf"\n\}} {struct};", rf"\n  uint64_t future[4];\n}} {struct};")
        added = "".join(f"TB_SLOT0(FUTURE, REQUIRED, {name})\n" for name in FUTURE_SLOTS)
        slots.write_text(slots.read_text() + added)
    return include


def make_driver(version: str) -> str:
    """The template's driver, as a vendor would have written it against the headers of this version."""
    source = TEMPLATE.read_text()
    if version == "old":
        source = source.replace(", .numa_node = -1", "").replace(', "0.1.0", "host"', ', "0.1.0"')
    if version == "future":
        filled = "".join(f", .{name} = future" for name in FUTURE_SLOTS)
        source = source.replace("TB_GROUP_CORE,", "TB_GROUP_CORE | TB_GROUP_FUTURE,").replace(
            ".mem_set = mem_set", f".mem_set = mem_set{filled}"
        )
        source = source.replace(".uuid = {1},", ".uuid = {1}, .future = {7, 7, 7, 7},")
        source = source.replace(
            "static tb_status get_info",
            "static tb_status future(tb_driver *self) { return self->used ? TB_OK : TB_UNSUPPORTED; }\n"
            "static tb_status get_info",
            1,
        )
    return source


def compile_library(source: Path, include: Path, target: Path) -> Path:
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wno-unused-parameter", "-Werror", "-shared", "-fPIC"]
    flags += ["-Wno-missing-field-initializers"]  # the source does not set the fields of a newer version
    compiler = shlex.split(os.environ.get("CC", "cc"))
    subprocess.run([*compiler, *flags, "-I", str(include), str(source), "-o", str(target)], check=True)
    return target


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, ctypes.CDLL]]:
    """For each version: a driver, and a host."""
    made = {}
    for version in VERSIONS:
        folder = tmp_path_factory.mktemp(version)
        include = make_headers(version, folder / "include")
        source = folder / "driver.c"
        source.write_text(make_driver(version))
        driver = compile_library(source, include, folder / f"lib{version}.so")
        host = ctypes.CDLL(str(compile_library(OTHER_HOST, include, folder / f"lib{version}_host.so")))
        host.use_driver.restype, host.use_driver.argtypes = ctypes.c_char_p, (ctypes.c_void_p, ctypes.c_uint32)
        host.table_size.restype = ctypes.c_uint32
        made[version] = (driver, host)
    return made


Libraries = dict[str, tuple[Path, ctypes.CDLL]]


def test_the_versions_differ(libraries: Libraries) -> None:
    sizes = {version: int(host.table_size()) for version, (_, host) in libraries.items()}
    first = TODAY[next(name for group, _, name, _ in _core.slots() if group == NEWEST_GROUPS[0])]
    newest = [name for name, offset in TODAY.items() if offset >= first]  # also what earlier groups have got since
    assert sizes["today"] == TABLE_OF_TODAY
    assert sizes["old"] == first == TABLE_OF_TODAY - 8 * len(newest)
    assert sizes["future"] == TABLE_OF_TODAY + 8 * len(FUTURE_SLOTS)


@pytest.mark.parametrize("version", VERSIONS)
def test_todays_host_loads_and_uses_a_driver_of_each_version(version: str, libraries: Libraries) -> None:
    driver = tb_device.load_driver(libraries[version][0])
    assert driver.info["abi"] == (1, MINOR + (version == "future"))
    assert driver.groups == ["CORE"]
    assert len(driver.functions) == 8
    [device] = driver.devices()
    assert device.properties.total_memory == 1 << 30
    assert device.properties.numa_node == (0 if version == "old" else -1)  # an old driver does not write it
    with device.allocate(5) as memory:
        tb_device.copy(memory, b"hello")
        back = bytearray(5)
        tb_device.copy(back, memory)
        assert back == b"hello"
    room = ctypes.create_string_buffer(b"\xa5" * 1024, 1024)  # tb_device_info of today, then guard bytes
    size = 232
    ctypes.c_uint32.from_buffer(room).value = size
    assert Slots(driver).device_get_info(ctypes.c_int32(0), room) == 0
    assert room.raw[size:] == b"\xa5" * (1024 - size)
    driver.close()


def test_functions_that_an_old_driver_does_not_know_are_refused(libraries: Libraries) -> None:
    driver = tb_device.load_driver(libraries["old"][0])
    slots = Slots(driver)
    for name in (name for group, _, name, _ in _core.slots() if group in NEWEST_GROUPS):
        assert getattr(slots, name)(*[ctypes.c_void_p()] * 4) == 12, name  # TB_UNSUPPORTED
    driver.close()


@pytest.mark.parametrize("driver", VERSIONS)
@pytest.mark.parametrize("host", VERSIONS)
def test_a_host_of_one_version_uses_a_driver_of_another(host: str, driver: str, libraries: Libraries) -> None:
    entry = ctypes.cast(ctypes.CDLL(str(libraries[driver][0])).tb_driver_open_v1, ctypes.c_void_p)
    problem = libraries[host][1].use_driver(entry, libraries[driver][1].table_size())
    assert problem is None, problem


@pytest.mark.parametrize("host", VERSIONS)
@pytest.mark.parametrize("driver", ["cpu", "sim"])
def test_a_host_of_another_version_uses_the_built_in_driver(host: str, driver: str, libraries: Libraries) -> None:
    problem = libraries[host][1].use_driver(_core.builtin_entry(driver), TABLE_OF_TODAY)
    assert problem is None, problem


def test_a_driver_that_ignores_the_hosts_size_is_found(libraries: Libraries, tmp_path: Path) -> None:
    """The guard bytes notice a driver that fills by its own size."""
    include = make_headers("future", tmp_path / "include")
    source = tmp_path / "driver.c"
    careless = make_driver("future").replace("tb_driver_fill(api, &mine)", "(memcpy(api, &mine, sizeof mine), TB_OK)")
    assert "memcpy(api" in careless
    source.write_text(careless)
    library = compile_library(source, include, tmp_path / "libcareless.so")
    with pytest.raises(tb_device.AbiMismatchError, match="wrote past the end of the table"):
        tb_device.load_driver(library)
    entry = ctypes.cast(ctypes.CDLL(str(library)).tb_driver_open_v1, ctypes.c_void_p)
    found = libraries["today"][1].use_driver(entry, 0)
    assert found == b"the driver wrote past the table"
