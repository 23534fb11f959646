"""The cost of a pause: `python -m benchmarks.operators.after_rest` in tools.

A worker that is idle sleeps and ends its intra-op threads. Two things are measured after pauses: kernels that start
intra-op threads, against the same kernels directly afterwards; and adds of 1 element, with the processor on which the
worker ran last. Prints medians.
"""

from __future__ import annotations

import os
import pathlib
import statistics
import time

import torch
import torch_backend  # noqa: F401 - the device
from tb_ops import _testing

RESTS = 60
REST = 0.03  # seconds: a worker that is idle for a third of it ends its threads
TASKS = pathlib.Path("/proc/self/task")


def teamed(matrix: torch.Tensor) -> float:
    """Milliseconds of some kernels. The later ones start while the host waits, so they get intra-op threads."""
    begin = time.perf_counter()
    for _ in range(6):
        matrix = matrix.exp().neg_().exp()
    torch.accelerator.synchronize()
    return (time.perf_counter() - begin) * 1e3


def adds(one: torch.Tensor, count: int = 2000) -> float:
    """The calling thread's microseconds for one add, once the worker is awake."""
    for _ in range(5):
        one.add(one)
    begin = time.perf_counter()
    for _ in range(count):
        one.add(one)
    return (time.perf_counter() - begin) / count * 1e6


def processor(task: str) -> int:
    """The processor on which a thread ran last."""
    return int((TASKS / task / "stat").read_text().rsplit(")", 1)[1].split()[36])


def main() -> None:
    matrix, one = torch.zeros(512, 1024, device="tb"), torch.ones(1, device="tb")
    for _ in range(20):
        teamed(matrix)
    starts, moved = _testing.thread_starts()
    rested, directly = [], []
    for _ in range(RESTS):
        time.sleep(REST)
        rested.append(teamed(matrix))
        directly.append(teamed(matrix))
    starts_after, moved_after = _testing.thread_starts()
    print(f"kernels after a rest {statistics.median(rested):.2f} ms, directly {statistics.median(directly):.2f} ms")
    print(
        f"{torch.get_num_threads()} threads; in {RESTS} rests threads started {starts_after - starts} times, and "
        f"{moved_after - moved} of their threads on their maker's processor"
    )
    worker = next(task.name for task in TASKS.iterdir() if (task / "comm").read_text().strip() == "tb-cpu-0")
    beside, times = 0, []
    for _ in range(RESTS):
        torch.accelerator.synchronize()
        time.sleep(REST)
        times.append(adds(one))
        beside += processor(worker) == processor(str(os.getpid()))
    print(
        f"adds {statistics.median(times):.2f} us each; the worker was on the caller's processor after {beside} of "
        f"{RESTS} rests"
    )


if __name__ == "__main__":
    main()
