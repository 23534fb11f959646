"""Import, threads, fork and exit."""

from __future__ import annotations

import json
import pathlib

import pytest
import tb_device
from conftest import Python


def test_import_opens_no_driver_and_never_imports_torch(python: Python) -> None:
    code = """
    import sys
    sys.modules["torch"] = None  # importing it would raise
    import tb_device, tb_device.cli, tb_device.doctor
    print(tb_device.is_open(), tb_device.current_device(), sum(name.startswith("torch.") for name in sys.modules))
    """
    assert python.output(code) == "False 0 0"


def test_import_does_not_search_for_packages(python: Python) -> None:
    code = "import sys, tb_device; print([n for n in ('argparse', 'subprocess', 'json') if n in sys.modules])"
    assert python.output(code) == "[]"


def test_the_current_device_belongs_to_its_thread(python: Python) -> None:
    code = """
    import threading, tb_device
    tb_device.set_device(1)
    seen = []
    def other():
        seen.append(tb_device.current_device())
        tb_device.set_device(2)
        seen.append(tb_device.current_device())
    thread = threading.Thread(target=other); thread.start(); thread.join()
    with tb_device.device(0):
        seen.append(tb_device.current_device())
    print(seen, tb_device.current_device())
    """
    assert python.output(code, TB_CPU_DEVICES="3") == "[0, 2, 0] 1"


def test_the_current_device_comes_back_after_an_error_in_the_block() -> None:
    with pytest.raises(ZeroDivisionError), tb_device.device(0):
        _ = 1 / 0
    assert tb_device.current_device() == 0


def test_many_threads_open_the_default_driver_once(python: Python) -> None:
    code = """
    import threading, tb_device
    start = threading.Barrier(8)
    found = []
    def use():
        start.wait()
        tb_device.synchronize(0)
        found.append(tb_device.default_driver())
    threads = [threading.Thread(target=use) for _ in range(8)]
    for each in threads: each.start()
    for each in threads: each.join()
    print(len(found), len({id(each) for each in found}), found[0].self_address == found[7].self_address)
    """
    assert python.output(code) == "8 1 True"


def test_other_components_open_the_driver_through_the_table(python: Python) -> None:
    code = """
    import ctypes, sys, threading
    sys.path.insert(0, TESTS)
    import device_table, tb_device
    api, self = ctypes.c_void_p(), ctypes.c_void_p()
    status = []
    def use():  # a thread that does not hold Python's lock in the call: ctypes releases it
        status.append(device_table.table().driver(api, self))
    thread = threading.Thread(target=use); thread.start(); thread.join()
    driver = tb_device.default_driver()
    print(status, api.value == driver.table_address, self.value == driver.self_address, device_table.table().is_open())
    """.replace("TESTS", repr(__file__.rsplit("/", 1)[0]))
    assert python.output(code) == "[0] True True 1"


def test_a_failing_search_reaches_components_as_status_and_text(python: Python) -> None:
    code = """
    import ctypes, sys
    sys.path.insert(0, TESTS)
    import device_table, tb_device
    api, self = ctypes.c_void_p(1), ctypes.c_void_p(1)
    print(device_table.table().driver(api, self), api.value, self.value)
    print(device_table.describe(14, "driver", -1).splitlines()[0])
    """.replace("TESTS", repr(__file__.rsplit("/", 1)[0]))
    lines = python.output(code, TB_DRIVER="absent").splitlines()
    assert lines == ["14 1 1", "tb-device: driver() failed: unavailable (14): no usable driver. Tried:"]


FORK = """
import os, sys, tb_device
BEFORE
child = os.fork()
if child == 0:
    for call in (lambda: driver.mem_alloc(0, 64), tb_device.synchronize, lambda: tb_device.load_driver("cpu")):
        try:
            print(call())
        except tb_device.FailedPreconditionError as error:
            print("refused", "'spawn'" in str(error), "forked" in str(error))
    print("facts", tb_device.device_count(), tb_device.current_device(), tb_device._core.forked())
    sys.stdout.flush()
    os._exit(0)
print("child", os.waitpid(child, 0)[1])
print("parent", driver.mem_alloc(0, 64) > 0, tb_device._core.forked())
"""


def test_a_forked_child_is_refused_with_the_reason_and_the_parent_goes_on(python: Python) -> None:
    code = FORK.replace("BEFORE", "driver = tb_device.default_driver(); driver.mem_alloc(0, 64)")
    assert python.output(code).splitlines() == [
        *["refused True True"] * 3,
        "facts 1 0 True",
        "child 0",
        "parent True False",
    ]


def test_every_function_of_the_table_is_refused_in_a_forked_child(python: Python) -> None:
    code = """
    import ctypes, os, sys, tb_device
    driver = tb_device.default_driver()
    driver.mem_alloc(0, 64)
    if (child := os.fork()) == 0:
        function = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 7)
        slots = tb_device._core.slots()
        answers = [function(ctypes.c_void_p.from_address(driver.table_address + slot[3]).value)(
            driver.self_address, *[None] * 6) for slot in slots]
        os._exit(0 if answers == [9] * len(slots) else 1)
    print(os.waitpid(child, 0)[1])
    """
    assert python.output(code) == "0"


def test_a_child_forked_before_the_first_use_has_the_device(python: Python) -> None:
    code = """
    import os, sys, tb_device
    if (child := os.fork()) == 0:
        print(tb_device.default_driver().mem_alloc(0, 64) > 0, tb_device._core.forked(), flush=True)
        sys.exit(0)
    print(os.waitpid(child, 0)[1])
    """
    assert python.output(code).splitlines() == ["True False", "0"]


