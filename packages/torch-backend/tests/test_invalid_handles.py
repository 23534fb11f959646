"""Invalid handles, numbers and bytes raise an error with a text. Each test has its own process, which might crash."""

import pytest
from conftest import Script

PREPARE = """
import copy, io, pickle, sys
import pytest
import tb_allocator, tb_device, tb_stream
import torch
x = torch.ones(4, device="tb")
side = torch.Stream(device="tb")
torch.tb.synchronize()

def stream(number, device=0):
    return torch.Stream(stream_id=number, device_index=device, device_type=side.device_type)

def refused(use, text, kinds):
    print(use, flush=True)  # the last line names the use that crashed
    with pytest.raises(kinds, match=text or ".") as caught:
        exec(use, {**globals(), **names})
    assert "INTERNAL ASSERT" not in str(caught.value) and "std::" not in str(caught.value), caught.value
    assert (x + 1).tolist() == [2] * 4

names = {}
"""

STREAM_USES = [
    "made.synchronize()",
    "made.query()",
    "made.wait_stream(side)",
    "side.wait_stream(made)",
    "made.record_event()",
    "event = torch.Event(device='tb'); event.record(side); event.wait(made)",
    "event = torch.Event(device='tb'); event.record(side); made.wait_event(event)",
    "torch.Event(device='tb').record(made)",
    "torch.tb.Event().record(made)",
    "x.record_stream(made)",
    "torch.accelerator.set_stream(made)",
    "torch.tb.set_stream(made)",
    "made.__enter__()",
    "torch.tb.stream(made).__enter__()",
    "torch.tb.graph(torch.tb.Graph(), stream=made).__enter__()",
    "made.native_handle",
]


@pytest.mark.parametrize("number", [12345, 64, 1, -1, -4096, 2**62])
def test_a_number_that_is_no_stream_is_refused_wherever_a_stream_is_taken(script: Script, number: int) -> None:
    code = f"""
names["made"] = stream({number})
for use in {STREAM_USES!r}:
    refused(use, r"there is no stream with stream_id {number} on tb:0: use a stream that", RuntimeError)
"""
    script(PREPARE + code)


def test_a_stream_of_another_device_or_of_none_is_refused(script: Script) -> None:
    code = f"""
names["made"] = stream(side.stream_id, 1)
for use in {STREAM_USES!r}:
    refused(use, "is one of tb:0, not of tb:1: give device_index=0", RuntimeError)
for number in (0, side.stream_id, 12345):
    for device in (7, 99, 127):
        names["made"] = stream(number, device)
        for use in {STREAM_USES!r}:
            refused(use, f"(device |device=|tb:){{device}}", (RuntimeError, IndexError))
again = stream(side.stream_id)
assert again == side
again.synchronize()
"""
    script(PREPARE + code, TB_CPU_DEVICES="2")


def test_invalid_events_and_ipc_handles_are_refused(script: Script) -> None:
    code = """
class Liar(torch.Event):
    event_id = 12345

class NoEvent:
    event_id = 12345
    device = torch.device("tb", 0)

start = torch.tb.Event(enable_timing=True)
start.record()
start.synchronize()
names.update(start=start, Liar=Liar, NoEvent=NoEvent)
refused("start.elapsed_time(NoEvent())", "expected an event of a tb device", TypeError)
refused("start.elapsed_time(12345)", "expected an event of a tb device", TypeError)
refused("start.elapsed_time(torch.Event(device='cpu'))", "expected an event of a tb device", TypeError)
refused("start.elapsed_time(Liar(device='tb'))", "must be recorded", RuntimeError)
refused("start.elapsed_time(torch.tb.Event())", "must be recorded", RuntimeError)
refused("torch.Event.from_ipc_handle(torch.device('tb', 0), b'x' * 64)", "", (RuntimeError, NotImplementedError))
refused("torch.Event(device='tb').ipc_handle()", "", (RuntimeError, NotImplementedError))
refused("tb_stream.Event.from_ipc_handle(0, b'x')", "must be the bytes", ValueError)
size = len(tb_stream.Event(interprocess=True).ipc_handle())
refused(f"tb_stream.Event.from_ipc_handle(0, bytes({size}))", "handle", (RuntimeError, ValueError))
refused(f"tb_stream.Event.from_ipc_handle(99, bytes({size}))", "device|handle", (RuntimeError, ValueError, IndexError))
"""
    script(PREPARE + code)


def test_an_ipc_handle_with_altered_bytes_is_refused(script: Script) -> None:
    code = """
event = tb_stream.Event(interprocess=True)
good = event.ipc_handle()
for place in range(len(good)):
    for flipped in (0x01, 0x80, 0xFF):
        bad = bytearray(good)
        bad[place] ^= flipped
        try:
            tb_stream.Event.from_ipc_handle(0, bytes(bad)).query()
        except (tb_device.Error, ValueError) as error:
            assert str(error)
assert (x + 1).tolist() == [2] * 4
"""
    script(PREPARE + code)


