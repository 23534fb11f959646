"""The calling thread's time for an operator on one element, tb beside torch.cuda; the aim is a ratio of 1.10."""

from __future__ import annotations

import sys

from benchmarks.gpu.parts.part import Options, Result, main
from benchmarks.gpu.parts.ratios import compared
from benchmarks.operators.rows import NO_AIM

BOUND = 1.10


def part(options: Options) -> Result:
    return compared("operators", "us", 1.0, BOUND, options, NO_AIM)


if __name__ == "__main__":
    sys.exit(main(__doc__, part))
