"""Fault sweeps over tb-device's emulation, and the reports of a sweep about wrong programs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from conftest import BuildDriver, Python

LAYERS = {"TB_LAYERS": "fault,leak"}
HELPERS = """
import ctypes, sys
import tb_device
from ctypes import byref, c_int32, c_uint64, c_void_p
from tb_device import _core
from tb_device.fault_sweep import SweepError, sweep, sweep_in_processes
from tb_device.layers import fault, leak

OFFSETS = {name: offset for _, _, name, offset in _core.slots()}

def call(driver, name, *arguments):
    address = ctypes.c_void_p.from_address(driver.table_address + OFFSETS[name]).value
    return ctypes.CFUNCTYPE(c_int32)(address)(c_void_p(driver.self_address), *arguments)

def program():
    driver = tb_device.default_driver()
    address = driver.mem_alloc(0, 256)
    try:
        driver.copy_to_device(0, address, bytes(256))
    finally:
        driver.mem_free(0, address)
"""


def test_a_sweep_of_a_right_program_reports_nothing_and_counts_every_point(python: Python) -> None:
    code = (
        HELPERS
        + "tb_device.default_driver(); print(sweep(program, statuses=[8, 33]), sweep(program, slots=['mem_copy']))"
    )
    # 6 calls: mem_alloc, mem_get_info, stream_default, mem_copy, stream_synchronize, mem_free. Persistent as transient.
    transient = 6
    assert python.output(code, TB_DRIVER="cpu", **LAYERS) == f"{2 * 2 * transient} {4 * 2}"


@pytest.mark.parametrize(
    ("fault_in", "text"),
    [
        ("address = driver.mem_alloc(0, 8); driver.synchronize(0); driver.mem_free(0, address)", "left objects of the"),
        ("global broken\n    if broken: raise KeyError\n    broken = True; driver.synchronize(0); broken = False",
         "the run without faults after the one with fault.arm(nth=0, status=13) failed"),
        ("try: driver.synchronize(0)\n    except tb_device.Error: threading.Event().wait()", "did not end within 1 s"),
        ("pass", "no fault was given"),
        ("driver.memory_info(0) if leak.counts(driver) else kept.append(driver.mem_alloc(0, 8))", "100 runs"),
    ],
    ids=["leak", "unusable", "hang", "nothing", "grows"],
)  # fmt: skip
def test_a_wrong_program_is_reported_with_the_point_of_the_sweep(python: Python, fault_in: str, text: str) -> None:
    code = HELPERS + (
        "import threading\nkept = []\nbroken = False\ndef wrong():\n    driver = tb_device.default_driver()\n    "
        + fault_in.replace("if leak.counts(driver) else", "if len(kept) > 10_000 else")
        + "\ntb_device.default_driver()\ntry: sweep(wrong, statuses=[13], modes=['transient'], seconds=1)\n"
        "except SweepError as error: print(error)\nsys.stdout.flush()\nimport os; os._exit(0)"
    )
    assert text in python.output(code, TB_DRIVER="cpu", **LAYERS)


def test_a_crash_is_reported_when_each_point_has_a_process(python: Python) -> None:
    code = HELPERS + (
        "def wrong():\n"
        "    try: tb_device.default_driver().memory_info(0)\n"
        "    except tb_device.Error: ctypes.string_at(0)\n"
        "try: sweep_in_processes(wrong)\n"
        "except SweepError as error: print(error)\n"
    )
    assert python.output(code, TB_DRIVER="cpu", **LAYERS) == (
        "the process of the run with fault.arm(nth=0, status=8) crashed: signal SIGSEGV"
    )


@pytest.mark.parametrize("layers", ["", "fault", "leak,fault"])
def test_a_driver_without_the_layers_is_refused(python: Python, layers: str) -> None:
    code = HELPERS + "tb_device.default_driver()\ntry: sweep(program)\nexcept SweepError as error: print(error)"
    assert "TB_LAYERS=fault,leak" in python.output(code, TB_DRIVER="cpu", TB_LAYERS=layers)


# Every emulated function: streams and events, host calls, memory counts, pinned memory, pitched and peer copies.
EMULATED = (
    HELPERS
    + """
Host = ctypes.CFUNCTYPE(None, c_void_p, c_int32)
ran = []
function = Host(lambda user, status: ran.append(status))

class Copy2D(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("kind", c_int32), ("dst", c_void_p), ("src", c_void_p)]
    _fields_ += [(name, c_uint64) for name in ("dst_pitch", "src_pitch", "width", "height")]

def good(status):
    if status: raise tb_device.exception(status, "", "probe", "", -1, 0)

def program():
    driver = tb_device.default_driver()
    here, there = driver.mem_alloc(0, 64), 0
    stream, event, pinned = c_void_p(), c_void_p(), c_void_p()
    try:
        there = driver.mem_alloc(1, 64)
        good(call(driver, "mem_alloc_host", c_int32(0), c_uint64(64), c_uint64(0), byref(pinned)))
        good(call(driver, "stream_create", c_int32(0), c_int32(0), c_uint64(0), byref(stream)))
        good(call(driver, "event_create", c_int32(0), c_uint64(0), byref(event)))
        rows = Copy2D(ctypes.sizeof(Copy2D), 1, here, pinned, 16, 16, 8, 4)
        good(call(driver, "mem_copy_2d", c_int32(0), stream, byref(rows)))
        good(call(driver, "peer_copy", stream, c_void_p(there), c_int32(1), c_void_p(here), c_int32(0), c_uint64(64)))
        good(call(driver, "stream_host_call", stream, function, None))
        good(call(driver, "event_record", event, stream))
        good(call(driver, "stream_wait_event", stream, event))
        good(call(driver, "event_synchronize", event))
        good(call(driver, "device_synchronize", c_int32(0)))
        driver.memory_info(0)
    finally:
        for name, handle in (("event_destroy", event), ("stream_destroy", stream), ("mem_free_host", pinned)):
            if handle: call(driver, name, handle)
        for device, address in ((1, there), (0, here)):
            if address: call(driver, "mem_free", c_int32(device), c_void_p(address))

def check():
    driver = tb_device.default_driver()
    assert driver.memory_info(0) == driver.memory_info(1) == (1 << 20, 1 << 20), driver.memory_info(0)
"""
)


@pytest.mark.parametrize("switches", [(), ("WITH_ASYNC",)], ids=["core_only", "with_async"])
def test_the_emulation_for_a_small_driver_survives_every_fault(
    build_driver: BuildDriver, python: Python, switches: tuple[str, ...]
) -> None:
    library: Path = build_driver("COUNT=2", *switches, name="swept" + "_".join(switches))
    code = EMULATED + "print(sweep_in_processes(program, check=check))"
    assert int(python.output(code, TB_DRIVER=os.fspath(library), **LAYERS)) > 60


def test_the_fixture_is_available_to_any_test(python: Python) -> None:
    (python.folder / "test_it.py").write_text(
        "import tb_device\n"
        "def test_it(tb_fault_sweep):\n"
        "    assert tb_fault_sweep(lambda: tb_device.synchronize(0), statuses=(14,)) == 2\n"
    )
    code = "import pytest; print(pytest.main(['-q', '-p', 'no:cacheprovider', 'test_it.py']))"
    assert python.output(code, TB_DRIVER="cpu", **LAYERS).endswith("0")
