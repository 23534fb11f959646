"""Starts the ranks of the benchmark by torchrun, and shows what rank 0 wrote: python -m benchmarks.distributed."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import subprocess
import sys
from typing import Any

from benchmarks import pages
from benchmarks.page import write


def show(report: dict[str, Any]) -> None:
    for row in report["steps"]:
        print(
            f"{row['name']:<12} cpu {row['cpu_ms']:8.3f} ms, tb {row['tb_ms']:8.3f} ms, ratio {row['ratio']:.2f} "
            f"({row['least']:.2f} to {row['greatest']:.2f}); losses {'equal' if row['equal'] else 'DIFFER'}"
        )
    for row in report["calls"]:
        ways = ", ".join(f"{way} {value:.0f} us" for way, value in row["microseconds"].items())
        print(f"{row['name']:<24} {ways}")
    overlap = report["overlap"]
    print(
        f"a step of {overlap['name']}: {overlap['collectives']:.0f} collectives of {overlap['collectives_ms']:.2f} ms, "
        f"{overlap['overlapped']:.0%} of it beside kernels; the stream waits {overlap['waits_ms']:.2f} ms for them"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="nox -s bench-distributed --", description=__doc__)
    parser.add_argument("--ranks", type=int, default=2, help="processes (%(default)s)")
    parser.add_argument("--rounds", type=int, default=11, help="interleaved blocks of each (%(default)s)")
    parser.add_argument("--json", type=pathlib.Path, default=pathlib.Path("build/bench-distributed.json"))
    parser.add_argument("--page", type=pathlib.Path, metavar="FILE", help="write docs/results/distributed.md there")
    asked = parser.parse_args()
    asked.json.parent.mkdir(parents=True, exist_ok=True)
    environment = {"TB_CPU_DEVICES": str(asked.ranks), "OMP_NUM_THREADS": "1", **os.environ}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={asked.ranks}", "-m"]
    command += ["benchmarks.distributed.rank", "--rounds", str(asked.rounds), "--json", str(asked.json.resolve())]
    status = subprocess.run(command, env=environment).returncode
    if status:
        return status
    report = json.loads(asked.json.read_text())
    show(report)
    if asked.page:
        write(asked.page, pages.distributed(report))
    return 0 if all(row["equal"] for row in report["steps"]) else 1


if __name__ == "__main__":
    sys.exit(main())
