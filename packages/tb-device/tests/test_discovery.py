"""The order of the search for a driver: the argument, TB_DRIVER, entry points, the built-in driver; and the reasons."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import tb_device
from conftest import BuildDriver, Python

# No driver is named, and vendor libraries of the machine are not found.
UNSET = {"TB_DRIVER": "", "TB_CUDA_LIBRARY": "/absent/libcuda.so.1", "TB_NPU_LIBRARY": "/absent/libascendcl.so"}
WHICH = "import tb_device; print(tb_device.default_driver().name)"
LIST = """
import tb_device
tb_device.default_driver()
for each in tb_device.drivers():
    print(each.name, "|", each.origin, "|", each.chosen, "|", each.reason)
"""


def install(folder: Path, name: str, code: str) -> None:
    """Writes an installed package, as pip does, with one entry point of the group tb_device.drivers."""
    (folder / f"{name}_package.py").write_text(code)
    info = folder / f"{name}_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[tb_device.drivers]\n{name} = {name}_package:library\n")


def library(path: Path, more: str = "") -> str:
    return f"def library():\n    return {str(path)!r}\n{more}"


def test_without_anything_the_built_in_cpu_driver_is_used(python: Python) -> None:
    assert python.output(WHICH, path=None, **UNSET) == "cpu"


def test_an_entry_point_comes_before_the_built_in_driver(
    python: Python, build_driver: BuildDriver, tmp_path: Path
) -> None:
    install(tmp_path, "chip", library(build_driver("COUNT=1", 'NAME="chip"')))
    lines = python.output(LIST, path=tmp_path, **UNSET).splitlines()
    assert lines == [
        "chip | entry point | True | the first usable one in order",
        *(f"{name} | built in | False | not needed: chip came first" for name in ("cuda", "npu", "cpu")),
    ]


def test_the_higher_score_is_tried_first(python: Python, build_driver: BuildDriver, tmp_path: Path) -> None:
    install(tmp_path, "able", library(build_driver("COUNT=1", 'NAME="able"')))
    install(tmp_path, "best", library(build_driver("COUNT=1", 'NAME="best"'), "def score():\n    return 5\n"))
    assert python.output(WHICH, path=tmp_path, **UNSET) == "best"


def test_a_negative_score_comes_after_the_built_in_drivers(
    python: Python, build_driver: BuildDriver, tmp_path: Path
) -> None:
    install(tmp_path, "last", library(build_driver("COUNT=1", 'NAME="last"'), "def score():\n    return -1\n"))
    lines = python.output(LIST, path=tmp_path, **UNSET).splitlines()
    assert [line.split(" | ")[0] for line in lines] == ["cuda", "npu", "cpu", "last"]
    assert lines[-1] == "last | entry point | False | not needed: cpu came first"
    assert python.output(WHICH, path=tmp_path, **{**UNSET, "TB_DRIVER": "last"}) == "last"


def test_an_unusable_candidate_is_passed_over_with_its_reason(
    python: Python, build_driver: BuildDriver, tmp_path: Path
) -> None:
    install(tmp_path, "alpha", library(build_driver("LACKS_ALLOC")))
    install(tmp_path, "beta", library(build_driver("COUNT=0")))
    install(tmp_path, "gamma", "raise OSError('the vendor forgot a file')")
    lines = python.output(LIST, path=tmp_path, **UNSET).splitlines()
    assert "required functions are missing" in lines[0]
    assert lines[1].endswith("it has no devices here")
    assert "gamma (gamma_package:library) gave no path: OSError: the vendor forgot a file" in lines[2]
    assert lines[-1] == "cpu | built in | True | the first usable one in order"


def test_tb_driver_ends_the_search(python: Python, build_driver: BuildDriver, tmp_path: Path) -> None:
    install(tmp_path, "chip", library(build_driver("COUNT=1", 'NAME="chip"')))
    lines = python.output(LIST, path=tmp_path, TB_DRIVER="cpu").splitlines()
    assert lines == [
        "cpu | TB_DRIVER | True | the first usable one in order",
        "chip | entry point | False | not searched: TB_DRIVER is set",
        *(f"{name} | built in | False | not searched: TB_DRIVER is set" for name in ("cuda", "npu", "cpu")),
    ]


def test_tb_driver_takes_the_first_usable_of_a_list(python: Python, build_driver: BuildDriver) -> None:
    broken, good = build_driver("LACKS_ALLOC"), build_driver("COUNT=1", 'NAME="good"')
    assert python.output(WHICH, TB_DRIVER=f"absent, {broken},{good},cpu") == "good"


def test_tb_driver_without_a_usable_one_fails_with_all_reasons(python: Python, build_driver: BuildDriver) -> None:
    done = python.run(WHICH, TB_DRIVER=f"absent,{build_driver('LACKS_ALLOC')}")
    assert done.returncode == 1
    assert "UnavailableError" in done.stderr
    assert "absent (TB_DRIVER): there is no driver 'absent'. Known here: cpu, cuda, npu, replay, sim." in done.stderr
    assert "required functions are missing: mem_alloc, mem_free" in done.stderr
    assert "Do what is said above, or unset TB_DRIVER" in done.stderr


def test_the_programs_own_choice_comes_before_tb_driver(python: Python, build_driver: BuildDriver) -> None:
    code = f"""
    import tb_device
    tb_device.use_driver({str(build_driver("COUNT=1", 'NAME="mine"'))!r})
    print(tb_device.default_driver().name, tb_device.drivers()[0].origin)
    """
    assert python.output(code, TB_DRIVER="cpu") == "mine argument"


def test_the_default_driver_cannot_change() -> None:
    driver = tb_device.default_driver()
    assert tb_device.use_driver(driver) is driver
    with pytest.raises(tb_device.AlreadyExistsError, match="driver is cpu already"):
        tb_device.use_driver("cpu")
    with pytest.raises(tb_device.FailedPreconditionError, match="default driver"):
        driver.close()


@pytest.mark.skipif(not hasattr(os, "setresuid") or os.getuid() != 0, reason="needs root")
def test_tb_driver_is_ignored_under_elevated_privilege(python: Python, build_driver: BuildDriver) -> None:
    code = f"import os\nimport tb_device\nos.setresuid(65534, 0, 0)\n{LIST}"
    lines = python.output(code, TB_DRIVER=str(build_driver("COUNT=1"))).splitlines()
    assert lines[2] == "cpu | built in | True | the first usable one in order"
    assert lines[3].endswith("| TB_DRIVER | False | TB_DRIVER is ignored under elevated privilege")


def test_an_unknown_name_lists_the_known_ones() -> None:
    known = r"no driver 'nochip'. Known here: cpu, cuda, npu, replay, sim\..*\./nochip"
    with pytest.raises(tb_device.NotFoundError, match=known):
        tb_device.load_driver("nochip")


def test_several_drivers_are_open_at_once(build_driver: BuildDriver) -> None:
    cpu, probe = tb_device.load_driver("cpu"), tb_device.load_driver(build_driver("COUNT=2"))
    assert (cpu.name, probe.name, probe.device_count) == ("cpu", "probe", 2)
    assert cpu.self_address != probe.self_address
    cpu.close()
    probe.close()


def test_given_options_come_before_the_environment(build_driver: BuildDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    path = build_driver("COUNT=1", name="fastchip")
    monkeypatch.setenv("TB_FASTCHIP_BOOST", "3")
    by_environment = tb_device.load_driver(path)
    by_argument = tb_device.load_driver(path, {"boost": 4})
    assert by_environment.device_info(0)["compute_units"] == 3
    assert by_argument.device_info(0)["compute_units"] == 4
    by_environment.close()
    by_argument.close()


def test_options_reach_the_built_in_driver(python: Python) -> None:
    code = """
    import tb_device
    print(tb_device.device_count(), tb_device.load_driver("cpu", {"devices": 2}).device_count)
    """
    assert python.output(code, TB_CPU_DEVICES="3") == "3 2"


SHOW_DEVICES = """
import tb_device
print(*(tb_device.open(name, **options).device_count for name in ("cpu", "sim") for options in ({}, {"devices": 5})))
"""


def test_without_an_option_there_is_a_device_for_each_process_of_torchrun(python: Python) -> None:
    assert python.output(SHOW_DEVICES, LOCAL_WORLD_SIZE="4") == "4 5 4 5"
    assert python.output(SHOW_DEVICES, LOCAL_WORLD_SIZE="1") == "1 5 1 5"
    assert python.output(SHOW_DEVICES, LOCAL_WORLD_SIZE="9") == "9 5 2 5"  # sim has eight at most
    assert python.output(SHOW_DEVICES, LOCAL_WORLD_SIZE="4", TB_CPU_DEVICES="3", TB_SIM_DEVICES="2") == "3 5 2 5"


@pytest.mark.parametrize("size", ["", "0", "-2", "two", "4 ", "65", "99999999999999999999"])
def test_a_number_of_processes_that_no_driver_can_serve_is_ignored(python: Python, size: str) -> None:
    assert python.output(SHOW_DEVICES, LOCAL_WORLD_SIZE=size) == "1 5 2 5"


def test_listing_drivers_opens_none(python: Python) -> None:
    code = "import tb_device; print(tb_device.drivers()[0].reason, tb_device.is_open())"
    assert python.output(code) == "not tried yet False"
