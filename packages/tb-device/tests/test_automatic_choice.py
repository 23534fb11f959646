"""Without TB_DRIVER: the first of cuda, npu and cpu whose vendor library is there and has a device."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Python
from sim_vendor.simulated import build

WHICH = "import tb_device; print(tb_device.default_driver().name)"
LIST = """
import tb_device
tb_device.default_driver()
for each in tb_device.drivers():
    print(each.name, "|", each.chosen, "|", each.reason)
"""
DOCTOR = "import sys; from tb_device.cli import main; sys.exit(main({arguments}))"
ABSENT = "/absent/libvendor.so"


@pytest.fixture(scope="module")
def libraries() -> dict[str, str]:
    """Both simulated vendor libraries, and no driver named."""
    return {"TB_DRIVER": "", "TB_CUDA_LIBRARY": str(build("cuda")), "TB_NPU_LIBRARY": str(build("npu"))}


def test_cuda_comes_before_npu_and_npu_before_cpu(python: Python, libraries: dict[str, str]) -> None:
    lines = python.output(LIST, path=None, **libraries).splitlines()
    assert lines == [
        "cuda | True | the first usable one in order",
        "npu | False | not needed: cuda came first",
        "cpu | False | not needed: cuda came first",
    ]
    assert python.output(WHICH, path=None, **{**libraries, "TB_CUDA_LIBRARY": ABSENT}) == "npu"
    assert (
        python.output(WHICH, path=None, **{**libraries, "TB_CUDA_LIBRARY": ABSENT, "TB_NPU_LIBRARY": ABSENT}) == "cpu"
    )


def test_a_library_without_a_device_is_passed_over(python: Python, libraries: dict[str, str]) -> None:
    lines = python.output(LIST, path=None, **libraries, TB_SIMCUDA_DEVICES="0").splitlines()
    assert lines[:2] == ["cuda | False | it has no devices here", "npu | True | the first usable one in order"]


def test_tb_driver_fixes_the_driver(python: Python, libraries: dict[str, str]) -> None:
    for name in ("cpu", "npu"):
        assert python.output(WHICH, path=None, **{**libraries, "TB_DRIVER": name}) == name


def test_a_broken_library_is_passed_over_and_the_doctor_says_why(
    python: Python, libraries: dict[str, str], tmp_path: Path
) -> None:
    torn = tmp_path / "libcuda.so.1"
    torn.write_text("torn")
    reported = {
        "is CUDA 10.2, and 11.0 is the oldest that works": {"TB_SIMCUDA_VERSION": "10020"},
        "cuInit failed: CUDA_ERROR_UNKNOWN (999)": {"TB_SIMCUDA_INIT": "999"},
        f"there is no CUDA driver library: {torn}: file too short": {"TB_CUDA_LIBRARY": str(torn)},
    }
    for words, broken in reported.items():
        environment = {**libraries, "TB_SIMNPU_STUB": "1", **broken}
        done = python.run(DOCTOR.format(arguments=["doctor", "--json"]), path=None, **environment)
        assert done.returncode == 0, done.stdout
        report = json.loads(done.stdout)
        reasons = {each["name"]: each["reason"] for each in report["candidates"]}
        assert report["driver"]["name"] == "cpu"
        assert words in reasons["cuda"]
        assert "this is the library for building programs, not the runtime (100039)" in reasons["npu"]
        assert "\n" not in reasons["cuda"] + reasons["npu"]


def test_importing_opens_no_vendor_library_and_choosing_touches_no_device(
    python: Python, libraries: dict[str, str]
) -> None:
    code = """
        import ctypes, os, tb_device
        opened = any(name in open("/proc/self/maps").read() for name in ("libcuda", "libascendcl"))
        tb_device.drivers()
        opened = opened or any(name in open("/proc/self/maps").read() for name in ("libcuda", "libascendcl"))
        driver = tb_device.default_driver()
        print(opened, driver.name, driver.device_count, driver.device_info(0)["name"] != "")
        simulation = ctypes.CDLL(os.environ["TB_CUDA_LIBRARY"])
        simulation.tb_simcuda_calls.restype = ctypes.c_uint64
        print(simulation.tb_simcuda_calls(b"cuDevicePrimaryCtxRetain"), simulation.tb_simcuda_calls(b"cuInit"))
    """
    assert python.output(code, path=None, **libraries).splitlines() == ["False cuda 2 True", "0 1"]
