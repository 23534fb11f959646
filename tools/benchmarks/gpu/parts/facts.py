"""Prints the machine, device, driver and versions as JSON. Without a CUDA device: one sentence, and status 1."""

from __future__ import annotations

import datetime
import importlib.metadata
import json
import platform
import sys
from pathlib import Path
from typing import Any

import tb_device

PACKAGES = ("tb-device", "tb-stream", "tb-allocator", "tb-generator", "tb-ops", "tb-amp", "torch-backend", "torch")
KERNEL_MODULE = Path("/proc/driver/nvidia/version")


def processor() -> str:
    """The processor's model, as Linux reports it."""
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def versions() -> dict[str, str]:
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def facts(driver: tb_device.Driver) -> dict[str, Any]:
    device = driver.device_info(0)
    return {
        "simulated": str(device["name"]).startswith("Simulated"),
        "device": str(device["name"]),
        "arch": str(device["arch"]),
        "memory_bytes": device["total_memory"],
        "devices": driver.device_count,
        "driver": f"{driver.name} {driver.info['version']}",
        "kernel_module": KERNEL_MODULE.read_text().splitlines()[0] if KERNEL_MODULE.exists() else "none",
        "groups": driver.groups,
        "machine": f"{platform.platform()}, {processor()}",
        "python": platform.python_version(),
        "versions": versions(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
    }


def main() -> int:
    try:
        driver = tb_device.open("cuda")
    except tb_device.Error as error:
        print(error, file=sys.stderr)
        return 1
    if driver.device_count == 0:
        print("libcuda is there, but no CUDA device: nothing to report", file=sys.stderr)
        return 1
    print(json.dumps(facts(driver)))
    driver.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
