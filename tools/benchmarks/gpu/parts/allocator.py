"""tb-allocator as PyTorch's CUDA allocator beside PyTorch's own, on a workload that fragments memory.

Needs torch with CUDA and tb-allocator; torch-backend is not used.
"""

from __future__ import annotations

import os
import sys

from benchmarks.gpu.parts.needs import missing_reference, missing_torch
from benchmarks.gpu.parts.part import Options, Result, main, run_for_json

GIB = 1 << 30


def part(options: Options) -> Result:
    missing = missing_torch() or missing_reference(options.reference)
    if missing:
        return Result("not run", missing)
    # The same for both: tb_allocator must find the CUDA driver, and tb is not loaded.
    environment = {**os.environ, "TB_DRIVER": "cuda"}
    if options.reference == "cuda":
        environment["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    quick = ["--quick"] if options.quick else []
    native, ours = (
        run_for_json("benchmarks.gpu.parts.workload", options.reference, name, *quick, environment=environment)
        for name in ("native", "tb")
    )
    keys = (
        ("peak reserved, GiB", "peak_reserved", 1 / GIB),
        ("taken from the device in the end, GiB", "taken", 1 / GIB),
        ("step, ms, median", "step_ms", 1.0),
        ("step, ms, slowest", "slowest_ms", 1.0),
    )
    return Result(
        "passed",
        "both allocators served the whole workload, each in a process of its own",
        ["", "tb-allocator", "PyTorch's", "tb/PyTorch's"],
        [
            [what, ours[key] * scale, native[key] * scale, ours[key] / native[key] if native[key] else float("nan")]
            for what, key, scale in keys
        ],
    )


if __name__ == "__main__":
    sys.exit(main(__doc__, part))
