"""A report on drivers, components and the machine, for people and for programs. Never imports torch."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from importlib import metadata
from typing import Any

from . import _core, discovery
from .exceptions import Error
from .headers import get_include

TORCH_FREE = ("tb-device", "tb-stream", "tb-allocator", "tb-generator")
NEED_TORCH = ("tb-amp", "tb-ops", "torch-backend")

# In a process of its own: a broken extension may take the process with it, and must not take the report.
_ASK_COMPONENT = """
import importlib, json, sys
from tb_device import _core
module = importlib.import_module(sys.argv[1] + "._core")
print(json.dumps(_core.export_facts(module._tb_export)))
"""


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _ask(package: str) -> dict[str, Any]:
    command = [sys.executable, "-c", _ASK_COMPONENT, package.replace("-", "_")]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return {"problem": f"asking it failed: {error}"}
    if answer.returncode != 0:
        lines = answer.stderr.strip().splitlines()
        return {"problem": lines[-1] if lines else f"importing it ended the process with code {answer.returncode}"}
    facts = json.loads(answer.stdout)
    return {"c_api": ".".join(map(str, facts["c_api"])), "platform": facts["platform"]}


def _components() -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for package in TORCH_FREE + NEED_TORCH:
        version = _version(package)
        if version is None:
            found[package] = {"installed": False}
            continue
        found[package] = {"installed": True, "version": version}
        if package in TORCH_FREE:
            found[package].update(_ask(package))
    return found


def _driver_facts() -> dict[str, Any] | None:
    driver = _core.default_or_none()
    if driver is None:
        return None
    info = dict(driver.info)
    devices = []
    for device in range(driver.device_count):
        facts = driver.device_info(device)
        facts["uuid"] = facts["uuid"].hex() if isinstance(facts["uuid"], bytes) else facts["uuid"]
        devices.append(facts)
    return {**info, "path": driver.path, "groups": driver.groups, "devices": devices}


def examine() -> dict[str, Any]:
    """The report: opens the default driver, asks every installed component, changes nothing. All of it fits JSON."""
    problem = None
    try:
        discovery.default_driver()
    except Error as error:
        problem = str(error)
    about = _core.about()
    try:
        include = get_include()
    except FileNotFoundError as error:
        include = str(error)
    return {
        "usable": problem is None,
        "problem": problem,
        "driver": _driver_facts() if problem is None else None,
        "candidates": [vars(each) for each in discovery.drivers()],
        "components": _components(),
        "device_abi": ".".join(map(str, about["device_abi"])),
        "slots_hash": about["slots_hash"],
        "library": _core.__file__,
        "include": include,
        "forked": _core.forked(),
        "python": platform.python_version(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "torch": _version("torch"),
        "environment": {key: value for key, value in sorted(os.environ.items()) if key.startswith("TB_")},
    }


def _component_line(package: str, facts: dict[str, Any]) -> str:
    if not facts["installed"]:
        return f"  {package:<14} not installed"
    api = f"  C API {facts['c_api']}" if "c_api" in facts else ""
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
        lines += [f"  offers {', '.join(driver['groups'])}"]
        for place, device in enumerate(driver["devices"]):
            lines += [f"  device {place}: {device['name']}, {device['total_memory'] / 2**30:.1f} GiB"]
    lines += ["", "Candidates", candidate_table([discovery.Candidate(**each) for each in report["candidates"]])]
    lines += ["", "Components"]
    lines += [_component_line(package, facts) for package, facts in report["components"].items()]
    lines += ["", "Machine"]
    for key in ("python", "executable", "platform", "torch", "library", "include", "device_abi", "slots_hash"):
        value = report[key] if report[key] is not None else "not installed"
        lines += [f"  {key:<14} {value}"]
    lines += [f"  {'forked':<14} {'yes: the device cannot be used in this process' if report['forked'] else 'no'}"]
    for key, value in report["environment"].items():
        lines += [f"  {key}={value}"]
    return "\n".join(lines)
