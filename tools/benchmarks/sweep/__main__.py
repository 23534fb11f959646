"""Every operator of the sweep on tb against stock cpu: python -m benchmarks.sweep."""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks import pages
from benchmarks.page import write
from benchmarks.sweep import report
from benchmarks.sweep.catalogue import CATALOGUE, OPERATORS, SIZES
from benchmarks.sweep.rows import REASONS, aims, read_reasons
from benchmarks.sweep.turns import Plan, measure
from benchmarks.threads import SETTINGS


def parser() -> argparse.ArgumentParser:
    asked = argparse.ArgumentParser(prog="nox -s bench -- --sweep", description=__doc__.partition(":")[0])
    asked.add_argument("--only", type=re.compile, metavar="PATTERN", help="operators in whose name it is found")
    asked.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), metavar="ELEMENTS")
    asked.add_argument("--threads", choices=SETTINGS, help="only this setting")
    asked.add_argument("--rounds", type=int, default=Plan.rounds, help="blocks of each process (%(default)s)")
    asked.add_argument("--seconds", type=float, default=Plan.seconds, help="of a block (%(default)s)")
    asked.add_argument("--json", type=Path, default=Path("build/bench-sweep.json"), metavar="FILE")
    asked.add_argument("--page", type=Path, metavar="FILE", help="write docs/results/sweep.md there")
    asked.add_argument("--plot", type=Path, metavar="FILE", help="write a picture of ratios by family there")
    return asked


def main(arguments: Sequence[str] | None = None) -> int:
    asked = parser().parse_args(arguments)
    reasons = read_reasons(REASONS, CATALOGUE)
    chosen = [operator for operator in OPERATORS if not asked.only or asked.only.search(operator.name)]
    if not chosen:
        raise SystemExit(f"sweep: {asked.only.pattern} is found in no operator's name")
    settings = [asked.threads] if asked.threads else list(SETTINGS)
    begin = time.monotonic()
    rows = []
    for row in measure(chosen, asked.sizes, Plan(asked.rounds, asked.seconds), settings):
        rows.append(row)
        print(f"  {row.label}: {row.error or f'{row.ratio:.2f}'}", file=sys.stderr, flush=True)
    judged = aims(rows, reasons, whole=not asked.only)
    results = report.as_json(rows, judged, reasons, time.monotonic() - begin)
    asked.json.parent.mkdir(parents=True, exist_ok=True)
    asked.json.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    if asked.page:
        write(asked.page, pages.sweep(results))
    if asked.plot:
        from benchmarks.sweep.plot import plot  # matplotlib takes a second

        plot(rows, asked.plot)
    print(report.text(rows, judged))
    print(f"{len(rows)} lines in {results['seconds']:.0f} s")
    return 0 if all(aim.met for aim in judged) and not any(row.error for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
