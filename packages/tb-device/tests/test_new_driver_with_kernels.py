"""tb-device new-driver --level 3: the folder builds, and gives a driver with kernels that keeps the contract."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import tb_device
from conftest import Python
from tb_device import cli, elf, levels, new_driver
from tb_device.exceptions import InvalidArgumentError

NAME = "chip_7"
OWN = ["chip/chip.c", "chip/protocol.h", "contract.cu", "device.c", "device.h", "driver.h", "kernels.c", "kernels.cu"]
OWN += ["modules.c", "operators.c", "operators.h", "queue.c", "queue.h", "toolchain/entry.h", "toolchain/shim.cuh"]
NAMED = ["{}.c", "{}.map", "src/{}_driver/__init__.py", "tests/test_{}.py", "toolchain/{}-cc", "toolchain/{}.cuh"]
BOTH = ["README.md", "meson.build", "pyproject.toml", "tb-contract.toml"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder, built as its meson.build does, without meson."""
    into = tmp_path_factory.mktemp("new")
    new_driver.write(NAME, into=into, level=3)
    folder = into / NAME
    build = folder / "build"
    build.mkdir()
    kit = Path(tb_device.__file__).parent / "contract"
    command = [*shlex.split(os.environ.get("CC", "cc")), "-std=gnu11", "-Wall", "-Wextra", "-Werror", "-O1"]
    command += ["-I", str(folder), "-I", tb_device.get_include()]
    sources = [str(path) for path in folder.glob("*.c")]
    shared = ["-shared", "-fPIC", "-fvisibility=hidden", f"-Wl,--version-script={folder / NAME}.map"]
    subprocess.run([*command, *shared, *sources, "-o", build / f"lib{NAME}.so", "-lpthread", "-ldl"], check=True)
    chip = [folder / "chip" / "chip.c", "-o", build / f"{NAME}-chip", "-lpthread", "-ldl", "-lm"]
    subprocess.run([*command, *chip], check=True)
    compiler = [folder / "toolchain" / f"{NAME}-cc", "-I", tb_device.get_include(), "-I", kit]
    for source, image in (("kernels.cu", f"{NAME}_kernels.image"), ("contract.cu", "contract.image")):
        subprocess.run([*compiler, "-o", build / image, folder / source], check=True)
    return folder


@pytest.fixture
def library(folder: Path) -> Path:
    return folder / "build" / f"lib{NAME}.so"


def test_every_file_is_written_under_the_drivers_name(tmp_path: Path) -> None:
    written = new_driver.write(NAME, into=tmp_path, level=3)
    top = tmp_path / NAME
    assert {str(path.relative_to(top)) for path in written} == {*OWN, *BOTH, *(name.format(NAME) for name in NAMED)}
    for path in written:
        assert "mychip" not in path.read_text()
        assert "@LANGUAGE@" not in path.read_text()
        assert os.access(path, os.X_OK) == (path.name == f"{NAME}-cc")


def test_a_level_without_template_is_refused(tmp_path: Path) -> None:
    for level, language in ((1, "c"), (3, "c++")):
        with pytest.raises(InvalidArgumentError, match=r"level 0 in c, level 0 in c\+\+, level 3 in c"):
            new_driver.write("mychip", language, tmp_path, level)
    assert not list(tmp_path.iterdir())


def test_the_command_tells_how_to_prove_the_level(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["new-driver", "mychip", "--level", "3", "--into", str(tmp_path)]) == 0
    output = capsys.readouterr().out
    assert "contract --driver ./build/libmychip.so --level 3 --expect tb-contract.toml" in output
    assert "Level 4 (" in output


def test_the_contract_holds_at_level_3(folder: Path, library: Path) -> None:
    command = [sys.executable, "-m", "tb_device.cli", "contract", "--driver", str(library), "--level", "3"]
    done = subprocess.run(
        [*command, "--expect", str(folder / "tb-contract.toml")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert f"{NAME} 0.1.0 · ABI 1.0 · level 3 · " in done.stdout
    assert "KRN  10 passed" in done.stdout


def test_the_driver_has_level_3_and_exports_its_entry_point_alone(library: Path) -> None:
    assert elf.exported_symbols(library) == ["tb_driver_open_v1"]
    driver = tb_device.load_driver(library)
    assert levels.level_of(driver.groups) == 3
    driver.close()


def test_two_drivers_of_it_are_two_chips(library: Path) -> None:
    first, second = tb_device.load_driver(library), tb_device.load_driver(library)
    memory, other = first.devices()[0].allocate(8), second.devices()[0].allocate(8)
    tb_device.copy(memory, b"from one")
    tb_device.copy(other, b"from two")
    back = bytearray(8)
    tb_device.copy(back, memory)
    assert back == b"from one"
    memory.free()
    other.free()
    first.close()
    second.close()


def test_the_host_cannot_touch_the_devices_memory(library: Path, python: Python) -> None:
    code = f"""
import ctypes, tb_device
ctypes.string_at(tb_device.load_driver({str(library)!r}).devices()[0].allocate(8).address, 8)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert done.returncode == -11, done.stderr  # SIGSEGV


def test_without_the_chips_program_the_driver_says_what_is_missing(library: Path, tmp_path: Path) -> None:
    alone = tmp_path / library.name
    alone.write_bytes(library.read_bytes())
    with pytest.raises(tb_device.Error, match=f"the program {NAME}-chip, does not start"):
        tb_device.load_driver(alone)


def test_close_ends_the_chip(library: Path) -> None:
    def chips() -> list[str]:
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        return [child for child in children if f"{NAME}-chip" in Path(f"/proc/{child}/cmdline").read_text()]

    driver = tb_device.load_driver(library)
    assert len(chips()) == 1
    driver.close()
    assert chips() == []
