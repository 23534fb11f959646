"""The command tb-device, and where the C headers are."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
import zlib
from importlib import metadata
from pathlib import Path

import pytest
import tb_device
from conftest import BuildDriver, Python
from device_table import Table, export
from tb_device import _contract, _core, cli

ABI = Path(__file__).resolve().parents[1] / "shared" / "abi"
RUN = "import sys; from tb_device.cli import main; sys.exit(main({arguments}))"


def test_drivers_marks_the_chosen_one_and_says_why(python: Python, build_driver: BuildDriver) -> None:
    broken = build_driver("LACKS_ALLOC")
    done = python.run(RUN.format(arguments=["drivers"]), TB_DRIVER=f"{broken},cpu")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["DRIVER", "FROM", "WHY"]
    why, chosen = done.stdout.split("*", 1)
    assert "required functions are missing" in " ".join(why.split())  # it may take several lines
    assert chosen.split()[:2] == ["cpu", "TB_DRIVER"]
    assert not lines[1].startswith("*")


def test_drivers_ends_with_1_when_none_is_usable(python: Python) -> None:
    done = python.run(RUN.format(arguments=["drivers"]), TB_DRIVER="absent")
    assert (done.returncode, done.stderr) == (1, "\nNo driver is usable.\n")
    assert "there is no driver 'absent'" in done.stdout


def test_doctor_json_has_drivers_components_and_the_machine(python: Python, build_driver: BuildDriver) -> None:
    done = python.run(RUN.format(arguments=["doctor", "--json"]), TB_DRIVER="cpu", TB_CPU_DEVICES="2")
    assert (done.returncode, done.stderr) == (0, "")
    report = json.loads(done.stdout)
    assert report["usable"] is True
    assert report["driver"]["name"] == "cpu"
    assert len(report["driver"]["devices"]) == 2
    assert [each["chosen"] for each in report["candidates"]] == [True, False, False, False]
    assert report["components"]["tb-device"]["c_api"] == "1.2"
    assert report["slots_hash"] == _core.about()["slots_hash"]
    assert report["environment"] == {"TB_CPU_DEVICES": "2", "TB_DRIVER": "cpu"}
    assert report["forked"] is False


def test_doctor_ends_with_1_and_the_reasons_when_no_driver_is_usable(python: Python) -> None:
    done = python.run(RUN.format(arguments=["doctor"]), TB_DRIVER="absent")
    assert done.returncode == 1
    assert done.stdout.startswith("PROBLEM: no usable driver. Tried:\n  absent (TB_DRIVER): there is no driver")
    assert "Components" in done.stdout


def test_a_component_that_crashes_does_not_take_the_report_with_it(python: Python, tmp_path: Path) -> None:
    package = tmp_path / "tb_stream"
    package.mkdir()
    (package / "__init__.py").write_text("import os; os.abort()")
    info = tmp_path / "tb_stream-9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tb-stream\nVersion: 9.9\n")
    done = python.run(RUN.format(arguments=["doctor"]), path=tmp_path)
    assert done.returncode == 1
    assert "tb-stream      9.9  PROBLEM: importing it ended the process with code -6" in done.stdout


def test_the_installed_command_works() -> None:
    command = Path(sys.executable).parent / "tb-device"
    done = subprocess.run([command, "--includes"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == tb_device.get_include()


def test_no_command_shows_the_help_and_ends_with_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    assert "doctor" in capsys.readouterr().out


@pytest.mark.parametrize(("compiler", "standard"), [("cc", "c99"), ("cc", "c11"), ("c++", "c++17"), ("c++", "c++20")])
def test_the_driver_header_compiles_alone_without_warnings(tmp_path: Path, compiler: str, standard: str) -> None:
    source = tmp_path / ("use.c" if compiler == "cc" else "use.cpp")
    source.write_text('#include "tb/driver.h"\n#include "tb/component.h"\nint main(void) { return 0; }\n')
    flags = [f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-Wno-unused-function", "-fsyntax-only"]
    done = subprocess.run(
        [compiler, *flags, "-I", tb_device.get_include(), str(source)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_slot_list_is_the_frozen_layouts_and_groups_begin_in_the_order_of_their_bits() -> None:
    slots = _core.slots()
    offsets = [offset for *_, offset in slots]
    assert offsets == list(range(offsets[0], offsets[0] + 8 * len(slots), 8))
    layout = json.loads((ABI / "v1.json").read_text())
    frozen = [
        (*kind.split()[:2], name, at) for name, at, _, kind in layout["structs"]["tb_driver_api"] if at >= offsets[0]
    ]
    assert list(slots) == frozen
    bits = {name.removeprefix("TB_GROUP_"): bit for name, bit in layout["constants"].items() if "_GROUP_" in name}
    assert list(dict.fromkeys(group for group, *_ in slots)) == sorted(bits, key=bits.__getitem__)
    assert list(_contract.groups()) == sorted(bits, key=bits.__getitem__)
    required = [name for group, need, name, _ in slots if (group, need) == ("CORE", "REQUIRED")]
    assert len(required) == 8


def test_the_export_record_says_what_it_is() -> None:
    record = export()
    assert (record.magic, record.major, record.minor) == (b"tbexport", 1, 2)
    assert (record.component, record.version) == (b"tb-device", tb_device.__version__.encode())
    assert record.table_size == record.table.contents.struct_size == ctypes.sizeof(Table)


def test_importing_the_package_opens_no_driver_and_reads_no_metadata(python: Python) -> None:
    code = """
        import sys
        import tb_device
        slow = [name for name in ("importlib.metadata", "dataclasses", "pathlib", "inspect", "json", "argparse")
                if name in sys.modules]
        print(tb_device.is_open(), slow, [name for name in ("torch", "numpy") if name in sys.modules])
    """
    bare = (
        "import sys; print([name for name in ('importlib.metadata', 'dataclasses', 'pathlib') if name in sys.modules])"
    )
    already = python.output(bare)
    assert already == "[]", f"this Python imports {already} at its start, so the check below says nothing"
    assert python.output(code) == "False [] []"


def test_the_installed_package_packs_into_less_than_a_mebibyte() -> None:
    files = [file.locate() for file in metadata.files("tb-device") or []]
    packed = [len(zlib.compress(path.read_bytes())) for path in map(Path, map(str, files)) if path.suffix != ".pyc"]
    assert len(packed) > 30
    assert sum(packed) < 1 << 20
