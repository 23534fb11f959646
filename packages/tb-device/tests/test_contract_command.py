"""tb-device contract on drivers that pass, fail, crash or declare what they do not have."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import tb_device
from conftest import BuildDriver, Python
from tb_device import cli, levels


def contract(driver: str | Path, *arguments: str) -> int:
    return cli.main(["contract", "--driver", str(driver), *arguments])


def result_of(file: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(file.read_text())
    return result


def test_a_driver_that_keeps_its_promises_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "contract.json"
    assert contract("cpu", "--only", "MEM-08", "--only", "DEV", "--json", str(file)) == 0
    result = result_of(file)
    assert result["passing"] is True
    assert result["driver"] == "cpu"
    assert result["level"] == 4
    assert result["failed"] == result["expected_failures"] == 0
    assert result["passed"] + result["not_offered"] == result["cases"] == len(result["results"])
    assert result["executed"] == result["passed"] > 5
    assert len(result["driver_sha256"]) == 64
    assert result["kit"].startswith("0.")
    assert len(result["kit"].split("+")[1]) == 12
    assert result["groups"]["CORE"] == result["executed"]
    assert result["seconds"] > 0
    *_, line, last = capsys.readouterr().out.splitlines()
    assert line.startswith("cpu ")
    assert line.endswith("passed")
    core = result["proved"]["CORE"]
    assert 0 < core["held"] < core["of"]  # a choice of cases proves no group whole
    assert last.startswith(f"proved in part: CORE ({core['held']} of {core['of']})")
    assert last.endswith("IPC, CLOSURE, tb.graph")


def test_a_whole_run_says_its_level_and_what_is_proved_by_group(
    build_driver: BuildDriver, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "contract.json"
    assert contract("sim", "--level", "3", "--json", str(file)) == 0
    result = result_of(file)
    assert result["level"] == result["reached"] == levels.level_of(tb_device.load_driver("sim").groups) == 3
    assert result["proved"]["PIN"]["held"] == result["proved"]["PIN"]["of"] > 5
    *_, line, last = capsys.readouterr().out.splitlines()
    assert " · level 3 · " in line
    assert "whole: " in last
    assert "IPC" not in last  # of level 4
    assert contract("sim", "--level", "4", "--only", "MEM-08") == 0
    assert " · level 4 · " in capsys.readouterr().out
    contract(build_driver(), "--level", "1", "--json", str(file))
    assert (result_of(file)["level"], result_of(file)["reached"]) == (1, 0)
    *_, line, last = capsys.readouterr().out.splitlines()
    assert " · level 0 of 1 · " in line
    assert last.endswith("not at all: ASYNC")


def test_a_crash_fails_its_case_alone_and_names_the_signal(
    build_driver: BuildDriver, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "contract.json"
    driver = build_driver("CRASHES")
    assert contract(driver, "--level", "0", "--only", "MEM-08", "--only", "MEM-12", "--json", str(file)) == 1
    outcomes = {each["id"]: each["outcome"] for each in result_of(file)["results"]}
    assert outcomes == {"MEM-08": "failed", "MEM-12": "passed"}
    reported = capsys.readouterr().out
    assert "SIGSEGV" in reported
    assert "mem_free.2: NULL is a no-op." in reported


def test_an_expected_failure_passes_and_counts_as_such(build_driver: BuildDriver, tmp_path: Path) -> None:
    (tmp_path / "tb-contract.toml").write_text('[expected_failure]\n"MEM-08" = "issue 7: NULL is not checked"\n')
    file = tmp_path / "contract.json"
    arguments = ["--only", "MEM-08", "--expect", str(tmp_path / "tb-contract.toml"), "--json", str(file)]
    assert contract(build_driver("CRASHES"), *arguments) == 0
    result = result_of(file)
    assert (result["passed"], result["failed"], result["expected_failures"], result["executed"]) == (0, 0, 1, 1)


def test_an_unexpected_pass_fails(
    build_driver: BuildDriver, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tb-contract.toml").write_text('[expected_failure]\n"MEM-08" = "issue 7: NULL is not checked"\n')
    assert contract(build_driver(), "--only", "MEM-08", "--expect", str(tmp_path / "tb-contract.toml")) == 1
    assert "it passed, but is listed as an expected failure: issue 7" in capsys.readouterr().out


def test_an_unsupported_case_is_not_run_and_is_no_pass(build_driver: BuildDriver, tmp_path: Path) -> None:
    (tmp_path / "tb-contract.toml").write_text('[unsupported]\n"MEM-08" = "the vendor\'s library aborts"\n')
    file = tmp_path / "contract.json"
    arguments = ["--only", "MEM-08", "--only", "MEM-12", "--expect", str(tmp_path / "tb-contract.toml")]
    assert contract(build_driver("CRASHES"), *arguments, "--json", str(file)) == 0
    result = result_of(file)
    assert (result["passed"], result["not_offered"]) == (1, 1)
    assert result["unsupported"] == {"MEM-08": "the vendor's library aborts"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[expected_failure]\n"MEM-99" = "a reason"\n', "names MEM-99, and no case has this id"),
        ('[unsupported]\n"MEM-08" = ""\n', "each with a reason"),
        ('[unsuported]\n"MEM-08" = "a reason"\n', "has unsuported"),
        ('[unsupported]\n"MEM-08" = "a"\n[expected_failure]\n"MEM-08" = "b"\n', "MEM-08 is in both tables"),
        ("[unsupported\n", "is no TOML"),
    ],
)
def test_an_expectations_file_that_means_nothing_is_wrong_usage(
    text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "tb-contract.toml").write_text(text)
    assert contract("cpu", "--only", "MEM-08", "--expect", str(tmp_path / "tb-contract.toml")) == 2
    assert said in capsys.readouterr().err


def test_zero_executed_cases_fail(
    build_driver: BuildDriver, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "contract.json"
    assert contract(build_driver(), "--only", "STR", "--json", str(file)) == 1
    result = result_of(file)
    assert result["executed"] == result["passed"] == 0
    assert result["not_offered"] == result["cases"] > 0
    assert "no case was executed: that proves nothing" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("switch", "case"), [("MORE_GROUPS=TB_GROUP_ASYNC", "ABI-06"), ("WITH_TIMING", "ABI-07"), ("HALF_ASYNC", "ABI-07")]
)
def test_a_half_filled_group_fails(
    switch: str, case: str, build_driver: BuildDriver, capsys: pytest.CaptureFixture[str]
) -> None:
    assert contract(build_driver(switch), "--only", case) == 1
    assert f"FAILED  {case}" in capsys.readouterr().out


# rules: V4
def test_a_second_exported_symbol_fails(build_driver: BuildDriver, capsys: pytest.CaptureFixture[str]) -> None:
    assert contract(build_driver("EXTRA_SYMBOL=probe_extra"), "--only", "ABI-02") == 1
    assert "exports probe_extra" in capsys.readouterr().out
    assert contract(build_driver(), "--only", "ABI-02") == 0


def test_blocks_that_a_case_leaves_are_blamed_on_it(
    build_driver: BuildDriver, capsys: pytest.CaptureFixture[str]
) -> None:
    assert contract(build_driver("KEEPS_PINNED"), "--only", "PIN-01", "--only", "PIN-02", "--only", "MEM-08") == 1
    printed = capsys.readouterr().out
    assert "FAILED  PIN-01" in printed
    assert "the case left 4 blocks allocated" in printed
    assert "1 passed, 1 failed" not in printed  # the cases behind it are not blamed
    assert "2 passed, 1 failed" in printed


def test_the_installed_kernels_compile_for_an_image_that_the_loader_keeps(tmp_path: Path) -> None:
    # A symbol that is unique in the process, as C++ makes them, keeps an object loaded after its module is gone.
    source = Path(tb_device.__file__).parent / "contract" / "kernels_host.c"
    kept = r"""
