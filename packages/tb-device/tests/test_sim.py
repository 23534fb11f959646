"""The sim driver from Python: its options, its page in the docs, and that nothing chooses it by itself."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import tb_device

PAGE = Path(__file__).parents[3] / "docs" / "sim.md"


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env={**os.environ, **environment}
    )


def test_the_page_says_what_its_example_prints() -> None:
    if not PAGE.exists():
        pytest.skip("the docs are not beside the tests")
    (example,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    result = run(example)
    assert result.returncode == 0, result.stderr
    poison, text = result.stdout.splitlines()[:2]
    assert poison == "cb" * 8
    assert re.search(r"the block of 8 bytes at 0x\w+ on device 0 was freed before this call", text)


def test_options_are_those_of_the_call() -> None:
    driver = tb_device.open("sim", capacity="1MiB", devices=3, isolated=False)
    assert driver.device_count == 3
    assert driver.memory_info(0) == (1 << 20, 1 << 20)
    with pytest.raises(ValueError, match="capacity"):
        tb_device.open("sim", capacity="lots")
    driver.close()


def test_facts_that_kernels_need_are_those_of_the_options() -> None:
    driver = tb_device.open("sim")
    assert driver.devices()[0].properties.lacks == ()
    assert driver.devices()[0].properties.max_argument_size == 0
    assert driver.devices()[0].properties.vector_size == 0
    driver.close()
    driver = tb_device.open("sim", lacks="float64,fma", max_argument_size=1024, vector_size=32)
    assert driver.devices()[0].properties.lacks == ("float64", "fma")
    assert driver.devices()[0].properties.max_argument_size == 1024
    assert driver.devices()[0].properties.vector_size == 32
    driver.close()
    with pytest.raises(ValueError, match="float_atomics"):
        tb_device.open("sim", lacks="float64,feet")


def test_it_is_opened_by_name_only() -> None:
    assert "sim" not in [candidate.name for candidate in tb_device.drivers()]


def test_a_host_access_says_which_block() -> None:
    result = run(
        "import ctypes, tb_device\ndriver = tb_device.open('sim')\nctypes.string_at(driver.mem_alloc(0, 100) + 7, 1)\n"
    )
    assert result.returncode == -11
    assert "byte 7 of the block of 100 bytes" in result.stderr


def test_a_lost_device_comes_back_with_a_new_driver() -> None:
    driver = tb_device.open("sim", lose_after=1)
    address = driver.mem_alloc(0, 16)
    with pytest.raises(tb_device.DeviceLostError):
        driver.mem_set(0, address, 0, 1, 16)  # waits for the device
    driver.mem_free(0, address)
    driver.close()
    tb_device.open("sim").close()


def test_the_schedule_is_logged_at_close() -> None:
    result = run(
        "import tb_device\n"
        "driver = tb_device.open('sim', seed=5)\n"
        "block = driver.mem_alloc(0, 16)\n"
        "driver.mem_set(0, block, 0, 1, 16)\n"
        "driver.synchronize(0)\n"
        "driver.mem_free(0, block)\n"
        "driver.close()\n",
        TB_LOG="info",
    )
    assert result.returncode == 0, result.stderr
    assert re.search(r"seed=5 schedule=(\+\d+ )?0", result.stderr)
