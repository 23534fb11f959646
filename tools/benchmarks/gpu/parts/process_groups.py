"""Collectives of tb through NCCL, beside those of torch.cuda, with a rank for each of at most two GPUs; no aim.

Without NCCL, data goes through pinned memory and gloo.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from benchmarks.gpu.parts.needs import missing_backend, missing_reference, missing_torch
from benchmarks.gpu.parts.part import Options, Result, main, run_for_json

MOST_RANKS = 2


def part(options: Options) -> Result:
    missing = missing_torch() or missing_reference(options.reference) or missing_backend()
    if missing:
        return Result("not run", missing)
    import torch

    ranks = min(MOST_RANKS, torch.accelerator.device_count())
    launch = ["--standalone", f"--nproc-per-node={ranks}", "-m", "benchmarks.gpu.parts.ranks", options.reference]
    found: Any = run_for_json(
        "torch.distributed.run", *launch, *(["--quick"] if options.quick else []), environment=dict(os.environ)
    )
    wrong = [row[0] for row in found["rows"] if not row[-1]]
    return Result(
        "failed" if wrong else "passed",
        f"wrong sums of {', '.join(wrong)}" if wrong else f"{ranks} ranks, {found['engine']}; the sums are right",
        ["all_reduce, with a wait of the host", "tb, us", f"{options.reference}, us", "ratio"],
        [row[:-1] for row in found["rows"]],
    )


if __name__ == "__main__":
    sys.exit(main(__doc__, part))
