"""Which library and which devices the driver takes, what it says where there is none, and when it is chosen at all."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from conftest import Library, Python

OPEN = """
import tb_device
try:
    driver = tb_device.load_driver("opencl", {options})
    print(driver.device_count, driver.devices()[0].properties.name)
except tb_device.Error as error:
    print(type(error).__name__, error)
"""


def opened(python: Python, environment: dict[str, str], **options: str) -> str:
    return python.output(OPEN.format(options=options), **environment)


@pytest.mark.parametrize("device", ["", "cpu", "intel", "INTEL(R) OPENCL: ", "intel:0"])
def test_a_device_is_named_by_kind_or_text(device: str, python: Python, intel: dict[str, str]) -> None:
    options = {"device": device} if device else {}
    assert opened(python, intel, **options).startswith("1 Intel(R)")


@pytest.mark.parametrize("device", ["gpu", "radeon", "intel:1"])
def test_a_name_that_fits_nothing_lists_what_there_is(device: str, python: Python, intel: dict[str, str]) -> None:
    text = opened(python, intel, device=device)
    assert text.startswith("UnavailableError")
    assert f'no OpenCL device fits the option "device" = "{device}"' in text
    assert "There is: Intel(R) OpenCL: Intel(R)" in text
    assert "fine-grained shared virtual memory" in text


def test_an_unknown_kind_of_memory_is_refused(python: Python, intel: dict[str, str]) -> None:
    text = opened(python, intel, memory="huge")
    assert text.startswith("InvalidArgumentError")
    assert "takes usm, fine or coarse" in text


def test_a_device_can_be_taken_to_lack_facts(python: Python, intel: dict[str, str]) -> None:
    code = "import tb_device; print(tb_device.get_device_properties(0).lacks)"
    lacks = python.output(code, **intel, TB_OPENCL_LACKS="float64,fma")
    assert set(ast.literal_eval(lacks)) >= {"float64", "fma"}
    text = opened(python, intel, lacks="float64,speed")
    assert text.startswith("InvalidArgumentError")
    assert '"float64,speed"; it takes float64, fma and atomic64' in text


def test_a_library_that_is_missing_or_another(python: Python, intel: dict[str, str]) -> None:
    text = opened(python, intel, library="/absent/libOpenCL.so")
    assert text.startswith("UnavailableError")
    assert "/absent/libOpenCL.so: cannot open shared object file" in text
    assert "TB_OPENCL_LIBRARY" in text
    text = opened(python, intel, library="libm.so.6")
    assert "libm.so.6 is no OpenCL loader of version 2.0 or later: it lacks clGetPlatformIDs" in text
    assert text.count("cl") < 20  # a few names, and how many more


def test_a_loader_without_implementations(python: Python, intel: dict[str, str], tmp_path: Path) -> None:
    text = opened(python, {**intel, "OCL_ICD_VENDORS": str(tmp_path)})
    assert text.startswith("UnavailableError")
    assert "OpenCL's loader finds no device" in text
    assert "OCL_ICD_VENDORS" in text


def test_a_broken_implementation_is_as_none(python: Python, intel: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "vendors").mkdir()
    broken = tmp_path / "libbroken.so"
    broken.write_bytes(b"\x7fELF and no more")
    (tmp_path / "vendors" / "broken.icd").write_text(f"{broken}\n")
    text = opened(python, {**intel, "OCL_ICD_VENDORS": str(tmp_path / "vendors")})
    assert "OpenCL's loader finds no device" in text


def test_platforms_without_devices_are_as_none(python: Python, intel: dict[str, str], library: Library) -> None:
    empty = library("int clGetDeviceIDs(void) { return -1; } /* CL_DEVICE_NOT_FOUND */")
    assert "OpenCL's loader finds no device" in opened(python, intel, library=str(empty))


AUTOMATIC = """
import tb_device
print(tb_device.default_driver().name)
print([each.reason for each in tb_device.drivers() if each.name == "opencl"])
print("libOpenCL" in open("/proc/self/maps").read())
"""
NO_VENDOR = {"TB_DRIVER": "", "TB_CUDA_LIBRARY": "/absent", "TB_NPU_LIBRARY": "/absent"}


def test_processors_are_not_chosen_before_the_cpu_driver(python: Python, intel: dict[str, str]) -> None:
    lines = python.output(AUTOMATIC, **{**intel, **NO_VENDOR}).splitlines()
    assert lines[:2] == ["cpu", "['not needed: cpu came first']"]


def test_without_opencl_its_loader_is_not_loaded(python: Python, intel: dict[str, str], tmp_path: Path) -> None:
    environment = {**intel, **NO_VENDOR, "OCL_ICD_VENDORS": str(tmp_path)}
    assert python.output(AUTOMATIC, **environment).splitlines() == ["cpu", "['not needed: cpu came first']", "False"]


def test_a_gpu_comes_first(python: Python, intel: dict[str, str], library: Library) -> None:
    # The processor says that it is a GPU.
    gpu = library(
        "int clGetDeviceIDs(void *p, unsigned long k, unsigned n, void *d, unsigned *c) { *c = 1; return 0; }"
    )
    code = "import tb_opencl; print(tb_opencl.score())"
    assert python.output(code, **{**intel, "TB_OPENCL_LIBRARY": str(gpu)}) == "1.0"
    assert python.output(code, **intel) == "-1.0"
