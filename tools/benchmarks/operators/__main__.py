"""tb against stock cpu at the default thread count and at one thread: python -m benchmarks.operators [NAME...].

Each thread count has a process of its own, because a pool of threads keeps the size it was made with. In the process
with the default count stock cpu is timed at one thread as well, so that there is a ratio to its better setting.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
from dataclasses import asdict

from benchmarks import pages
from benchmarks.operators.rows import Row, aims_text, table, verdicts
from benchmarks.page import write

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
PROCESSES: dict[str, dict[str, str]] = {"default": {}, "1": ONE_THREAD}


def measure(arguments: list[str], environment: dict[str, str]) -> list[Row]:
    """The rows of one process with these additions to the environment; SystemExit if it fails, after its own text."""
    command = [sys.executable, "-m", "benchmarks.operators.measure", *arguments]
    done = subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"bench: {' '.join(command)} failed with status {done.returncode}; its text stands above")
    return [Row(**row) for row in json.loads(done.stdout.splitlines()[-1])]


def main() -> int:
    parser = argparse.ArgumentParser(prog="nox -s bench --", description=__doc__.partition("\n")[0])
    parser.add_argument("chosen", nargs="*", metavar="NAME", help="only rows whose name contains one of these")
    parser.add_argument("--device", default="tb", help="torch device to time against stock cpu (%(default)s)")
    parser.add_argument("--threads", choices=PROCESSES, help="only this thread count")
    parser.add_argument("--quick", action="store_true", help="one round of short blocks each: does everything run?")
    parser.add_argument("--json", type=pathlib.Path, default=pathlib.Path("build/bench.json"), metavar="FILE")
    parser.add_argument("--page", type=pathlib.Path, metavar="FILE", help="write docs/results/operators.md there")
    asked = parser.parse_args()
    arguments = ["--device", asked.device, *(["--quick"] if asked.quick else []), *asked.chosen]
    rows = []
    for label, environment in PROCESSES.items():
        if asked.threads in (None, label):
            print(f"at {label} thread{'' if label == '1' else 's'}", file=sys.stderr)
            rows += measure(arguments, environment)
    if not rows:
        raise SystemExit(f"bench: no row's name contains any of {', '.join(asked.chosen)}")
    judged = verdicts(rows)
    asked.json.parent.mkdir(parents=True, exist_ok=True)
    report = {"rows": [asdict(row) for row in rows], "aims": [{**asdict(v), "met": v.met} for v in judged]}
    asked.json.write_text(json.dumps(report, indent=1) + "\n")
    if asked.page:
        write(asked.page, pages.operators_and_steps(report))
    print(table(rows, asked.device))
    print("\nratio: to stock cpu at the same count; to better: to the faster of its settings; medians over rounds")
    print("\n" + aims_text(judged))
    return 0


if __name__ == "__main__":
    sys.exit(main())
