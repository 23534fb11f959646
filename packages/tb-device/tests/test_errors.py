"""Errors carry driver, function, device, status, native code and the driver's text, and are reported once."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator

import pytest
import tb_device
from conftest import BuildDriver
from device_table import Explainer, LateReporter, TbError, describe, table
from tb_device import Driver


@pytest.fixture
def probe(build_driver: BuildDriver) -> Iterator[Driver]:
    driver = tb_device.load_driver(build_driver("COUNT=2"))
    yield driver
    driver.close()


def test_an_exception_carries_every_field(probe: Driver) -> None:
    with pytest.raises(tb_device.OutOfMemoryError) as caught:
        probe.mem_alloc(1, 2 << 20)
    error = caught.value
    assert isinstance(error, MemoryError)
    assert isinstance(error, tb_device.Error)
    assert (error.status, error.driver, error.function, error.device, error.native_code) == (
        8,
        "probe",
        "mem_alloc",
        1,
        42,
    )
    assert str(error) == "probe: mem_alloc(device=1) failed: out of memory (8): probe has 1 MiB [native code 42]"


def test_a_status_outside_the_list_is_shown_with_its_number(probe: Driver) -> None:
    with pytest.raises(tb_device.Error, match=r"unknown status \(200\): a status that nobody knows \[native code 7\]"):
        probe.mem_alloc(0, 99)


def test_a_failure_without_text_still_reads_well(probe: Driver) -> None:
    with pytest.raises(tb_device.Error) as caught:
        probe.mem_alloc(0, 98)
    assert str(caught.value) == "probe: mem_alloc(device=0) failed: internal error (13)"


def test_text_of_an_earlier_failure_never_explains_a_later_one(probe: Driver) -> None:
    table().set_error(13, 5, 3, b"something", b"old text")
    with pytest.raises(tb_device.Error) as caught:
        probe.mem_alloc(0, 98)
    assert "old text" not in str(caught.value)
    table().set_error(8, 5, 3, b"something", b"old text")
    assert describe(12, "launch", 0).endswith("launch(device=0) failed: unsupported (12)")


def test_the_text_of_a_component_is_taken_once() -> None:
    table().set_error(8, 3, 1, b"allocate", b"tried 2 MiB")
    assert describe(8, "outer", 0).endswith("allocate(device=1) failed: out of memory (8): tried 2 MiB [native code 3]")
    assert describe(8, "outer", 0).endswith("outer(device=0) failed: out of memory (8)")
    error = TbError(struct_size=1)
    assert table().take_error(error) == 0


def test_take_error_gives_the_fields_and_honours_the_callers_size() -> None:
    table().set_error(12, -9, 2, b"launch", b"no kernels")
    error = TbError(struct_size=TbError.function.offset)
    assert table().take_error(error) == 1
    assert (error.struct_size, error.status, error.native_code, error.device) == (TbError.function.offset, 12, -9, 2)
    assert (error.function, error.text) == (b"", b"")


def test_long_text_is_cut_between_characters() -> None:
    table().set_error(2, 0, -1, b"f", ("xy" + "ä" * 2000).encode())
    error = TbError(struct_size=ctypes.sizeof(TbError))
    table().take_error(error)
    text = error.text.decode()  # raises if a character was cut in two
    assert text == "xy" + "ä" * 510  # 1024 bytes with the final zero, and no half of a character


def test_errors_of_one_thread_never_show_in_another() -> None:
    table().set_error(2, 0, -1, b"f", b"mine")
    seen: list[int] = []
    other = threading.Thread(target=lambda: seen.append(table().take_error(TbError(struct_size=8))))
    other.start()
    other.join()
    assert seen == [0]
    assert table().take_error(TbError(struct_size=8)) == 1


@pytest.mark.parametrize(
    ("status", "also"),
    [
        (3, ValueError),
        (4, TimeoutError),
        (8, MemoryError),
        (12, NotImplementedError),
        (34, ImportError),
        (13, RuntimeError),
    ],
)
def test_statuses_become_pythons_own_kinds_of_errors(status: int, also: type[BaseException]) -> None:
    error = tb_device.exception(status, "why", "mychip", "launch", 0, 6)
    assert isinstance(error, also)
    assert isinstance(error, tb_device.Error)
    assert (error.status, error.native_code) == (status, 6)
    assert str(error).startswith("mychip: launch(device=0) failed: ")
    assert str(error).endswith(": why [native code 6]")


def test_an_unknown_device_says_how_many_there_are() -> None:
    with pytest.raises(tb_device.OutOfRangeError, match="there is no device 77; cpu has 1, counted from 0"):
        tb_device.set_device(77)


def test_closing_with_live_memory_is_refused_and_changes_nothing(build_driver: BuildDriver) -> None:
    driver = tb_device.load_driver(build_driver("COUNT=1"))
    address = driver.mem_alloc(0, 64)
    with pytest.raises(tb_device.FailedPreconditionError, match="probe has live objects"):
        driver.close()
    driver.mem_set(0, address, 1, 1, 64)
    driver.mem_free(0, address)
    driver.close()
    assert not driver.is_open


def test_a_closed_driver_refuses_and_says_so(build_driver: BuildDriver) -> None:
    driver = tb_device.load_driver(build_driver("COUNT=1"))
    driver.close()
    driver.close()
    with pytest.raises(tb_device.FailedPreconditionError, match=r"has been closed\. Load it again"):
        driver.mem_alloc(0, 1)


def test_an_explainer_completes_a_text_as_it_is_taken() -> None:
    def explain(text: int, size: int) -> None:
        completed = ctypes.string_at(text).replace(b"<where>", b"train.py:3")
        assert len(completed) < size
        ctypes.memmove(text, completed + b"\0", len(completed) + 1)

    explainer, nobody = Explainer(explain), ctypes.cast(None, Explainer)
    table().set_explainer(explainer)
    try:
        table().set_error(3, 0, 0, b"launch", b"failed at <where>: no")
        assert "failed at train.py:3: no" in describe(3, "launch", 0)
    finally:
        table().set_explainer(nobody)
    table().set_error(3, 0, 0, b"launch", b"failed at <where>: no")
    assert "failed at <where>: no" in describe(3, "launch", 0)


def test_the_late_reporter_is_called_after_each_wait_that_succeeded(build_driver: BuildDriver) -> None:
    calls = []

    def report() -> int:
        calls.append("reported")
        return 0

    assert table().tell() == 0
    driver = tb_device.load_driver(build_driver("COUNT=1"))
    reporter, nobody = LateReporter(report), ctypes.cast(None, LateReporter)
    table().set_late_reporter(reporter)
    try:
        driver.synchronize(0)
        assert calls == ["reported"]
        assert table().tell() == 0
        assert calls == ["reported"] * 2
    finally:
        table().set_late_reporter(nobody)
    driver.synchronize(0)
    assert calls == ["reported"] * 2
