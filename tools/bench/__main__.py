"""python -m bench: tb against stock cpu at the default thread count and at one thread; writes build/bench.json.

Each thread count has a process of its own, because a pool of threads keeps the size it was made with.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
from typing import Any

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def measure(arguments: list[str], environment: dict[str, str]) -> list[dict[str, Any]]:
    """The rows of one process with these additions to the environment; SystemExit if it fails, after its own text."""
    command = [sys.executable, "-m", "bench.measure", *arguments]
    done = subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"bench: {' '.join(command)} failed with status {done.returncode}; its text stands above")
    rows: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return rows


def table(rows: list[dict[str, Any]], device: str) -> str:
    """The rows as text, one line each."""
    lines = [f"{'':29}{'threads':>8}{device + ', us':>13}{'cpu, us':>12}{'ratio':>8}   least - greatest"]
    for row in rows:
        lines.append(
            f"{row['name']:29}{row['threads']:8d}{row['tb_us']:13.2f}{row['cpu_us']:12.2f}{row['ratio']:8.3f}"
            f"   {row['ratio_min']:.3f} - {row['ratio_max']:.3f}"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="nox -s bench --", description=__doc__)
    parser.add_argument("--device", default="tb", help="torch device to time against stock cpu (%(default)s)")
    parser.add_argument("--quick", action="store_true", help="one pair of short blocks each: does everything run?")
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"), help="folder of bench.json")
    chosen = parser.parse_args()
    arguments = ["--device", chosen.device, *(["--quick"] if chosen.quick else [])]
    rows = []
    for label, environment in (("the default number of threads", {}), ("one thread", ONE_THREAD)):
        print(f"at {label}", file=sys.stderr)
        rows += measure(arguments, environment)
    chosen.build.mkdir(parents=True, exist_ok=True)
    (chosen.build / "bench.json").write_text(json.dumps(rows, indent=1) + "\n")
    print(table(rows, chosen.device))
    print("\nratio: tb/cpu, median over pairs of neighbouring blocks; the times are medians over blocks")
    return 0


if __name__ == "__main__":
    sys.exit(main())
