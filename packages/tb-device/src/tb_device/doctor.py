"""A report on drivers, components and the machine, for people and for programs. Never imports torch."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

from . import _core, console, discovery, elf
from .exceptions import Error
from .headers import get_include

TORCH_FREE = ("tb-device", "tb-stream", "tb-allocator", "tb-generator")
NEED_TORCH = ("tb-amp", "tb-ops", "tb-compile", "torch-backend")

# In processes of their own: a broken library may take the process with it, and must not take the report.
_ASK_COMPONENT = """
import importlib, json, sys
from tb_device import _core
module = importlib.import_module(sys.argv[1] + "._core")
print(json.dumps([_core.export_facts(module._tb_export), _core.importers()]))
"""
_ASK_DRIVER = """
import sys, tb_device
try:
    driver = tb_device.load_driver(sys.argv[1])
except tb_device.Error as error:
    print("refused:", error)
else:
    print("usable" if driver.device_count else "it has no devices here")
"""


def _child(code: str, argument: str) -> tuple[str, str]:
    """What a fresh process printed, and what went wrong with it: "" if nothing."""
    command = [sys.executable, "-c", code, argument]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return "", f"asking it failed: {error}"
    if answer.returncode == 0:
        return answer.stdout, ""
    lines = answer.stderr.strip().splitlines()
    return "", lines[-1] if lines else f"importing it ended the process with code {answer.returncode}"


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _ask(package: str) -> dict[str, Any]:
    answer, problem = _child(_ASK_COMPONENT, package.replace("-", "_"))
    if problem:
        return {"problem": problem}
    facts, importers = json.loads(answer)
    return {
        "c_api": ".".join(map(str, facts["c_api"])),
        "platform": facts["platform"],
        "slots_hash": importers.get(package),
    }


def _components() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    ours = _core.about()["slots_hash"]
    for package in TORCH_FREE + NEED_TORCH:
        version = _version(package)
        if version is None:
            found[package] = {"installed": False}
            continue
        facts: dict[str, Any] = {"installed": True, "version": version}
        if package in TORCH_FREE:
            facts.update(_ask(package))
        # Those that need torch left theirs here if this process has imported them.
        theirs = ours if package == "tb-device" else facts.get("slots_hash") or _core.importers().get(package)
        facts["slots_hash"] = theirs
        facts["header_drift"] = theirs is not None and theirs != ours
        found[package] = facts
    return found


def _candidates() -> list[dict[str, Any]]:
    """Every candidate; those that discovery had no reason to try are tried here, each in its own process."""
    found = []
    for candidate in discovery.drivers():
        facts = candidate._asdict()
        if not candidate.chosen and candidate.reason.startswith("not "):
            answer, problem = _child(_ASK_DRIVER, candidate.name)
            facts["reason"] += f"; {problem or answer.strip()}"
        found.append(facts)
    return found


def _driver_facts(driver: _core.Driver) -> dict[str, Any]:
    devices = []
    for device in range(driver.device_count):
        facts = driver.device_info(device)
        facts["uuid"] = facts["uuid"].hex() if isinstance(facts["uuid"], bytes) else facts["uuid"]
        devices.append(facts)
    report = {**driver.info, "path": driver.path, "groups": driver.groups, "layers": driver.layers}
    report.update(devices=devices, exports=None)
    library = Path(driver.path)
    if library.is_absolute():  # a built-in driver is no file
        try:
            report["exports"] = elf.exported_symbols(library)
        except (elf.NotReadable, OSError) as error:
            report["exports_unknown"] = str(error)
    return report


def _sanitizers() -> list[str]:
    """Which sanitizers' run-time libraries are loaded."""
    try:
        mapped = Path("/proc/self/maps").read_text()
    except OSError:
        return []
    return [name for name in ("asan", "tsan", "ubsan", "msan", "lsan") if f"lib{name}.so" in mapped]


