"""What the CUDA driver does on this machine: python tools/gpu_report.py [--json FILE] [--image FILE] [--skip-contract].

Runs the contract at level 4 and measures what mapping, unmapping, events and allocations cost, on whatever libcuda is
there: a real one, or with TB_CUDA_LIBRARY the simulated one, and then every part of the output says so. Needs tb-device
and no network. Prints a table; the JSON goes to build/gpu_report.json. Exit code 1: the contract failed; 2: no device.

On the simulation (tests/sim_vendor/cuda) the contract wants --image build/sim_vendor/cuda/contract_kernels.image.
"""

from __future__ import annotations

import argparse
import ctypes
import datetime
import json
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tb_device
from tb_device import _core

MIB = 1 << 20
ROUNDS = 7
SIMULATED = "SIMULATION, not a GPU"


class Table:
    """Functions of the driver's table by name; a failure raises RuntimeError."""

    def __init__(self, driver: _core.Driver) -> None:
        self.self = ctypes.c_void_p(driver.self_address)
        self.functions = {}
        for _, _, name, offset in _core.slots():
            address = ctypes.c_void_p.from_address(driver.table_address + offset).value
            assert address is not None  # tb-device completes the table
            self.functions[name] = ctypes.CFUNCTYPE(ctypes.c_int32)(address)

    def call(self, name: str, *arguments: object, also: int = 0) -> None:
        """also: another status that is no failure."""
        status = self.functions[name](self.self, *arguments)
        if status not in (0, also):
            raise RuntimeError(f"{name} gave status {status}")

    def out(self, name: str, *arguments: object) -> ctypes.c_void_p:
        value = ctypes.c_void_p()
        self.call(name, *arguments, ctypes.byref(value))
        return value


def microseconds(count: int, once: Callable[[int], None]) -> float:
    """Median over rounds of the time of one of `count` calls, each of which gets its number."""
    rounds = []
    for _ in range(ROUNDS):
        start = time.perf_counter_ns()
        for number in range(count):
            once(number)
        rounds.append((time.perf_counter_ns() - start) / count / 1000)
    return statistics.median(rounds)


class Costs:
    """Rows of (what, microseconds), without what a call through ctypes costs by itself."""

    def __init__(self, driver: _core.Driver) -> None:
        self.table = Table(driver)
        self.groups = set(driver.groups)
        self.rows: list[tuple[str, float]] = []
        count = ctypes.byref(ctypes.c_int32())
        self.overhead = microseconds(2000, lambda _: self.table.call("device_count", count))

    def add(self, what: str, value: float) -> None:
        self.rows.append((what, max(0.0, value - self.overhead)))

    def events(self) -> None:
        table = self.table
        stream = table.out("stream_create", 0, 0, ctypes.c_uint64(0))
        event = table.out("event_create", 0, ctypes.c_uint64(0))
        not_ready = 32
        self.add("event_record", microseconds(1000, lambda _: table.call("event_record", event, stream)))
        table.call("stream_synchronize", stream)
        self.add(
            "event_query, complete", microseconds(1000, lambda _: table.call("event_query", event, also=not_ready))
        )
        self.add("stream_wait_event", microseconds(500, lambda _: table.call("stream_wait_event", stream, event)))
        self.add("stream_synchronize, idle", microseconds(500, lambda _: table.call("stream_synchronize", stream)))
        table.call("event_destroy", event)
        table.call("stream_destroy", stream)

    def allocations(self) -> None:
        for size in (4096, 2 * MIB, 20 * MIB):

            def once(_: int, size: int = size) -> None:
                block = self.table.out("mem_alloc", 0, ctypes.c_uint64(size), ctypes.c_uint64(0))
                self.table.call("mem_free", 0, block)

            self.add(f"mem_alloc + mem_free, {size >> 10} KiB", microseconds(20, once))

    def mappings(self, size: int, count: int = 8) -> None:
        """Each step for `count` pieces of memory in one range; the access once for all of them as well."""
        times: dict[str, list[float]] = {}
        for _ in range(ROUNDS):
            self._map_once(size, count, times)
        for what, values in times.items():
            self.add(f"{what}, {size // MIB} MiB", statistics.median(values))

    def _map_once(self, size: int, count: int, times: dict[str, list[float]]) -> None:
        call, length, whole = self.table.call, ctypes.c_uint64(size), ctypes.c_uint64(size * count)
        place = self.table.out("vmm_reserve", whole, ctypes.c_uint64(0), None)
        places = [ctypes.c_void_p((place.value or 0) + size * i) for i in range(count)]
        pieces = [ctypes.c_void_p() for _ in range(count)]
        access = (ctypes.byref(ctypes.c_int32(0)), ctypes.c_uint32(1), ctypes.c_uint32(3))  # device 0, read and write

        def step(what: str, calls: list[tuple[object, ...]]) -> None:
            start = time.perf_counter_ns()
            for name, *arguments in calls:
                call(str(name), *arguments)
            times.setdefault(what, []).append((time.perf_counter_ns() - start) / len(calls) / 1000)

        none = ctypes.c_uint64(0)
        step("vmm_create", [("vmm_create", 0, length, none, ctypes.byref(piece)) for piece in pieces])
        step("vmm_map", [("vmm_map", at, length, piece, none) for at, piece in zip(places, pieces, strict=True)])
        step("vmm_set_access", [("vmm_set_access", at, length, *access) for at in places])
        step(f"vmm_set_access over {count} pieces at once", [("vmm_set_access", place, whole, *access)])
        step("vmm_unmap", [("vmm_unmap", at, length) for at in places])
        step("vmm_destroy", [("vmm_destroy", piece) for piece in pieces])
        call("vmm_release", place, whole)

    def measure(self) -> None:
        if "ASYNC" in self.groups:
            self.events()
        self.allocations()
        if "VMM" in self.groups:
            for size in (2 * MIB, 8 * MIB):
                self.mappings(size)


