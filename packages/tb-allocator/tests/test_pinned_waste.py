"""What pinned memory costs beyond what is in use, over what data loaders ask for."""

from __future__ import annotations

import pytest
from conftest import Python

CODE = """
import os
import tb_allocator
from tb_allocator import traces

live = {}
now = peak = 0
for line in traces.generate("loader", int(os.environ["SEED"])).splitlines():
    kind, *numbers = line.split()
    if kind == "a":
        live[numbers[0]] = tb_allocator.pinned(int(numbers[1]))
        now += int(numbers[1])
        peak = max(peak, now)
    elif kind == "f":
        buffer = live.pop(numbers[0])
        now -= buffer.nbytes
        buffer.free()
stats = tb_allocator.host_memory_stats()
print(stats["reserved_bytes.all.peak"] / peak, stats["num_device_alloc"], stats["allocation.all.allocated"])
"""


@pytest.mark.parametrize("seed", range(4))
def test_pinned_memory_wastes_little(python: Python, seed: int) -> None:
    waste, _, _ = map(float, python.output(CODE, SEED=str(seed)).split())
    assert waste <= 1.06
