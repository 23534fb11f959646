"""`nox -s check-statistics`: moments, Kolmogorov-Smirnov, chi-square of every distribution; dieharder on the words.

The seed is fixed, so a run repeats. Limits: 4.5 standard deviations for moments and chi-square, 2.2 for
Kolmogorov-Smirnov's distance times the root of the number of samples: each fails by chance once in about 10^5 runs.
"""

from __future__ import annotations

import argparse
import math
import pathlib
import sys

import numpy
import tb_generator

from benchmarks import pages
from benchmarks.generator.statistics import dieharder
from benchmarks.generator.statistics.distributions import CONTINUOUS, DISCRETE, Continuous, Discrete, Numbers
from benchmarks.page import write

BATCH = 5_000_000
BINS = 1 << 20
CLASSES = 1 << 10  # of the chi-square test of continuous numbers
DEVIATIONS, DISTANCE = 4.5, 2.2
SEED = 20260101


def batches(samples: int) -> list[int]:
    """Sizes that sum to `samples`."""
    return [min(BATCH, samples - start) for start in range(0, samples, BATCH)]


def chi_square(counts: Numbers, probabilities: Numbers, freedom: int = 0) -> float:
    """The chi-square statistic: its distance from its expectation in standard deviations. `freedom`: see Discrete."""
    expected = counts.sum() * probabilities
    freedom = freedom or counts.size - 1
    return float((((counts - expected) ** 2 / expected).sum() - freedom) / math.sqrt(2 * freedom))


def continuous(case: Continuous, samples: int) -> dict[str, float]:
    """The statistics of a continuous distribution. "moments" is the worst of the four moments."""
    generator = tb_generator.Generator(SEED)
    counts = numpy.zeros(BINS, "i8")
    sums = numpy.zeros(4)
    for size in batches(samples):
        drawn = case.draw(generator, size).astype("f8")
        places = numpy.minimum((case.cumulative(drawn) * BINS).astype("i8"), BINS - 1)
        counts += numpy.bincount(places, minlength=BINS)
        standard = case.standard(drawn)
        power = numpy.ones_like(standard)
        for order in range(4):
            power *= standard
            sums[order] += power.sum()
    errors = [math.sqrt((case.moments[2 * k + 1] - case.moments[k] ** 2) / samples) for k in range(4)]
    moments = [(sums[k] / samples - case.moments[k]) / errors[k] for k in range(4)]
    # The distance is evaluated at the borders of the bins, which are 2^-20 apart.
    distance = numpy.abs(numpy.cumsum(counts) / samples - numpy.arange(1, BINS + 1) / BINS).max()
    return {
        "moments": max(moments, key=abs),
        "chi-square": chi_square(counts.reshape(CLASSES, -1).sum(1), numpy.full(CLASSES, 1 / CLASSES)),
        "distance": float(distance * math.sqrt(samples)),
    }


def discrete(case: Discrete, samples: int) -> dict[str, float]:
    """The statistics of a discrete distribution: chi-square alone."""
    generator = tb_generator.Generator(SEED)
    counts = numpy.zeros(case.probabilities.size, "i8")
    for size in batches(samples):
        counts += numpy.bincount(case.draw(generator, size), minlength=counts.size)
    return {"chi-square": chi_square(counts, case.probabilities, case.freedom)}


def main() -> int:
    """Runs the tests; returns 1 if a statistic exceeds its limit or dieharder fails."""
    parser = argparse.ArgumentParser(prog="nox -s check-statistics --", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--samples", type=int, default=100_000_000)
    parser.add_argument("--only", action="append", metavar="NAME", help="distributions whose names contain it")
    parser.add_argument("--no-distributions", action="store_true", help="dieharder alone")
    parser.add_argument("--no-dieharder", action="store_true")
    parser.add_argument(
        "--dieharder",
        nargs="*",
        type=int,
        metavar="NUMBER",
        help="these tests alone (dieharder -l); default: all, which takes hours",
    )
    parser.add_argument("--page", type=pathlib.Path, metavar="FILE", help="write docs/results/statistics.md there")
    asked = parser.parse_args()
    failed = []
    by_name: dict[str, dict[str, float]] = {}
    cases: dict[str, Continuous | Discrete] = {} if asked.no_distributions else {**CONTINUOUS, **DISCRETE}
    for name, case in cases.items():
        if asked.only and not any(part in name for part in asked.only):
            continue
        found = continuous(case, asked.samples) if isinstance(case, Continuous) else discrete(case, asked.samples)
        by_name[name] = found
        beyond = [
            what for what, value in found.items() if abs(value) > (DISTANCE if what == "distance" else DEVIATIONS)
        ]
        failed += [f"{name}: {what}" for what in beyond]
        figures = "  ".join(f"{what} {value:+.2f}" for what, value in found.items())
        print(f"{name:24}{figures}{'  BEYOND ' + ', '.join(beyond) if beyond else ''}", flush=True)
    if not asked.no_dieharder:
        failed += dieharder.run(SEED, asked.dieharder)
    if asked.page:
        write(asked.page, pages.statistics(by_name, asked.samples, failed))
    print("failed: " + "; ".join(failed) if failed else "all passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
