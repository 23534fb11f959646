"""Devices and memory as objects; copies between memory and Python's buffers; drivers opened beside the default one."""

from __future__ import annotations

import array
import gc
import weakref
from collections.abc import Iterator

import pytest
import tb_device
from conftest import BuildDriver, Python
from tb_device import Device, Driver, Memory


@pytest.fixture
def driver() -> Iterator[Driver]:
    opened = tb_device.open("cpu", devices=2)
    yield opened
    opened.close()  # close is refused, and the test fails, if the test left memory behind


@pytest.fixture
def device(driver: Driver) -> Device:
    return driver.devices()[0]


def contents(memory: Memory) -> bytes:
    back = bytearray(memory.nbytes)
    tb_device.copy(back, memory)
    return bytes(back)


def test_devices_are_those_of_the_default_driver() -> None:
    devices = tb_device.devices()
    assert [device.index for device in devices] == list(range(tb_device.device_count()))
    assert devices[0].driver is tb_device.default_driver()
    assert devices[0].properties == tb_device.get_device_properties(0)
    assert devices[0].memory_info()[1] == tb_device.memory_info(0)[1]


def test_a_driver_lists_its_own_devices_in_order(driver: Driver) -> None:
    devices = driver.devices()
    assert [(each.driver, each.index) for each in devices] == [(driver, 0), (driver, 1)]
    assert devices == driver.devices()
    assert len({*devices, *driver.devices()}) == 2
    assert devices[0] != tb_device.devices()[0]
    assert devices[1].properties.driver == "cpu"
    devices[1].synchronize()


def test_bytes_go_to_the_device_and_back(device: Device) -> None:
    with device.allocate(5) as memory:
        assert (memory.nbytes, len(memory), memory.device) == (5, 5, device)
        assert memory.address % device.properties.alignment == 0
        tb_device.copy(memory, b"hello")
        assert contents(memory) == b"hello"


@pytest.mark.parametrize("source", [b"\1\2\3\4", bytearray(b"\1\2\3\4"), memoryview(b"\0\1\2\3\4")[1:]])
def test_every_contiguous_buffer_can_be_copied(source: object, device: Device) -> None:
    with device.allocate(4) as memory:
        tb_device.copy(memory, source)
        assert contents(memory) == b"\1\2\3\4"


def test_a_buffer_of_numbers_counts_in_bytes(device: Device) -> None:
    numbers = array.array("i", [1, -2, 3])
    with device.allocate(12) as memory:
        tb_device.copy(memory, numbers)
        back = array.array("i", [0, 0, 0])
        tb_device.copy(back, memory)
        assert back == numbers


def test_memory_is_copied_on_a_device_between_devices_and_between_drivers(driver: Driver) -> None:
    first, second = driver.devices()
    with (
        first.allocate(3) as a,
        first.allocate(3) as b,
        second.allocate(3) as c,
        tb_device.devices()[0].allocate(3) as d,
    ):
        tb_device.copy(a, b"abc")
        tb_device.copy(b, a)
        tb_device.copy(c, b)
        tb_device.copy(d, c)
        assert [contents(each) for each in (a, b, c, d)] == [b"abc"] * 4


def test_sizes_that_differ_are_refused_and_nothing_is_copied(device: Device) -> None:
    with device.allocate(4) as memory, device.allocate(3) as small:
        tb_device.copy(memory, b"keep")
        for dst, src in ((memory, b"hello"), (memory, b"abc"), (bytearray(5), memory), (memory, small)):
            with pytest.raises(ValueError, match=r"dst has \d bytes and src \d"):
                tb_device.copy(dst, src)
        assert contents(memory) == b"keep"


def test_what_is_no_memory_or_cannot_be_written_is_refused(device: Device) -> None:
    with device.allocate(4) as memory:
        with pytest.raises(TypeError, match="src is a int"):
            tb_device.copy(memory, 4)
        with pytest.raises(TypeError, match="dst is a str"):
            tb_device.copy("text", memory)
        with pytest.raises(ValueError, match="read-only"):
            tb_device.copy(b"1234", memory)
        with pytest.raises(ValueError, match="not contiguous"):
            tb_device.copy(memory, memoryview(b"12345678")[::2])
        with pytest.raises(TypeError, match=r"tb_device\.Memory"):
            tb_device.copy(bytearray(4), b"1234")


def test_freed_memory_is_refused_and_freeing_again_does_nothing(device: Device) -> None:
    memory = device.allocate(4)
    memory.free()
    memory.free()
    with pytest.raises(tb_device.FailedPreconditionError, match="was freed"):
        tb_device.copy(memory, b"1234")
    with pytest.raises(tb_device.FailedPreconditionError, match="was freed"):
        _ = memory.address
    assert "freed" in repr(memory)


def test_memory_goes_back_with_its_object(driver: Driver, device: Device) -> None:
    memory = device.allocate(1 << 20)
    gone = weakref.ref(memory)
    with pytest.raises(tb_device.FailedPreconditionError):
        driver.close()
    del memory
    gc.collect()
    assert gone() is None  # and the fixture's close succeeds


def test_memory_that_lives_to_the_end_of_the_program_goes_back_before_the_driver_closes(python: Python) -> None:
    code = """
        import tb_device
        kept = tb_device.devices()[0].allocate(100)
    """
    done = python.run(code, TB_LOG="info")
    assert done.returncode == 0
    assert "left to the operating system" not in done.stderr


def test_sizes_below_zero_and_beyond_the_device_are_refused(device: Device) -> None:
    with pytest.raises(ValueError, match="0 or more"):
        device.allocate(-1)
    with pytest.raises(MemoryError):
        device.allocate(1 << 60)


def test_a_missing_device_is_refused(driver: Driver) -> None:
    with pytest.raises(tb_device.OutOfRangeError):
        _ = Device(driver, 2).properties
    with pytest.raises(tb_device.OutOfRangeError):
        Device(driver, 2).allocate(1)


def test_open_gives_a_driver_beside_the_default_one_with_its_options(build_driver: BuildDriver) -> None:
    default = tb_device.default_driver()
    opened = tb_device.open("cpu", devices=3)
    assert (opened is default, opened.device_count) == (False, 3)
    assert tb_device.default_driver() is default
    opened.close()
    opened = tb_device.open(build_driver(name="beside"))
    assert opened.device_count == len(opened.devices())
    opened.close()


@pytest.mark.parametrize("layers", ["fault", ["fault"]])
def test_open_passes_the_layers_on(layers: str | list[str]) -> None:
    opened = tb_device.open("cpu", layers=layers)
    assert opened.layers == ["fault"]
    opened.close()
