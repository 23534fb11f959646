"""tb-device new-driver: the folder that it writes builds, and gives a driver of level 0."""

from __future__ import annotations

import os
import shlex
import subprocess
import threading
import tomllib
from ctypes import byref, c_int32, c_uint32, c_uint64, c_void_p, create_string_buffer
from pathlib import Path

import pytest
import tb_device
from conftest import Python, Slots
from device_table import describe
from tb_device import _core, cli, elf, levels, new_driver
from tb_device.exceptions import AlreadyExistsError, InvalidArgumentError

COMPILERS = {
    "c": ("CC", "cc", ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Wno-unused-parameter"]),
    "c++": ("CXX", "c++", ["-std=c++20", "-Wall", "-Wextra", "-Wpedantic"]),
}
GIB = 1 << 30


def build(folder: Path, language: str) -> Path:
    """Compiles the folder as its meson.build does, without meson."""
    variable, default, flags = COMPILERS[language]
    name = folder.name
    library = folder / f"lib{name}.so"
    command = [*shlex.split(os.environ.get(variable, default)), *flags, "-Werror", "-O1", "-shared", "-fPIC"]
    command += ["-I", tb_device.get_include(), f"-Wl,--version-script={folder / name}.map"]
    subprocess.run([*command, f"{folder / name}.{new_driver.LANGUAGES[language]}", "-o", str(library)], check=True)
    return library


@pytest.fixture(scope="module", params=["c", "c++"])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    into = tmp_path_factory.mktemp("new")
    new_driver.write("chip_7", request.param, into)
    return build(into / "chip_7", request.param)


def test_the_driver_in_c_has_at_most_60_lines(tmp_path: Path) -> None:
    new_driver.write("mychip", "c", tmp_path)
    assert len((tmp_path / "mychip" / "mychip.c").read_text().splitlines()) <= 60


@pytest.mark.parametrize("language", ["c", "c++"])
def test_every_file_is_written_under_the_drivers_name(language: str, tmp_path: Path) -> None:
    written = new_driver.write("chip_7", language, tmp_path)
    folder = tmp_path / "chip_7"
    assert {str(path.relative_to(folder)) for path in written} == {
        "README.md",
        f"chip_7.{new_driver.LANGUAGES[language]}",
        "chip_7.map",
        "src/chip_7_driver/__init__.py",
        "meson.build",
        "pyproject.toml",
        "tb-contract.toml",
    }
    assert set(written) == {path for path in folder.rglob("*") if path.is_file()}
    for path in written:
        assert "mychip" not in path.read_text()
        assert "@LANGUAGE@" not in path.read_text()


def test_the_entry_point_leads_to_the_library(tmp_path: Path) -> None:
    new_driver.write("chip_7", "c", tmp_path)
    folder = tmp_path / "chip_7"
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["tb_device.drivers"] == {"chip_7": "chip_7_driver:library"}
    names: dict[str, object] = {"__file__": str(folder / "src" / "chip_7_driver" / "__init__.py")}
    exec((folder / "src" / "chip_7_driver" / "__init__.py").read_text(), names)
    library = names["library"]
    assert callable(library)
    assert library() == str(folder / "src" / "chip_7_driver" / "libchip_7.so")
    assert "shared_library('chip_7'" in (folder / "meson.build").read_text()


def test_the_expectations_file_expects_nothing(tmp_path: Path) -> None:
    new_driver.write("mychip", "c", tmp_path)
    expectations = tomllib.loads((tmp_path / "mychip" / "tb-contract.toml").read_text())
    assert expectations == {"expected_failure": {}, "unsupported": {}}


@pytest.mark.parametrize("name", ["", "7chip", "my-chip", "my chip", "../chip", "a" * 25, "chïp", "cpu", "my.chip"])
def test_an_invalid_name_is_refused_and_nothing_is_written(name: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="name"):
        new_driver.write(name, "c", tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_language_without_template_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"in 'rust': there are level 0 in c, level 0 in c\+\+, level 3"):
        new_driver.write("mychip", "rust", tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("what", ["folder", "file"])
def test_existing_files_are_never_overwritten(what: str, tmp_path: Path) -> None:
    present = tmp_path / "mychip"
    if what == "folder":
        present.mkdir()
    else:
        present.write_text("mine")
    with pytest.raises(AlreadyExistsError, match="stays as it is"):
        new_driver.write("mychip", "c", tmp_path)
    assert not list(present.iterdir()) if what == "folder" else present.read_text() == "mine"


def test_the_command_tells_what_is_written_what_to_run_and_what_comes_next(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["new-driver", "mychip", "--into", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    for path in (tmp_path / "mychip").rglob("*"):
        assert path.is_dir() or f"  {path.relative_to(tmp_path / 'mychip')}\n" in output
    assert "tb-device contract --driver ./build/libmychip.so --level 0" in output
    for name, _ in levels.functions_of("ASYNC"):
        assert name in output
    assert cli.main(["new-driver", "mychip", "--into", str(tmp_path)]) == 1
    assert "is there already" in capsys.readouterr().err


def test_writing_opens_no_driver(python: Python) -> None:
    code = "import sys; from tb_device import cli, is_open; cli.main(['new-driver', 'x']); print(is_open())"
    assert python.output(code).endswith("False")


def test_the_driver_exports_its_entry_point_alone(library: Path) -> None:
    assert elf.exported_symbols(library) == ["tb_driver_open_v1"]


def test_the_driver_has_level_0_and_nothing_more(library: Path) -> None:
    driver = tb_device.load_driver(library)
    assert driver.name == "chip_7"
    required = [name for group, need, name, _ in _core.slots() if (group, need) == ("CORE", "REQUIRED")]
    assert driver.functions == required
    driver.close()


def test_two_drivers_of_it_can_be_open_and_share_no_state(library: Path) -> None:
    first, second = tb_device.load_driver(library), tb_device.load_driver(library)
    memory = first.devices()[0].allocate(GIB)
    assert second.devices()[0].memory_info() == (GIB, GIB)
    second.close()
    with pytest.raises(tb_device.FailedPreconditionError, match="free it first"):
        first.close()
    memory.free()
    first.close()


def test_its_memory_has_the_limit_that_it_reports(library: Path) -> None:
    driver = tb_device.load_driver(library)
    [device] = driver.devices()
    for size in (GIB + 1, 2**60, 2**64 - 1):
        with pytest.raises(tb_device.OutOfMemoryError, match="room"):
            device.allocate(size)
    with device.allocate(device.properties.max_allocation):
        with pytest.raises(tb_device.OutOfMemoryError):
            device.allocate(0)
        assert device.memory_info()[0] == 0
    empty = [device.allocate(0) for _ in range(3)]
    assert len({memory.address for memory in empty}) == 3
    assert all(memory.address % 64 == 0 for memory in empty)
    for memory in empty:
        memory.free()
    driver.close()


def test_threads_that_allocate_and_free_leave_nothing(library: Path) -> None:
    driver = tb_device.load_driver(library)
    [device] = driver.devices()

    def churn() -> None:
        for size in range(300):
            device.allocate(size).free()

    threads = [threading.Thread(target=churn) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    driver.close()  # close is refused while the driver counts live bytes


def test_wrong_arguments_have_their_status_and_a_text(library: Path) -> None:
    driver = tb_device.load_driver(library)
    slots = Slots(driver)
    untouched = c_void_p(7)
    room = create_string_buffer(64)
    calls = [
        (3, lambda: slots.get_info(None)),
        (3, lambda: slots.device_count(None)),
        (3, lambda: slots.device_get_info(c_int32(0), None)),
        (3, lambda: slots.mem_alloc(c_int32(0), c_uint64(8), c_uint64(0), None)),
        (3, lambda: slots.mem_alloc(c_int32(0), c_uint64(8), c_uint64(1 << 40), byref(untouched))),
        (11, lambda: slots.mem_alloc(c_int32(1), c_uint64(8), c_uint64(0), byref(untouched))),
        (11, lambda: slots.mem_alloc(c_int32(-1), c_uint64(8), c_uint64(0), byref(untouched))),
        (11, lambda: slots.device_get_info(c_int32(1), room)),
        (11, lambda: slots.mem_free(c_int32(1), None)),
        (11, lambda: slots.mem_copy(c_int32(1), None, room, room, c_uint64(1), c_int32(1))),
        (11, lambda: slots.mem_set(c_int32(1), None, room, c_uint32(0), c_uint32(1), c_uint64(1))),
        (3, lambda: slots.mem_copy(c_int32(0), None, room, room, c_uint64(1), c_int32(0))),
        (3, lambda: slots.mem_copy(c_int32(0), None, room, room, c_uint64(1), c_int32(4))),
        (3, lambda: slots.mem_set(c_int32(0), None, room, c_uint32(0), c_uint32(3), c_uint64(1))),
    ]
    for place, (status, call) in enumerate(calls):
        assert call() == status, place
        with_text = describe(status, "call", 0)
        assert len(with_text.rsplit("): ", 1)) == 2, with_text  # "...failed: invalid argument (3): the driver's words"
    assert untouched.value == 7
    driver.close()


@pytest.mark.parametrize("width", [1, 2, 4])
def test_it_fills_with_the_low_bytes_of_the_pattern(width: int, library: Path) -> None:
    driver = tb_device.load_driver(library)
    with driver.devices()[0].allocate(16) as memory:
        tb_device.copy(memory, bytes(16))
        driver.mem_set(0, memory.address + 1, 0xDDCCBBAA, width, 3)
        back = bytearray(16)
        tb_device.copy(back, memory)
    assert back == b"\0" + bytes([0xAA, 0xBB, 0xCC, 0xDD][:width]) * 3 + bytes(15 - 3 * width)
    driver.close()
