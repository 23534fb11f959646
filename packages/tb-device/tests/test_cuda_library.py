"""The CUDA driver with libraries that are missing, too old, broken or without a device, and the calls it makes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BuildDriver, Python
from simulated_cuda import FUNCTIONS, image, library

__all__ = ["image", "library"]  # fixtures

OPEN = """
    import tb_device
    try:
        driver = tb_device.open("cuda")
        print(driver.device_count, *driver.groups)
    except tb_device.Error as error:
        print(type(error).__name__, error)
"""


def refusal(python: Python, **environment: str) -> str:
    """Opens the driver, checks that it is refused in one line, and gives that line."""
    text: str = python.output(OPEN, **environment)
    assert text.startswith("UnavailableError cuda: tb_driver_open_v1"), text
    assert len(text.splitlines()) == 1
    return text


def test_a_missing_library_is_named_with_the_remedy(python: Python) -> None:
    text = refusal(python, TB_CUDA_LIBRARY="/nowhere/libcuda.so.1")
    assert "there is no CUDA driver library: /nowhere/libcuda.so.1: cannot open" in text
    assert "Install NVIDIA's driver" in text


def test_a_file_that_is_no_library_is_refused(python: Python, tmp_path: Path) -> None:
    file = tmp_path / "libcuda.so.1"
    file.write_text("half a download")
    assert "there is no CUDA driver library: " in refusal(python, TB_CUDA_LIBRARY=str(file))


def test_another_library_is_refused_with_what_it_lacks(python: Python, build_driver: BuildDriver) -> None:
    text = refusal(python, TB_CUDA_LIBRARY=str(build_driver(name="other")))
    core = sum(need == "CORE" for need, _, _ in FUNCTIONS)
    assert "is no whole CUDA driver library: it lacks cuInit, cuDriverGetVersion, cuGetErrorName, " in text
    assert f"cuGetErrorString and {core - 4} more. Install" in text


def test_a_library_that_lacks_one_function_is_refused_with_the_function_s_name(python: Python, library: Path) -> None:
    text = refusal(python, TB_CUDA_LIBRARY=str(library), TB_SIMCUDA_HIDE="cuMemAlloc")
    assert "is no whole CUDA driver library: it lacks cuMemAlloc. Install" in text


def test_a_library_that_is_too_old_is_refused_with_its_version(python: Python, library: Path) -> None:
    text = refusal(python, TB_CUDA_LIBRARY=str(library), TB_SIMCUDA_VERSION="10020")
    assert "is CUDA 10.2, and 11.0 is the oldest that works. Upgrade NVIDIA's driver" in text


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (999, "cuInit failed: CUDA_ERROR_UNKNOWN (999): unknown. CUDA does not start here"),
        (803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)"),
        (34, "It is the toolkit's stub for linking"),
        (12345, "an unknown error (12345)"),
    ],
)
def test_a_library_that_does_not_start_is_refused_with_its_own_words(
    python: Python, library: Path, code: int, words: str
) -> None:
    assert words in refusal(python, TB_CUDA_LIBRARY=str(library), TB_SIMCUDA_INIT=str(code))


def test_no_device_is_no_failure(python: Python, library: Path) -> None:
    text = python.output(OPEN, TB_CUDA_LIBRARY=str(library), TB_SIMCUDA_DEVICES="0")
    assert text.startswith("0 CORE ASYNC")
    code = "import tb_device; print(tb_device.default_driver().name, *tb_device.drivers(), sep='\\n')"
    chosen = python.output(code, TB_CUDA_LIBRARY=str(library), TB_SIMCUDA_DEVICES="0", TB_DRIVER="cuda,cpu")
    assert chosen.splitlines()[0] == "cpu"
    assert "it has no devices here" in chosen


def test_a_library_before_cugetprocaddress_is_asked_by_symbols(python: Python, library: Path, tmp_path: Path) -> None:
    old = tmp_path / "libcuda.so.1"
    old.write_bytes(library.read_bytes().replace(b"\0cuGetProcAddress", b"\0xxGetProcAddress"))
    text = python.output(OPEN, TB_CUDA_LIBRARY=str(old))
    assert text == python.output(OPEN, TB_CUDA_LIBRARY=str(library))
    assert text.split()[0] == "2"


def test_functions_newer_than_the_library_are_not_used(python: Python, library: Path) -> None:
    text = python.output(OPEN, TB_CUDA_LIBRARY=str(library), TB_SIMCUDA_VERSION="11000")
    assert "SOA" not in text.split()  # CUDA 11.2 added it
    assert "VMM" in text.split()  # CUDA 10.2 added it


def test_queries_create_no_context(python: Python, library: Path) -> None:
    code = """
        import ctypes, json, os, tb_device
        from tb_device import doctor, explain
        driver = tb_device.open("cuda")
        explain.examine(driver)
        [driver.memory_info(device) for device in range(driver.device_count)]
        driver.query(0, "cuda.warp_size")
        driver.synchronize(0)
        simulation = ctypes.CDLL(os.environ["TB_CUDA_LIBRARY"])
        simulation.tb_simcuda_calls.restype = ctypes.c_uint64
        made = simulation.tb_simcuda_calls(b"cuDevicePrimaryCtxRetain")
        driver.mem_free(0, driver.mem_alloc(0, 64))
        print(json.dumps([made, simulation.tb_simcuda_calls(b"cuDevicePrimaryCtxRetain")]))
    """
    assert json.loads(python.output(code, TB_CUDA_LIBRARY=str(library))) == [0, 1]


def test_physical_memory_is_charged_also_as_the_first_use_of_a_device(
    library: Path, image: Path, tmp_path: Path
) -> None:
    report = tmp_path / "contract.json"
    command = [sys.executable, "-m", "tb_device.cli", "contract", "--driver", "cuda", "--only", "VMM-10"]
    environment = {**os.environ, "TB_CUDA_LIBRARY": str(library)}
    done = subprocess.run([*command, "--image", str(image), "--json", str(report)], env=environment, timeout=60)
    assert done.returncode == 0


def test_the_threads_current_context_is_left_alone(python: Python, library: Path) -> None:
    code = """
        import ctypes, os, tb_device
        cuda = ctypes.CDLL(os.environ["TB_CUDA_LIBRARY"])
        def current():
            context = ctypes.c_void_p()
            assert cuda.cuCtxGetCurrent(ctypes.byref(context)) == 0
            return context.value
        driver = tb_device.open("cuda")
        block = driver.mem_alloc(1, 64)
        assert current() is None
        other = ctypes.c_void_p()  # as torch.cuda would: the same primary context
        assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(other), 1) == 0
        assert cuda.cuCtxSetCurrent(other) == 0
        driver.mem_free(0, driver.mem_alloc(0, 64))
        assert current() == other.value
        driver.mem_set(1, block, 7, 1, 64)
        seen = ctypes.create_string_buffer(64)
        assert cuda.cuMemcpyDtoHAsync_v2(seen, ctypes.c_uint64(block), ctypes.c_size_t(64), None) == 0
        assert seen.raw == bytes([7]) * 64
        driver.mem_free(1, block)
        driver.close()
        assert current() == other.value
        assert cuda.cuCtxSynchronize() == 0  # the driver let go of it, its other user has not
        print("ok")
    """
    assert python.output(code, TB_CUDA_LIBRARY=str(library)) == "ok"


def test_a_lost_device_says_since_when_and_works_after_its_reset(python: Python, library: Path) -> None:
    code = """
        import ctypes, os, tb_device
        cuda = ctypes.CDLL(os.environ["TB_CUDA_LIBRARY"])
        driver = tb_device.open("cuda")
        block = driver.mem_alloc(0, 64)
        cuda.tb_simcuda_break(0, 700)
        for _ in range(2):
            try:
                driver.synchronize(0)
            except tb_device.DeviceLostError as error:
                print(error.native_code, "CUDA_ERROR_ILLEGAL_ADDRESS" in str(error))
        driver.mem_free(1, driver.mem_alloc(1, 64))  # the other device works on
        address = driver.table_address + {name: at for *_, name, at in tb_device._core.slots()}["device_reset"]
        reset = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32)(
            ctypes.c_void_p.from_address(address).value)
        print(reset(driver.self_address, 0))
        driver.mem_free(0, block)  # from before: nothing is left to free
        fresh = driver.mem_alloc(0, 64)
        driver.mem_set(0, fresh, 1, 1, 64)
        driver.mem_free(0, fresh)
        driver.close()
    """
    assert python.output(code, TB_CUDA_LIBRARY=str(library)).splitlines() == ["700 True", "700 True", "0"]