def run_contract(image: str | None) -> dict[str, Any]:
    """The counts of the contract at level 4. Raises RuntimeError when it gives no report."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "contract.json"
        command = [sys.executable, "-m", "tb_device.cli", "contract", "--driver", "cuda", "--level", "4"]
        command += ["--json", str(report), *(["--image", image] if image else [])]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not report.exists():
            raise RuntimeError(f"the contract gave no report: {done.stdout}{done.stderr}")
        result = json.loads(report.read_text())
    keys = ("passing", "passed", "failed", "not_offered", "executed", "groups", "seconds", "kit")
    failed = [f"{each['id']}: {each['text']}" for each in result["results"] if each["outcome"] == "failed"]
    return {**{key: result[key] for key in keys}, "failures": failed}


def readable(report: dict[str, Any]) -> str:
    """The report as Markdown; a simulation's says so in every part."""
    label = f" ({SIMULATED})" if report["simulated"] else ""
    device = report["device"]
    lines = [f"## {device['name']}{label}", "", f"{report['driver']}; {device['arch']}, {device['memory']} bytes; "]
    lines[-1] += f"{report['platform']}, {report['date']}"
    contract = report.get("contract")
    if contract:
        verdict = "passed" if contract["passing"] else "FAILED"
        lines += [
            "",
            f"Contract at level 4{label}: {verdict}; {contract['passed']} passed, {contract['failed']} failed, ",
        ]
        lines[-1] += f"{contract['not_offered']} not offered"
        lines += [f"- {failure}" for failure in contract["failures"]]
    lines += ["", f"| call{label} | us |", "| --- | --- |"]
    lines += [f"| {row['what']} | {row['us']:.2f} |" for row in report["costs"]]
    lines += ["", f"Medians of {ROUNDS} rounds{label}; {report['overhead_us']:.2f} us of ctypes a call are taken off."]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", type=Path, default=Path("build/gpu_report.json"), metavar="FILE")
    parser.add_argument("--image", help="the contract's kernels; by default PTX, which the simulation does not take")
    parser.add_argument("--skip-contract", action="store_true")
    asked = parser.parse_args()
    try:
        driver = tb_device.open("cuda")
    except tb_device.Error as error:
        print(error, file=sys.stderr)
        return 2
    if driver.device_count == 0:
        print("there is no CUDA device here: nothing to report", file=sys.stderr)
        return 2
    facts = driver.device_info(0)
    costs = Costs(driver)
    costs.measure()
    report: dict[str, Any] = {
        "simulated": str(facts["name"]).startswith("Simulated"),
        "device": {"name": facts["name"], "arch": facts["arch"], "memory": facts["total_memory"]},
        "driver": f"{driver.name} {driver.info['version']}",
        "groups": driver.groups,
        "platform": platform.platform(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "overhead_us": costs.overhead,
        "costs": [{"what": what, "us": value} for what, value in costs.rows],
    }
    driver.close()
    if not asked.skip_contract:
        report["contract"] = run_contract(asked.image)
    asked.json.parent.mkdir(parents=True, exist_ok=True)
    asked.json.write_text(json.dumps(report, indent=1) + "\n")
    print(readable(report))
    return 0 if asked.skip_contract or report["contract"]["passing"] else 1


if __name__ == "__main__":
    sys.exit(main())
