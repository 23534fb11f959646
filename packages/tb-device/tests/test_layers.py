"""Layers around a driver: they are put there by TB_LAYERS or the option `layers`, and cost nothing when absent."""

from __future__ import annotations

import ctypes
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import tb_device
from conftest import OFFSETS, BuildDriver, Python
from tb_device import Driver
from tb_device.layers import LiveObject, fault, leak


@pytest.fixture
def faulty() -> Iterator[Driver]:
    driver = tb_device.load_driver("cpu", {"layers": "fault"})
    yield driver
    fault.disarm(driver)
    driver.close()


class Host(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_uint32),
        ("abi", ctypes.c_uint16 * 2),
        ("set_error", ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_int64, ctypes.c_char_p)),
        ("log", ctypes.CFUNCTYPE(None, ctypes.c_int32, ctypes.c_char_p)),
        ("option", ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)),
    )


def functions_of(address: int) -> dict[str, int | None]:
    return {name: ctypes.c_void_p.from_address(address + offset).value for name, offset in OFFSETS.items()}


def raw_functions(library: Path) -> dict[str, int | None]:
    """The function pointers that the driver itself writes into its table, without tb_device."""
    kinds = dict(Host._fields_[2:])
    host = Host(
        ctypes.sizeof(Host),
        (1, 0),
        kinds["set_error"](lambda *_: None),
        kinds["log"](lambda *_: None),
        kinds["option"](lambda _: None),
    )
    size = max(OFFSETS.values()) + ctypes.sizeof(ctypes.c_void_p)
    table = ctypes.create_string_buffer(size)
    ctypes.c_uint32.from_buffer(table).value = size
    assert ctypes.CDLL(str(library)).tb_driver_open_v1(ctypes.byref(host), table, ctypes.byref(ctypes.c_void_p())) == 0
    return functions_of(ctypes.addressof(table))


def test_without_layers_the_table_holds_the_drivers_own_pointers(build_driver: BuildDriver) -> None:
    library = build_driver("COUNT=2", "WITH_ASYNC", name="layerless")
    own = {name: value for name, value in raw_functions(library).items() if value}
    # Without PTR and HOSTCALL the host emulates some functions, with or without layers, and notes streams. It calls
    # these directly.
    direct = ["get_info", "device_get_info", "event_create", "event_query", "event_destroy"]
    plain = tb_device.load_driver(library, {"layers": ""})
    layered = tb_device.load_driver(library, {"layers": "fault"})
    try:
        assert (plain.layers, layered.layers) == ([], ["fault"])
        without, around = functions_of(plain.table_address), functions_of(layered.table_address)
        assert {name: without[name] for name in direct} == {name: own[name] for name in direct}
        assert not {around[name] for name in direct} & set(own.values())
    finally:
        plain.close()
        layered.close()


def test_the_environment_names_layers_and_the_option_goes_before(python: Python) -> None:
    code = """
        import tb_device
        print(tb_device.default_driver().layers, tb_device.load_driver("cpu", {"layers": ""}).layers)
    """
    assert python.output(code, TB_DRIVER="cpu", TB_LAYERS="fault,fault:nth=1000000,status=8") == "['fault', 'fault'] []"


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ("falt", r"there is no layer 'falt'\. There are: .*fault"),
        ("fault:nth", "'nth' is no option of the layer fault. Write fault:key=value"),
        ("nth=3,fault", r"'nth=3' has no layer before it\. Write it as LAYER:nth=3"),
        ("fault:nht=3", "the layer fault has no option 'nht'. It has: .*nth"),
        ("fault:nth=-3", "the option nth of the layer fault is '-3'. It wants a whole number of at least 0"),
        ("fault:nth=1,nth=2", "the option 'nth' of the layer fault is given twice"),
        ("fault:nth=1,every=2", "one of nth, every and probability at a time"),
        ("fault:slot=mem_aloc", r"slot of the layer fault is 'mem_aloc'\. It wants names of tb/driver_slots.inc"),
        ("fault:status=8", "a status but not when to give it"),
        ("fault:probability=2", "a number from 0 to 1"),
    ],
)
def test_a_wrong_spec_says_what_is_right_and_leaves_nothing_open(spec: str, text: str) -> None:
    with pytest.raises(tb_device.InvalidArgumentError, match=text) as caught:
        tb_device.load_driver("cpu", {"layers": spec})
    assert "option layers or TB_LAYERS" in str(caught.value)


def test_the_nth_call_fails_once_with_the_status_that_was_asked_for(faulty: Driver) -> None:
    fault.arm(faulty, nth=1, slot="mem_alloc", status=8)
    first = faulty.mem_alloc(0, 64)
    with pytest.raises(tb_device.OutOfMemoryError, match=r"the layer fault lets mem_alloc fail here.*\(call 1 since"):
        faulty.mem_alloc(0, 64)
    third = faulty.mem_alloc(0, 64)
    assert fault.counts(faulty) == (3, 1)
    fault.disarm(faulty)
    faulty.mem_free(0, first)
    faulty.mem_free(0, third)


