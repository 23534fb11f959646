"""tb against stock cpu at the default thread count and at one thread: python -m benchmarks.operators [NAME...].

Each thread count has a process of its own. In the process with the default count stock cpu is timed at one thread as
well, so that there is a ratio to its better setting. Some operators of benchmarks.sweep follow; with `--sweep` all of
them run instead.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict

from benchmarks import pages
from benchmarks.operators.rows import Row, aims_text, table, verdicts
from benchmarks.page import write
from benchmarks.sweep import __main__ as sweep
from benchmarks.sweep import report as sweep_report
from benchmarks.sweep.catalogue import CATALOGUE, REPRESENTATIVE, SIZES
from benchmarks.sweep.rows import Row as SweepRow
from benchmarks.sweep.turns import Plan
from benchmarks.sweep.turns import measure as take_turns
from benchmarks.threads import SETTINGS


def measure(arguments: list[str], environment: dict[str, str]) -> list[Row]:
    """The rows of one process with these additions to the environment; SystemExit if it fails, after its own text."""
    command = [sys.executable, "-m", "benchmarks.operators.measure", *arguments]
    done = subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"bench: {' '.join(command)} failed with status {done.returncode}; its text stands above")
    return [Row(**row) for row in json.loads(done.stdout.splitlines()[-1])]


def representative(chosen: Sequence[str], threads: str, quick: bool) -> list[SweepRow]:
    """Some operators of the sweep at a setting of threads, those whose name contains one of `chosen` if any."""
    wanted = [name for name in REPRESENTATIVE if not chosen or any(part.lower() in name.lower() for part in chosen)]
    plan = Plan(rounds=1, seconds=1e-4) if quick else Plan()
    return list(take_turns([CATALOGUE[name] for name in wanted], SIZES, plan, [threads])) if wanted else []


def main() -> int:
    if "--sweep" in sys.argv:
        return sweep.main([argument for argument in sys.argv[1:] if argument != "--sweep"])
    parser = argparse.ArgumentParser(prog="nox -s bench --", description=__doc__.partition("\n")[0])
    parser.add_argument("chosen", nargs="*", metavar="NAME", help="only rows whose name contains one of these")
    parser.add_argument("--device", default="tb", help="torch device to time against stock cpu (%(default)s)")
    parser.add_argument("--threads", choices=SETTINGS, help="only this thread count")
    parser.add_argument("--quick", action="store_true", help="one round of short blocks each: does everything run?")
    parser.add_argument("--json", type=pathlib.Path, default=pathlib.Path("build/bench.json"), metavar="FILE")
    parser.add_argument("--page", type=pathlib.Path, metavar="FILE", help="write docs/results/operators.md there")
    parser.add_argument("--sweep", action="store_true", help="single operators instead; it has its own --help")
    asked = parser.parse_args()
    arguments = ["--device", asked.device, *(["--quick"] if asked.quick else []), *asked.chosen]
    rows = []
    for label, environment in SETTINGS.items():
        if asked.threads in (None, label):
            print(f"at {label} thread{'' if label == '1' else 's'}", file=sys.stderr)
            rows += measure(arguments, environment)
    singles = representative(asked.chosen, asked.threads or "default", asked.quick) if asked.device == "tb" else []
    if not rows and not singles:
        raise SystemExit(f"bench: no row's name contains any of {', '.join(asked.chosen)}")
    judged = verdicts(rows)
    asked.json.parent.mkdir(parents=True, exist_ok=True)
    report = {"rows": [asdict(row) for row in rows], "aims": [{**asdict(v), "met": v.met} for v in judged]}
    report["sweep"] = [sweep_report.row_as_json(row) for row in singles if not row.error]
    asked.json.write_text(json.dumps(report, indent=1) + "\n")
    if asked.page:
        write(asked.page, pages.operators_and_steps(report))
    print(table(rows, asked.device))
    print("\nratio: to stock cpu at the same count; to better: to the faster of its settings; medians over rounds")
    print("\n" + aims_text(judged))
    if singles:
        print("\n" + sweep_report.by_size(singles))
    return 1 if any(row.error for row in singles) else 0


if __name__ == "__main__":
    sys.exit(main())
