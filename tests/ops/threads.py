"""Numbers of threads in tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def one_thread() -> Iterator[None]:
    """Context manager: one thread for stock cpu's kernels that this thread calls, as for short kernels on tb."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# The beginning of programs that run in a process of their own.
WORKER = '''
import os, pathlib, time
import torch
from tb_ops import _testing
from torch_backend._testing import held

def workers():
    """The worker of the default stream and its intra-op threads, which bear its name."""
    names = []
    for task in pathlib.Path("/proc/self/task").iterdir():
        try:
            names.append((task / "comm").read_text().strip())
        except OSError:  # ended meanwhile
            pass
    return names.count("tb-cpu-0")

def alone():
    """Whether the worker is alone, once it has been idle for long enough to end its intra-op threads."""
    end = time.monotonic() + 30
    while workers() > 1 and time.monotonic() < end:
        time.sleep(0.002)
    return workers() == 1

def started(work):
    """How often the worker starts intra-op threads for `work`, all of which runs while the host waits."""
    torch.tb.synchronize()
    assert alone()
    before = _testing.thread_starts()[0]
    with held() as gate:
        gate.open_once_this_thread_waits()  # the first call of an operator waits too
        work()
        torch.tb.synchronize()
    return _testing.thread_starts()[0] - before

def starts(work):
    """Whether it does so in one of 40 tries: which kernels are worth it is measured while they run."""
    return any(started(work) for _ in range(40))

torch.set_num_threads(2)
torch.ones(1, device="tb").item()
'''
