"""torch.tb: devices, their properties, and two devices at once."""

import pytest
import torch
from conftest import Script


def test_current_device_starts_at_0() -> None:
    assert torch.tb.current_device() == 0
    assert torch.tb.is_initialized()


def test_device_without_number_is_the_current_one() -> None:
    assert torch.empty(1, device="tb").device == torch.device("tb", 0)


def test_a_device_out_of_range_is_refused_and_the_current_one_stays() -> None:
    with pytest.raises(RuntimeError, match="99"):
        torch.tb.set_device(99)
    with pytest.raises(RuntimeError, match="99"):
        torch.empty(1, device="tb:99")
    assert torch.tb.current_device() == 0
    assert torch.empty(1, device="tb").device.index == 0


def test_a_device_of_another_type_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a tb device"):
        torch.tb.set_device("cpu")


def test_properties_are_the_drivers_facts() -> None:
    properties = torch.tb.get_device_properties()
    assert properties.name == torch.tb.get_device_name(0) != ""
    assert properties.total_memory > 0
    assert properties.driver == "cpu"
    assert properties.host_accessible
    assert len(properties.uuid) == 16


def test_capability_names_dtypes_without_quantized_ones() -> None:
    capability = torch.tb.get_device_capability()
    assert {torch.float32, torch.bfloat16, torch.int64, torch.complex64} <= capability["supported_dtypes"]
    assert torch.qint8 not in capability["supported_dtypes"]


def test_methods_and_properties_are_generated() -> None:
    x = torch.ones(2).tb()
    assert x.is_tb
    assert not torch.ones(2).is_tb
    assert x.untyped_storage().is_tb
    assert torch.nn.Linear(2, 2).tb().weight.is_tb


TWO = """
import torch
assert torch.tb.device_count() == 2
"""


def test_two_devices_have_their_own_current_device_memory_and_streams(script: Script) -> None:
    code = (
        TWO
        + """
x = torch.ones(4, device="tb:1")
assert x.device.index == 1 and torch.tb.current_device() == 0
before = torch.tb.memory_allocated(0)
y = torch.ones(1 << 20, device="tb:1")
assert torch.tb.memory_allocated(0) == before and torch.tb.memory_allocated(1) >= y.nbytes
with torch.tb.device(1):
    assert torch.tb.current_device() == 1 and torch.empty(1, device="tb").device.index == 1
    assert torch.tb.current_stream().device.index == 1
assert torch.tb.current_device() == 0
with torch.tb.device_of(y):
    assert torch.tb.current_device() == 1
with torch.tb.device(None):
    assert torch.tb.current_device() == 0
torch.tb.set_device("tb:1")
assert torch.tb.current_device() == 1 == torch.accelerator.current_device_index()
torch.tb.set_device(0)
assert (x.to("tb:0") + 1).tolist() == [2] * 4
torch.tb.synchronize(1)
"""
    )
    script(code, TB_CPU_DEVICES="2")


def test_two_devices_current_device_belongs_to_the_thread(script: Script) -> None:
    code = (
        TWO
        + """
import threading
torch.tb.set_device(1)
seen = []
thread = threading.Thread(target=lambda: seen.append(torch.tb.current_device()))
thread.start(); thread.join()
assert seen == [0]
"""
    )
    script(code, TB_CPU_DEVICES="2")


def test_two_devices_an_event_of_one_refuses_a_stream_of_the_other_but_may_be_waited_for_there(script: Script) -> None:
    code = (
        TWO
        + """
import pytest
event = torch.tb.Event()
zero, one = torch.tb.Stream("tb:0"), torch.tb.Stream("tb:1")
event.record(zero)
with pytest.raises(RuntimeError, match="tb:0|index 0"):
    event.record(one)
one.wait_event(event)
one.synchronize()
"""
    )
    script(code, TB_CPU_DEVICES="2")


def test_two_devices_backward_runs_on_the_device_of_each_part(script: Script) -> None:
    code = (
        TWO
        + """
a = torch.full((3,), 2.0, device="tb:0", requires_grad=True)
b = (a * 3).to("tb:1")
(b * b).sum().backward()
assert a.grad.device.index == 0 and a.grad.tolist() == [36.0] * 3
"""
    )
    script(code, TB_CPU_DEVICES="2")


def test_two_devices_seeds_and_states_are_per_device(script: Script) -> None:
    code = (
        TWO
        + """
torch.manual_seed(5)
a, b = torch.rand(8, device="tb:0"), torch.rand(8, device="tb:1")
assert torch.equal(a.cpu(), b.cpu())
state = torch.tb.get_rng_state("tb:1")
c = torch.rand(8, device="tb:1")
torch.rand(8, device="tb:0")
torch.tb.set_rng_state(state, "tb:1")
assert torch.equal(c, torch.rand(8, device="tb:1"))
assert len(torch.tb.default_generators) == len(torch.tb.get_rng_state_all()) == 2
assert torch.tb.default_generators[1].device == torch.device("tb:1")
"""
    )
    script(code, TB_CPU_DEVICES="2")
