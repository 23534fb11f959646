"""The time of a training step, forward, backward and optimizer, tb beside torch.cuda; aim 1.03."""

from __future__ import annotations

import sys

from benchmarks.gpu.parts.part import Options, Result, main
from benchmarks.gpu.parts.ratios import compared

BOUND = 1.03


def part(options: Options) -> Result:
    return compared("steps", "ms", 1e-3, BOUND, options)


if __name__ == "__main__":
    sys.exit(main(__doc__, part))
