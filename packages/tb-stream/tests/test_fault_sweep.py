"""Each driver call of tb-stream fails, alone and with all later ones: nothing leaks, hangs or breaks, and the next use
works. Each point of the sweep has a process of its own, so that pools are made again under faults."""

from __future__ import annotations

import pytest
from conftest import Python

CODE = """
import os
import tb_device
import tb_stream
from tb_device.fault_sweep import sweep_in_processes

STATUS = int(os.environ["STATUS"])

def program():
    first, second = tb_stream.Stream(), tb_stream.Stream(priority=-1)
    event = tb_stream.Event(enable_timing=True)
    with first:
        assert tb_stream.current_stream() == first
        event.record()
    second.wait_event(event)
    second.wait_stream(first)
    tb_stream.default_stream().wait_stream(second)
    event.synchronize()
    other = second.record_event()
    other.query()
    second.synchronize()
    with tb_stream.capture(second) as graph:
        first.wait_stream(second)
        second.wait_stream(first)
    graph.replay()
    graph.replay(first)
    tb_stream.set_current_stream(tb_stream.default_stream())
    tb_stream.synchronize()

def checked():
    # The error has the status of the fault, and the thread's current stream is unchanged.
    try:
        before = None
        before = tb_stream.current_stream()
        program()
    except tb_device.Error as error:
        assert error.status == STATUS, (error.status, str(error))
        assert before in (None, tb_stream.current_stream())
        raise

print(sweep_in_processes(checked, statuses=[STATUS]))
"""


@pytest.mark.parametrize("status", ["8", "13", "14", "33"])
def test_tb_stream_survives_every_fault(python: Python, status: str) -> None:
    layers = {"TB_LAYERS": "fault,leak", "TB_DRIVER": "cpu", "TB_CPU_DEVICES": "1"}
    assert int(python.output(CODE, STATUS=status, **layers)) > 25
