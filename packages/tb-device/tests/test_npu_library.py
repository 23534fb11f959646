"""Libraries that are missing, too old, broken or stubs, and the features that each missing function costs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import tb_device
from conftest import Python
from sim_vendor.simulated import Control
from simulated_npu import OLDEST, OPTIONAL, Npu, control, functions, library
from tb_device import explain

__all__ = ["control", "library"]  # fixtures

# The features that users lose if the function is missing; none where the driver does without it.
VMM, PEERS, PINNING = {"expandable segments"}, {"peer copies"}, {"pinning memory in place"}
TAKES_AWAY: dict[str, set[str]] = {
    "aclrtCreateEventExWithFlag": set(),  # the driver makes a new event of the old kind for each record
    "aclrtCreateEventWithFlag": set(),
    "aclrtGetCurrentContext": set(),  # the driver sets and counts devices instead
    "aclrtSetCurrentContext": set(),
    "aclrtGetDeviceInfo": {"facts of the vendor's own"},
    "aclrtDeviceGetUuid": set(),  # the driver makes one from the device's number
    "aclrtMallocAlign32": set(),  # each block takes 32 bytes more
    "aclrtPointerGetAttributes": set(),  # memory that other code pinned counts as pageable
    "aclrtHostRegister": PINNING,
    "aclrtHostUnregister": PINNING,
    "aclrtMemcpy2dAsync": {"pitched copies"},
    "aclrtStreamGetId": set(),  # a wrong native handle is not noticed
    "aclrtLaunchHostFunc": {"host callbacks"},
    "aclrtDeviceCanAccessPeer": PEERS,
    "aclrtDeviceEnablePeerAccess": PEERS,
    "aclrtReserveMemAddress": VMM,
    "aclrtReleaseMemAddress": VMM,
    "aclrtMallocPhysical": VMM,
    "aclrtFreePhysical": VMM,
    "aclrtMapMem": VMM,
    "aclrtUnmapMem": VMM,
    "aclrtMemGetAllocationGranularity": VMM,
}
LEVEL_1 = ("host callbacks",)  # the features that level 2 needs


def refused(**options: object) -> str:
    with pytest.raises(tb_device.UnavailableError) as raised:
        tb_device.load_driver("npu", options)
    return str(raised.value)


def one_sentence_and_a_remedy(text: str) -> bool:
    return "\n" not in text and text.count(". ") == 1 and text.split(". ")[1].split()[0] in ("Install", "Put", "See")


def test_a_machine_without_a_device_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    if Path("/dev/davinci_manager").exists():
        pytest.fail("this machine has an Ascend device: the test must run where none is")
    monkeypatch.delenv("TB_NPU_LIBRARY", raising=False)
    text = refused()
    assert "this machine has no Ascend device: there is no /dev/davinci_manager" in text
    assert one_sentence_and_a_remedy(text)


def test_a_missing_library_is_named(tmp_path: Path) -> None:
    text = refused(library=tmp_path / "libascendcl.so")
    assert f"libascendcl cannot be loaded: {tmp_path}/libascendcl.so: cannot open shared object file" in text
    assert one_sentence_and_a_remedy(text)


def test_a_damaged_library_is_reported_with_the_loaders_reason(library: Path, tmp_path: Path) -> None:
    half = tmp_path / "libascendcl.so"
    half.write_bytes(library.read_bytes()[:50])
    text = refused(library=half)
    assert f"libascendcl cannot be loaded: {half}: file too short" in text
    assert one_sentence_and_a_remedy(text)


def test_a_library_that_is_too_old_is_reported_with_all_that_it_lacks(
    control: Control, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = "aclrtMemsetAsync,aclrtQueryEventStatus,aclrtCreateEventExWithFlag,aclrtCreateEventWithFlag"
    monkeypatch.setenv("TB_SIMNPU_HIDE", needed)
    text = refused(library=library)
    assert "lacks 3 functions that the driver needs: aclrtMemsetAsync, aclrtQueryEventStatus, " in text
    assert "aclrtCreateEventExWithFlag (or aclrtCreateEventWithFlag)" in text
    assert one_sentence_and_a_remedy(text)


@pytest.mark.parametrize("function", [name for name, need in functions().items() if need == "REQUIRED"])
def test_each_required_function_is_missed(
    control: Control, library: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    monkeypatch.setenv("TB_SIMNPU_HIDE", function)
    assert f"lacks 1 functions that the driver needs: {function}. " in refused(library=library)


def test_the_library_for_building_programs_is_no_runtime(
    control: Control, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TB_SIMNPU_STUB", "1")
    text = refused(library=library)
    assert "aclrtGetDeviceCount failed: this is the library for building programs, not the runtime (100039)" in text
    assert one_sentence_and_a_remedy(text)


def test_a_runtime_that_finds_no_devices_is_reported_with_its_code(control: Control, library: Path) -> None:
    control.fault("aclrtGetDeviceCount", 0, 207004)
    text = refused(library=library)
    assert "aclrtGetDeviceCount failed: no device (207004): EE1001" in text
    assert "See npu-smi info" in text


def test_a_runtime_that_cannot_start_is_reported_when_its_facts_are_asked_for(control: Control, library: Path) -> None:
    control.fault("aclInit", 0, 500000)
    with pytest.raises(tb_device.Error, match=r"aclInit failed: internal error of the library \(500000\)"):
        tb_device.load_driver("npu", {"library": library})


def test_the_doctor_says_it_too(python: Python, library: Path) -> None:
    code = "import sys\nfrom tb_device import cli\nsys.exit(cli.main(['doctor']))"
    done = python.run(code, TB_DRIVER="npu", TB_NPU_LIBRARY=str(library), TB_SIMNPU_STUB="1")
    assert done.returncode == 1
    assert "this is the library for building programs, not the runtime (100039)" in done.stdout
    done = python.run(code, TB_DRIVER="npu", TB_NPU_LIBRARY=str(library))
    assert done.returncode == 0
    assert "Driver npu " in done.stdout
    assert "Ascend910B2" in done.stdout


def test_every_optional_function_is_listed_here() -> None:
    assert sorted(TAKES_AWAY) == sorted(OPTIONAL)


def explained(library: Path) -> tuple[dict[str, dict[str, object]], int]:
    npu = Npu(library)
    report = explain.examine(npu.driver)
    npu.driver.close()
    return {each["feature"]: each for each in report["features"]}, report["level"]


@pytest.mark.parametrize("function", OPTIONAL)
def test_what_a_missing_function_takes_away_is_what_explain_says(
    control: Control, library: Path, monkeypatch: pytest.MonkeyPatch, function: str
) -> None:
    whole, level = explained(library)
    assert level == 2
    monkeypatch.setenv("TB_SIMNPU_HIDE", function)
    rest, level = explained(library)
    assert {name for name in whole if whole[name] != rest[name]} == TAKES_AWAY[function]
    assert all(whole[name]["offered"] and not rest[name]["offered"] for name in TAKES_AWAY[function])
    assert level == (1 if TAKES_AWAY[function] & set(LEVEL_1) else 2)


def contract(library: Path, file: Path, *arguments: str) -> dict[str, object]:
    command = [sys.executable, "-m", "tb_device.cli", "contract", "--driver", "npu", "--json", str(file)]
    command += ["--option", f"library={library}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    result: dict[str, object] = json.loads(file.read_text())
    return result


def test_the_contract_is_kept_to_the_highest_level(library: Path, tmp_path: Path) -> None:
    result = contract(library, tmp_path / "contract.json", "--level", "4")
    assert result["failed"] == result["expected_failures"] == 0
    groups = result["groups"]
    assert isinstance(groups, dict)
    assert {"CORE", "ASYNC", "PIN", "PTR", "COPY2D", "VMM", "PEER", "HOSTCALL", "NATIVE", "TIMING"} == set(groups)
    assert all(executed > 0 for executed in groups.values())


def test_a_stream_that_lags_behind_its_events_is_no_leak(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TB_SIMNPU_LAG", "2000")  # a destroyed stream stays busy after its last event is complete
    assert contract(library, tmp_path / "contract.json", "--level", "4", "--only", "LEK-03")["passed"] == 1


def test_the_contract_is_kept_on_the_oldest_library(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TB_SIMNPU_HIDE", OLDEST)
    result = contract(library, tmp_path / "contract.json", "--level", "4")
    assert result["failed"] == result["expected_failures"] == 0
    groups = result["groups"]
    assert isinstance(groups, dict)
    assert set(groups) == {"CORE", "ASYNC", "PIN", "PTR", "NATIVE", "TIMING"}