def test_persistent_and_every_choose_further_calls(faulty: Driver) -> None:
    def fails() -> bool:
        try:
            faulty.memory_info(0)
        except tb_device.Error:
            return True
        return False

    fault.arm(faulty, nth=1, persistent=True, slot=["device_memory_info", "mem_alloc"])
    assert [fails() for _ in range(4)] == [False, True, True, True]
    fault.arm(faulty, every=2)
    assert [fails() for _ in range(4)] == [False, True, False, True]
    fault.arm(faulty, probability=0.5, seed=3)
    chosen = [fails() for _ in range(64)]
    fault.arm(faulty, probability=0.5, seed=3)
    assert [fails() for _ in range(64)] == chosen
    assert 10 < sum(chosen) < 54


def test_a_release_takes_place_and_then_fails_unless_asked_otherwise(faulty: Driver) -> None:
    free = faulty.memory_info(0)[0]
    address = faulty.mem_alloc(0, 1 << 20)
    fault.arm(faulty, nth=0, slot="mem_free", after=False)
    with pytest.raises(tb_device.Error):
        faulty.mem_free(0, address)
    assert faulty.memory_info(0)[0] < free
    fault.arm(faulty, nth=0, slot="mem_free")
    with pytest.raises(tb_device.Error, match="the call itself took place"):
        faulty.mem_free(0, address)
    assert faulty.memory_info(0)[0] == free


def test_the_default_drivers_layer_is_used_when_no_driver_is_given(python: Python) -> None:
    code = """
        import tb_device
        from tb_device.layers import fault
        tb_device.default_driver()
        fault.arm(nth=0, status=14)
        try:
            tb_device.memory_info()
        except tb_device.UnavailableError:
            print("refused", fault.calls, fault.fired)
    """
    assert python.output(code, TB_DRIVER="cpu", TB_LAYERS="fault") == "refused 1 1"


def test_a_driver_without_the_layer_says_how_to_get_it() -> None:
    driver = tb_device.load_driver("cpu", {"layers": ""})
    with pytest.raises(tb_device.FailedPreconditionError, match="Set TB_LAYERS=fault before"):
        fault.arm(driver, nth=0)
    driver.close()


def test_leak_lists_what_is_alive_with_the_call_that_made_it() -> None:
    driver = tb_device.load_driver("cpu", {"layers": "leak"})
    assert leak.report(driver) == []
    first, second = driver.mem_alloc(0, 100), driver.mem_alloc(0, 200)
    assert leak.report(driver) == [
        LiveObject("block of device memory", first, 100, 1, "mem_alloc"),
        LiveObject("block of device memory", second, 200, 2, "mem_alloc"),
    ]
    driver.mem_free(0, first)
    assert leak.counts(driver) == {"block of device memory": 1}
    driver.mem_free(0, second)
    assert leak.report(driver) == []
    driver.close()


def test_leak_warns_at_close_and_leaves_the_result_alone(python: Python) -> None:
    code = """
        import tb_device
        driver = tb_device.load_driver("cpu")
        address = driver.mem_alloc(0, 1000)
        try:
            driver.close()
        except tb_device.FailedPreconditionError:
            print("refused")
        driver.mem_free(0, address)
        driver.close()
    """
    done = python.run(code, TB_LAYERS="leak", TB_LOG="warning")
    assert done.stdout == "refused\n"
    (line,) = done.stderr.splitlines()
    assert line.startswith("tb warning: still alive at close: block of device memory 0x")
    assert line.endswith("of 1000 bytes, made by call 1, mem_alloc")


PROGRAM = """
    import sys
    import tb_device
    driver = tb_device.default_driver()
    address = driver.mem_alloc(0, 16)
    driver.copy_to_device(0, address, bytes(range(16)))
    driver.mem_set(0, address + 4, 0xAB, 1, 8)
    back = bytearray(16)
    driver.copy_from_device(0, back, address)
    driver.mem_free(0, address)
    print(driver.name, back.hex())
"""


def test_a_recorded_program_runs_again_without_its_driver(python: Python) -> None:
    wanted = "cpu 00010203abababababababab0c0d0e0f"
    assert python.output(PROGRAM, TB_DRIVER="cpu", TB_LAYERS="trace:file=calls.jsonl,bytes=16") == wanted
    lines = [json.loads(line) for line in (python.folder / "calls.jsonl").read_text().splitlines()]
    calls = {line["call"]: line for line in lines[1:]}
    assert calls["mem_set"]["arguments"]["dst"] == "#1+4"
    assert [line["data"] for line in lines[1:] if "data" in line] == [bytes(range(16)).hex()]
    assert python.output(PROGRAM, TB_DRIVER="replay", TB_REPLAY_FILE="calls.jsonl") == wanted


def test_a_replay_reports_where_a_program_differs(python: Python) -> None:
    python.output(PROGRAM, TB_DRIVER="cpu", TB_LAYERS="trace:file=calls.jsonl")
    done = python.run(PROGRAM.replace("0xAB, 1, 8", "0xAB, 1, 7"), TB_DRIVER="replay", TB_REPLAY_FILE="calls.jsonl")
    assert re.search(r"expected call \d+ was mem_set\{.*\"count\":8\}, got mem_set\{.*\"count\":7\}", done.stderr)


@pytest.mark.parametrize("layers", ["validate,leak,fault,serialise", "trace:file=/dev/null"])
def test_the_whole_contract_holds_through_layers(layers: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tb_device.cli", "contract", "--driver", "cpu", "--level", "4", "--layers", layers],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
