"""Milliseconds that importing the torch-free packages adds to a bare Python: python -m benchmarks.operators.imports.

Prints the least wall time and processor time of many fresh processes, since other load of the machine only adds time.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time

PACKAGES = ("tb_device", "tb_stream", "tb_allocator", "tb_generator")
REPEATS = 20


def _processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def least(code: str) -> tuple[float, float]:
    """The least wall and processor milliseconds of a process that runs `code`."""
    wall, processor = [], []
    for _ in range(REPEATS):
        used, started = _processor_seconds(), time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        wall.append(time.perf_counter() - started)
        processor.append(_processor_seconds() - used)
    return min(wall) * 1e3, min(processor) * 1e3


def main() -> int:
    bare = least("pass")
    print(f"{'bare Python':14}{bare[0]:8.1f} ms wall{bare[1]:8.1f} ms processor")
    for package in PACKAGES:
        wall, processor = least(f"import {package}")
        print(f"{package:14}{wall - bare[0]:+8.1f} ms wall{processor - bare[1]:+8.1f} ms processor")
    return 0


if __name__ == "__main__":
    sys.exit(main())