def _problems(report: dict[str, Any]) -> list[str]:
    found = [] if report["problem"] is None else [report["problem"]]
    if report["forked"]:
        found.append("this is a forked child, where the device cannot be used: start processes with spawn")
    driver = report["driver"]
    extra = [name for name in (driver and driver["exports"]) or () if name != "tb_driver_open_v1"]
    if extra:
        shown = ", ".join(extra[:5]) + (f" and {len(extra) - 5} more" if len(extra) > 5 else "")
        found.append(
            f"{driver['path']} exports {shown} beside tb_driver_open_v1, which can take the place of another library's "
            "symbols: link it with a version script (tb-device new-driver writes one)"
        )
    for package, facts in report["components"].items():
        if "problem" in facts:
            found.append(f"{package} cannot be imported: {facts['problem']}")
        if facts.get("header_drift"):
            found.append(
                f"{package} was compiled with another tb/driver_slots.inc ({facts['slots_hash']}) than tb-device "
                f"({report['slots_hash']}): install versions that were made together"
            )
    return found


def examine(driver: str | None = None) -> dict[str, Any]:
    """The report; all of it fits JSON. Opens the default driver, or `driver` (a name or a path) beside it.

    `problems` lists what is wrong, each with what to do; nothing is changed.
    """
    problem = None
    opened = None
    try:
        opened = discovery.default_driver() if driver is None else discovery.load_driver(driver)
    except Error as error:
        problem = str(error)
    about = _core.about()
    try:
        include = get_include()
    except FileNotFoundError as error:
        include = str(error)
    report = {
        "usable": problem is None,
        "problem": problem,
        "driver": _driver_facts(opened) if opened is not None else None,
        "candidates": _candidates(),
        "components": _components(),
        "device_abi": ".".join(map(str, about["device_abi"])),
        "slots_hash": about["slots_hash"],
        "library": _core.__file__,
        "include": include,
        "forked": _core.forked(),
        "sanitizers": _sanitizers(),
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "torch": _version("torch"),
        "environment": {key: value for key, value in sorted(os.environ.items()) if key.startswith("TB_")},
    }
    report["problems"] = _problems(report)
    return report


def _component_line(package: str, facts: dict[str, Any]) -> str:
    if not facts["installed"]:
        return f"  {package:<14} not installed"
    api = f"  C API {facts['c_api']}" if "c_api" in facts else ""
    api += f"  slots {facts['slots_hash']}" if facts.get("slots_hash") else ""
    api += "  DRIFT" if facts.get("header_drift") else ""
    problem = f"  PROBLEM: {facts['problem']}" if "problem" in facts else ""
    return f"  {package:<14} {facts['version']}{api}{problem}"


def readable(report: dict[str, Any]) -> str:
    """The report as text."""
    from .cli import candidate_table

    lines = []
    driver = report["driver"]
    if driver is None:
        lines += [f"PROBLEM: {report['problem']}"]
    else:
        lines += [f"Driver {driver['name']} {driver['version']} ({driver['vendor']}), from {driver['path']}"]
        lines += [f"  offers {', '.join(driver['groups'])}", f"  build {driver['build_id']}"]
        lines += [f"  layers {', '.join(driver['layers']) or 'none'}"]
        if driver["exports"] is not None:
            lines += [f"  exports {', '.join(driver['exports'])}"]
        elif "exports_unknown" in driver:
            lines += [f"  exports unknown: {driver['exports_unknown']}"]
        for place, device in enumerate(driver["devices"]):
            lines += [f"  device {place}: {device['name']}, {device['total_memory'] / 2**30:.1f} GiB"]
    lines += ["", "Candidates", candidate_table([discovery.Candidate(**each) for each in report["candidates"]])]
    lines += ["", "Components"]
    lines += [_component_line(package, facts) for package, facts in report["components"].items()]
    lines += ["", "Machine"]
    for key in ("python", "executable", "platform", "torch", "library", "include", "device_abi", "slots_hash"):
        value = report[key] if report[key] is not None else "not installed"
        lines += [f"  {key:<14} {value}"]
    lines += [f"  {'sanitizers':<14} {', '.join(report['sanitizers']) or 'none'}"]
    lines += [f"  {'forked':<14} {'yes: the device cannot be used in this process' if report['forked'] else 'no'}"]
    for key, value in report["environment"].items():
        lines += [f"  {key}={value}"]
    lines += ["", *(f"PROBLEM: {each}" for each in report["problems"] if each != report["problem"])]
    if not report["problems"]:
        lines += ["No problem found."]
    return console.fit("\n".join(lines))