__asm__(".pushsection .data\n.globl kept\n.type kept, @gnu_unique_object\n.size kept, 4\nkept: .long 1\n.popsection");
extern int kept;
TB_HOST_EXPORT int *kept_place(void) { return &kept; }
"""
    (tmp_path / "kernels.c").write_text(source.read_text() + kept)
    image = tmp_path / "kernels.so"
    compiler = shlex.split(os.environ.get("CC", "cc"))
    command = [*compiler, "-shared", "-fPIC", "-I", tb_device.get_include(), str(tmp_path / "kernels.c"), "-o"]
    subprocess.run([*command, str(image)], check=True)
    assert contract("cpu", "--only", "MOD", "--only", "KRN", "--image", str(image)) == 0


def test_what_does_not_open_is_reported_once(build_driver: BuildDriver, capsys: pytest.CaptureFixture[str]) -> None:
    assert contract(build_driver("OPEN_FAILS"), "--only", "MEM") == 1
    reported = capsys.readouterr().out
    assert reported.count("the probe's hardware is not plugged in") == 1


@pytest.mark.parametrize("arguments", [["--only", "XYZ"], ["--option", "devices"], ["--expect", "no/such/file"]])
def test_wrong_usage_is_exit_code_2(arguments: list[str]) -> None:
    assert contract("cpu", *arguments) == 2


def test_a_driver_that_nobody_offers_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert contract("nosuchchip") == 2
    assert contract("./no_such_driver.so") == 2
    assert "nosuchchip" in capsys.readouterr().err


def test_options_reach_the_driver(tmp_path: Path) -> None:
    file = tmp_path / "contract.json"
    assert contract("cpu", "--only", "DEV-08", "--only", "DEV-01", "--option", "devices=1", "--json", str(file)) == 0
    outcomes = {each["id"]: each["text"] for each in result_of(file)["results"]}
    assert outcomes["DEV-08"] == "needs 2 devices, there is 1"


def test_repeats_run_with_the_next_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    assert contract("cpu", "--only", "MEM-08", "--repeat", "3", "--seed", "5") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line[-6:] for line in lines if "seed" in line] == ["seed 5", "seed 6", "seed 7"]


# rules: T9
def test_the_cpu_driver_works_while_python_is_locked(python: Python) -> None:
    # PYFUNCTYPE keeps Python's lock during the call: a driver thread that wanted it would never end its work.
    code = """
        import ctypes, tb_device
        from tb_device import _core
        driver = tb_device.load_driver("cpu")
        offset = {name: at for _, _, name, at in _core.slots()}["device_synchronize"]
        address = ctypes.c_void_p.from_address(driver.table_address + offset).value
        synchronize = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32)(address)
        block = driver.mem_alloc(0, 1 << 24)
        driver.mem_set(0, block, 7, 1, 1 << 24)
        print(synchronize(driver.self_address, 0))
        driver.mem_free(0, block)
    """
    assert python.output(code) == "0"
