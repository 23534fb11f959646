"""What tb-device doctor finds: refused drivers, symbols that leak, components compiled from other headers."""

from __future__ import annotations

import ctypes
import json
import os
import shlex
import subprocess
import sys
import sysconfig
import textwrap
from pathlib import Path

import pytest
import tb_device
from conftest import BuildDriver, Python
from tb_device import _core, cli, console, doctor, elf

RUN = "import sys; from tb_device.cli import main; sys.exit(main({arguments}))"
ENTRY = "tb_driver_open_v1"


def compile_library(folder: Path, source: str, *flags: str) -> Path:
    code, library = folder / "library.c", folder / "library.so"
    code.write_text(source)
    compiler = shlex.split(os.environ.get("CC", "cc"))
    subprocess.run([*compiler, "-shared", "-fPIC", *flags, str(code), "-o", str(library)], check=True)
    return library


def test_only_what_others_can_see_counts_as_exported(tmp_path: Path) -> None:
    source = """
        #include <string.h>
        int seen(void) { return (int)strlen("x"); }
        int variable = 3;
        __attribute__((weak)) int weak(void) { return 1; }
        __attribute__((visibility("protected"))) int protected_one(void) { return 1; }
        __attribute__((visibility("hidden"))) int hidden(void) { return 2; }
        static int local(void) { return 3; }
        int uses_local(void) { return local() + hidden(); }
    """
    library = compile_library(tmp_path, source)
    assert elf.exported_symbols(library) == ["protected_one", "seen", "uses_local", "variable", "weak"]


def test_a_file_that_is_no_library_is_reported(tmp_path: Path) -> None:
    text = tmp_path / "text.so"
    text.write_text("not a library")
    with pytest.raises(elf.NotReadable, match="no 64-bit"):
        elf.exported_symbols(text)
    library = compile_library(tmp_path, "int seen(void) { return 1; }")
    cut = tmp_path / "cut.so"
    cut.write_bytes(library.read_bytes()[:200])
    with pytest.raises(elf.NotReadable, match="damaged"):
        elf.exported_symbols(cut)


def test_a_driver_that_exports_more_than_its_entry_is_a_problem(
    build_driver: BuildDriver, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tight = build_driver(name="tight")
    assert elf.exported_symbols(tight) == [ENTRY]
    report = doctor.examine(str(tight))
    assert (report["driver"]["exports"], report["problems"]) == ([ENTRY], [])
    probe = Path(__file__).parent / "drivers" / "probe.c"
    leaky = compile_library(
        tmp_path, f'#include "{probe}"\nint helper(void) {{ return 1; }}\n', "-std=c11", "-I", tb_device.get_include()
    )
    assert cli.main(["doctor", "--driver", str(leaky), "--json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["driver"]["exports"] == ["helper", ENTRY]
    [problem] = report["problems"]
    assert "exports helper beside" in problem
    assert "version script" in problem


def test_a_built_in_driver_has_no_file_to_read() -> None:
    assert doctor.examine("cpu")["driver"]["exports"] is None


def test_a_named_driver_that_cannot_be_opened_is_the_problem(build_driver: BuildDriver) -> None:
    report = doctor.examine(str(build_driver("LACKS_ALLOC")))
    assert (report["usable"], report["driver"]) == (False, None)
    assert "mem_alloc" in report["problem"]
    assert report["problems"] == [report["problem"]]


def test_candidates_that_were_not_needed_are_tried_too(
    python: Python, build_driver: BuildDriver, tmp_path: Path
) -> None:
    (tmp_path / "vendors.py").write_text(
        f"def good(): return {str(build_driver(name='good'))!r}\n"
        f"def broken(): return {str(build_driver('LACKS_ALLOC'))!r}\n"
        "def crash(): import os; os.abort()\n"
    )
    info = tmp_path / "vendors-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: vendors\nVersion: 1\n")
    points = "".join(f"{name} = vendors:{name}\n" for name in ("good", "broken", "crash"))
    (info / "entry_points.txt").write_text(f"[tb_device.drivers]\n{points}")
    done = python.run(RUN.format(arguments=["doctor", "--json"]), path=tmp_path, TB_DRIVER="cpu")
    assert done.returncode == 0, done.stderr
    reasons = {each["name"]: each["reason"] for each in json.loads(done.stdout)["candidates"] if not each["chosen"]}
    assert reasons["good"] == "not searched: TB_DRIVER is set; usable"
    assert "refused:" in reasons["broken"]
    assert "mem_alloc" in reasons["broken"]
    assert "code -6" in reasons["crash"]


def stream_package(folder: Path, slots_hash: str) -> None:
    """A tb-stream that imports tb-device's table as a component does, compiled with some slot list."""
    package = folder / "tb_stream"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "_core.py").write_text(
        "from tb_device import _core\n"
        f"_core._note_importer('tb-stream', {slots_hash!r})\n"
        "_tb_export = _core._tb_export\n"
    )
    info = folder / "tb_stream-9.9.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tb-stream\nVersion: 9.9\n")