def test_a_forked_child_of_a_process_that_only_asked_has_the_device(python: Python) -> None:
    code = """
    import os, sys, tb_device
    driver = tb_device.default_driver()
    facts = driver.devices()[0].properties, driver.memory_info(0), driver.info, driver.query(0, "cpu.workers")
    driver.synchronize(0)
    tb_device._core.set_current_device(0)
    if (child := os.fork()) == 0:
        address = driver.mem_alloc(0, 64)
        driver.copy_to_device(0, address, bytes(range(64)))
        driver.copy_from_device(0, out := bytearray(64), address)
        other = tb_device.load_driver("cpu")
        print(out == bytes(range(64)), tb_device._core.forked(), other.device_count, flush=True)
        driver.mem_free(0, address)
        sys.exit(0)  # runs the exit handlers
    print(os.waitpid(child, 0)[1], driver.mem_alloc(0, 64) > 0)
    """
    assert python.output(code).splitlines() == ["True False 1", "0 True"]


def test_a_forked_child_ends_cleanly_by_itself(python: Python) -> None:
    code = """
    import os, sys, tb_device
    tb_device.default_driver()
    if (child := os.fork()) == 0:
        sys.exit(0)  # runs the exit handlers
    print(os.waitpid(child, 0)[1])
    """
    assert python.output(code) == "0"


QUEUED = """
import ctypes, sys
sys.path.insert(0, TESTS)
import tb_device
from conftest import Slots
driver = tb_device.default_driver()
slots = Slots(driver)
stream = ctypes.c_void_p()
slots.stream_default(ctypes.c_int32(0), ctypes.byref(stream))
address = ctypes.c_void_p(driver.mem_alloc(0, 1 << 22))
for _ in range(50):
    slots.mem_set(ctypes.c_int32(0), stream, address, ctypes.c_uint32(1), ctypes.c_uint32(4), ctypes.c_uint64(1 << 20))
print("queued")
"""


def test_exit_with_work_queued_and_memory_allocated_is_clean(python: Python) -> None:
    code = QUEUED.replace("TESTS", repr(__file__.rsplit("/", 1)[0]))
    assert python.output(code) == "queued"


def test_what_is_left_open_at_exit_is_reported_when_asked_for(python: Python) -> None:
    done = python.run(QUEUED.replace("TESTS", repr(__file__.rsplit("/", 1)[0])), TB_LOG="info")
    assert done.returncode == 0
    assert "at exit, left to the operating system: cpu: close() failed: failed precondition (9)" in done.stderr


def test_shutdown_functions_run_last_first_and_then_calls_are_refused(python: Python) -> None:
    code = """
    import atexit, ctypes, sys
    sys.path.insert(0, TESTS)
    def afterwards():  # registered before tb_device, so it runs after
        try:
            driver.mem_alloc(0, 1)
        except tb_device.FailedPreconditionError as error:
            print("refused:", "the process is ending" in str(error))
        print(table.on_shutdown(function, None))
    atexit.register(afterwards)
    import device_table, tb_device
    driver = tb_device.default_driver()
    table = device_table.table()
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    function = kind(lambda user: print("end", user, driver.mem_alloc(0, 1) > 0))
    for user in (1, 2):
        assert table.on_shutdown(function, ctypes.c_void_p(user)) == 0
    """.replace("TESTS", repr(__file__.rsplit("/", 1)[0]))
    lines = python.output(code).splitlines()
    assert lines == ["end 2 True", "end 1 True", "refused: True", "9"]


def test_threads_that_use_the_device_while_the_process_ends_do_not_crash_it(python: Python) -> None:
    code = """
    import threading, time, tb_device
    driver = tb_device.default_driver()
    def use():
        while True:
            driver.mem_free(0, driver.mem_alloc(0, 4096))
            driver.synchronize(0)
    for _ in range(3):
        threading.Thread(target=use, daemon=True).start()
    time.sleep(0.1)
    """
    done = python.run(code)
    assert done.returncode == 0
    assert "Fatal" not in done.stderr


def test_a_driver_is_closed_after_the_calls_that_are_inside_it(python: Python, tmp_path: pathlib.Path) -> None:
    """The layer fault keeps a daemon thread inside a call while the process ends; the layer trace sees what follows."""
    calls = tmp_path / "calls.jsonl"
    code = """
    import threading, time, tb_device
    driver = tb_device.default_driver()
    inside = threading.Event()
    def use():
        inside.set()
        driver.memory_info(0)
    threading.Thread(target=use, daemon=True).start()
    inside.wait()
    time.sleep(0.1)
    """
    layers = f"fault:slot=device_memory_info,delay=500000,trace:file={calls}"
    done = python.run(code, TB_LAYERS=layers)
    assert done.returncode == 0, done.stderr
    made = [json.loads(line).get("call") for line in calls.read_text().splitlines()]
    assert made.index("device_memory_info") < made.index("close")


def test_log_is_silent_unless_asked_for(python: Python) -> None:
    code = "import tb_device; tb_device.device_count()"
    assert python.run(code).stderr == ""
    assert "tb info: opened driver cpu" in python.run(code, TB_LOG="info").stderr
    assert python.run(code, TB_LOG="error").stderr == ""


def test_properties_are_those_of_the_driver() -> None:
    properties = tb_device.get_device_properties(0)
    free, total = tb_device.memory_info(0)
    assert properties.driver == "cpu"
    assert properties.alignment >= 64
    assert 0 < free <= total == properties.total_memory
    assert properties.host_accessible