def test_an_unknown_pool_is_refused(script: Script) -> None:
    code = """
names.update(used=torch.tb.Graph())
for pool in ((12345, 0), (0, 12345), (2**63, 0)):
    names["pool"] = pool
    refused("torch.tb.graph(torch.tb.Graph(), pool=pool).__enter__()", "there is no memory pool of that number",
            ValueError)
    refused("g = torch.tb.Graph(pool=pool)\\nwith side: g.capture_begin()", "there is no memory pool of that number",
            ValueError)
for pool in ((-1, 0), "a", 3, (1,), (2**70, 0)):
    names["pool"] = pool
    refused("torch.tb.graph(torch.tb.Graph(), pool=pool).__enter__()", "", (TypeError, RuntimeError, ValueError))
refused("tb_stream.capture(pool=12345).__enter__()", "no memory pool of that number", ValueError)
good = torch.tb.graph_pool_handle()
g = torch.tb.Graph()
with torch.tb.graph(g, pool=good):
    y = x + 1
with torch.tb.graph(torch.tb.Graph(), pool=g.pool()):
    z = x + 1
"""
    script(PREPARE + code)


def test_a_state_that_is_not_of_a_generator_is_refused(script: Script) -> None:
    code = """
good = torch.tb.get_rng_state()
names.update(good=good, g=torch.Generator("tb"))
for state in ("torch.zeros(5056, dtype=torch.uint8)", "good[:15]", "good.float()", "torch.zeros(16, dtype=torch.int8)",
              "good.to('tb')", "torch.zeros(0, dtype=torch.uint8)", "torch.zeros(32, dtype=torch.uint8)[::2]",
              "torch.empty(16, dtype=torch.uint8, device='meta')", "None", "12345", "b'x' * 16"):
    for use in (f"torch.tb.set_rng_state({state})", f"g.set_state({state})", f"torch.tb.set_rng_state_all([{state}])"):
        refused(use, "", (TypeError, RuntimeError, ValueError, AttributeError))
refused("g.graphsafe_set_state(torch.Generator())", "generator of a tb device", (TypeError, RuntimeError))
refused("torch.Generator(device='tb:99')", "there is no device tb:99", RuntimeError)
refused("torch.tb.get_rng_state('tb:99')", "99", (RuntimeError, ValueError, IndexError, AssertionError))
refused("torch.tb.set_rng_state(good, 99)", "99", (RuntimeError, ValueError, IndexError, AssertionError))
refused("torch.rand(3, device='tb', generator=torch.Generator())", "generator", RuntimeError)
names["g"].set_state(good)
"""
    script(PREPARE + code)


def test_capsules_are_taken_once_and_only_where_they_belong(script: Script) -> None:
    code = """
import ctypes
from torch.utils.dlpack import from_dlpack, to_dlpack
new = ctypes.pythonapi.PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
used = to_dlpack(x)
kept = from_dlpack(used)
foreign = ctypes.create_string_buffer(256)
names.update(used=used, from_dlpack=from_dlpack, other=new(ctypes.addressof(foreign), b"something", None))
refused("from_dlpack(used)", "once|already|capsule|consumed", (RuntimeError, ValueError, BufferError))
refused("from_dlpack(other)", "capsule|dltensor", (RuntimeError, ValueError, BufferError))
refused("from_dlpack(12345)", "", (RuntimeError, ValueError, TypeError, AttributeError))
refused("import numpy; numpy.from_dlpack(x)", "", (RuntimeError, ValueError, TypeError, BufferError))
assert kept.tolist() == [1] * 4
del kept, used
"""
    script(PREPARE + code)


def test_addresses_that_are_not_of_the_driver_are_refused(script: Script) -> None:
    code = """
names.update(driver=tb_device.default_driver(), address=tb_device.default_driver().mem_alloc(0, 64))
for address in ("12345", "address + 64", "address + 63", "2**63", "1"):
    refused(f"driver.copy_to_device(0, {address}, b'xx')", "memory", tb_device.Error)
    refused(f"driver.copy_from_device(0, bytearray(2), {address})", "memory", tb_device.Error)
    refused(f"driver.copy_between(0, address, 0, {address}, 2)", "memory", tb_device.Error)
    refused(f"driver.copy_between(0, {address}, 0, address, 2)", "memory", tb_device.Error)
    refused(f"driver.mem_set(0, {address}, 1, 1, 2)", "memory", tb_device.Error)
    refused(f"driver.mem_free(0, {address})", "", tb_device.Error)
refused("driver.mem_set(0, address, 1, 4, 2**63)", "memory", tb_device.Error)
driver, address = names["driver"], names["address"]
driver.copy_to_device(0, address + 62, b"xy")
out = bytearray(2)
driver.copy_from_device(0, out, address + 62)
assert out == b"xy"
driver.mem_free(0, address)
refused("driver.mem_free(0, address)", "", tb_device.Error)
refused("tb_allocator.empty(8, stream=12345).copy_from(bytes(8))", "stream", (tb_device.Error, ValueError))
refused("tb_allocator.empty(8).record_stream(12345)", "stream", (tb_device.Error, ValueError))
"""
    script(PREPARE + code)
