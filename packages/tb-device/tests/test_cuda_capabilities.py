"""What the CUDA driver offers, and what `tb-device explain` reports, when one function of libcuda is hidden."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tb_device
from sim_vendor.simulated import Control
from simulated_cuda import FUNCTIONS, control, image, library
from tb_device import explain, levels

__all__ = ["control", "image", "library"]  # fixtures

GROUPS = ("ASYNC", "PIN", "PTR", "SOA", "COPY2D", "VMM", "PEER", "HOSTCALL", "NATIVE", "TIMING", "MODULE", "IPC")
NEED_ASYNC = {"SOA", "HOSTCALL", "NATIVE", "TIMING", "MODULE", "IPC", levels.GRAPH_EXTENSION}
EVERYTHING = {"CORE", *GROUPS, levels.GRAPH_EXTENSION}
# Functions of the table that go with an optional function of libcuda.
OPTIONAL = {
    "cuDeviceGetUuid": set(),  # the PCI address is used instead
    "cuMemGetInfo": {"device_memory_info"},
    "cuDevicePrimaryCtxGetState": set(),  # the driver does not see contexts of other code in the process
    "cuDevicePrimaryCtxReset": {"device_reset"},
    "cuMemHostRegister": {"mem_register_host", "mem_unregister_host"},
    "cuMemHostUnregister": {"mem_register_host", "mem_unregister_host"},
    "cuModuleGetGlobal": {"module_global"},
    "cuLaunchHostFunc": set(),  # host calls are not captured
}


def lost_with(need: str, name: str) -> set[str]:
    """Groups, extensions and functions that the driver lacks without the function."""
    if need == "OPTIONAL":
        return OPTIONAL[name]
    if need == "GRAPH":
        return {levels.GRAPH_EXTENSION}
    return {need, *(NEED_ASYNC if need == "ASYNC" else ())}


def test_everything_is_offered_on_a_whole_library(control: Control) -> None:
    driver = tb_device.open("cuda")
    assert explain.offered_by(driver) & EVERYTHING == EVERYTHING
    assert levels.level_of(explain.offered_by(driver)) == 4
    assert explain.HOST_ACCESSIBLE not in explain.offered_by(driver)
    driver.close()


@pytest.mark.parametrize(
    ("need", "name"), [(need, name) for need, name, _ in FUNCTIONS if need != "CORE"], ids=lambda text: str(text)
)
def test_a_hidden_function_takes_away_what_needs_it_and_nothing_else(
    control: Control, monkeypatch: pytest.MonkeyPatch, need: str, name: str
) -> None:
    whole = tb_device.open("cuda")
    before, features = explain.offered_by(whole), explain.examine(whole)["features"]
    whole.close()
    monkeypatch.setenv("TB_SIMCUDA_HIDE", name)
    driver = tb_device.open("cuda")
    lost = before - explain.offered_by(driver)
    expected = lost_with(need, name)
    functions = {function for group, _, function, _ in tb_device._core.slots() if group in expected}
    assert lost == expected | (functions & before)
    for now, then in zip(explain.examine(driver)["features"], features, strict=True):
        [feature] = [each for each in explain.FEATURES if each.name == now["feature"]]
        needs_lost = any(set(choice) & before and not set(choice) - lost & before for choice in feature.needs)
        if not needs_lost:
            assert now == then
        else:
            assert now["offered"] is False
            assert (now["state"], now["how"]) == feature.without
    block = driver.mem_alloc(0, 4096)  # the other functions still work
    driver.mem_set(0, block, 0x5A, 1, 4096)
    back = bytearray(4096)
    driver.copy_from_device(0, back, block)
    assert back == bytes([0x5A]) * 4096
    driver.mem_free(0, block)
    driver.close()


def contract(library: Path, image: Path, report: Path, *arguments: str, hide: str = "") -> dict[str, object]:
    command = [sys.executable, "-m", "tb_device.cli", "contract", "--driver", "cuda", "--image", str(image)]
    environment = {**os.environ, "TB_CUDA_LIBRARY": str(library), "TB_SIMCUDA_HIDE": hide}
    done = subprocess.run(
        [*command, "--json", str(report), *arguments], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads(report.read_text())
    assert isinstance(result, dict)
    return result


def test_the_contract_holds_at_its_highest_level(library: Path, image: Path, tmp_path: Path) -> None:
    result = contract(library, image, tmp_path / "contract.json", "--level", "4")
    assert (result["passing"], result["failed"], result["expected_failures"]) == (True, 0, 0)
    executed = result["groups"]
    assert isinstance(executed, dict)
    assert set(executed) == {"CORE", *GROUPS}
    assert all(executed.values()), executed
    graphs = [each for each in result["results"] if each["id"].startswith("GRA")]  # type: ignore[attr-defined]
    assert sum(each["outcome"] == "passed" for each in graphs) > 15


@pytest.mark.parametrize("name", ["cuStreamWaitEvent", "cuMemAllocAsync"])
def test_the_contract_holds_for_what_is_left(library: Path, image: Path, tmp_path: Path, name: str) -> None:
    areas = ("ABI", "DEV", "CPY", "ERR", "C2D", "PEE")
    only = [word for area in areas for word in ("--only", area)]
    result = contract(library, image, tmp_path / "contract.json", "--level", "4", *only, hide=name)
    assert (result["passing"], result["failed"]) == (True, 0)