def test_a_component_compiled_with_another_slot_list_is_a_problem(python: Python, tmp_path: Path) -> None:
    stream_package(tmp_path, "0123456789abcdef")
    done = python.run(RUN.format(arguments=["doctor"]), path=tmp_path)
    assert done.returncode == 1
    assert "slots 0123456789abcdef  DRIFT" in done.stdout
    assert "PROBLEM: tb-stream was compiled with another tb/driver_slots.inc (0123456789abcdef)" in done.stdout


def test_a_component_compiled_with_the_same_slot_list_is_none(python: Python, tmp_path: Path) -> None:
    stream_package(tmp_path, str(_core.about()["slots_hash"]))
    done = python.run(RUN.format(arguments=["doctor", "--json"]), path=tmp_path)
    assert done.returncode == 0
    assert json.loads(done.stdout)["components"]["tb-stream"]["header_drift"] is False


def test_importing_the_table_in_c_leaves_the_slot_list_that_was_compiled(tmp_path: Path) -> None:
    """tb_import of tb/component_python.h, in a library of its own."""
    source = """
        #include "tb/component_python.h"
        int use(void) {
          tb_device_table table;
          return tb_import("tb-sample", "tb-device", "tb_device._core", TB_DEVICE_API_MAJOR, 0, &table, sizeof table);
        }
    """
    include = ["-I", tb_device.get_include(), "-I", sysconfig.get_paths()["include"]]
    library = ctypes.PyDLL(str(compile_library(tmp_path, source, *include)))
    assert library.use() == 1
    assert _core.importers()["tb-sample"] == _core.about()["slots_hash"]


def test_the_layers_around_the_driver_are_shown(python: Python) -> None:
    done = python.run(RUN.format(arguments=["doctor", "--json"]), TB_LAYERS="fault")
    assert json.loads(done.stdout)["driver"]["layers"] == ["fault"]


def test_the_doctor_recognises_a_forked_child() -> None:
    code = """
        import os, sys, tb_device
        from tb_device import doctor
        tb_device.default_driver().mem_alloc(0, 64)
        child = os.fork()
        if child == 0:
            report = doctor.examine()
            os._exit(0 if report["forked"] and any("forked" in each for each in report["problems"]) else 1)
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], timeout=60, check=False)
    assert done.returncode == 0


def test_each_package_of_the_repository_is_a_component() -> None:
    projects = {p.parent.name: p.read_text() for p in Path(__file__).resolve().parents[2].glob("*/pyproject.toml")}
    packages = {name for name, text in projects.items() if "tb_device.drivers" not in text}  # but drivers
    assert set(doctor.TORCH_FREE + doctor.NEED_TORCH) == packages


@pytest.mark.parametrize("command", [["doctor"], ["explain", "--driver", "sim"], ["explain", "--driver", "cpu"]])
def test_lines_fit_a_terminal(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(command)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 10
    assert not [line for line in lines if len(line) > console.WIDTH and " " in line.strip()]


@pytest.mark.parametrize("command", [["doctor"], ["explain", "--driver", "cpu"], ["drivers"]])
def test_a_reader_that_stops_reading_causes_no_traceback(command: list[str]) -> None:
    code = RUN.format(arguments=command)
    writer = subprocess.Popen([sys.executable, "-u", "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert writer.stdout is not None
    assert writer.stderr is not None
    writer.stdout.close()
    said = writer.stderr.read().decode()
    assert (writer.wait(), said) == (141, "")
