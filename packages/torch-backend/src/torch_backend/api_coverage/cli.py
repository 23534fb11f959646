"""The command line: runs every name, prints the progress and writes the report and the page."""

from __future__ import annotations

import argparse
import datetime
import json
import pathlib
import sys
import threading
import time

from torch_backend._worker_process import WorkerFailed
from torch_backend.api_coverage import page
from torch_backend.api_coverage.checks import cases
from torch_backend.api_coverage.report import Report
from torch_backend.conformance.databases import DatabaseMissing
from torch_backend.conformance.expectations import matches
from torch_backend.conformance.pool import Pool, Setup

WORKER = (sys.executable, "-m", "torch_backend.api_coverage.worker")
PROGRESS_SECONDS = 15.0
SAMPLES = 8  # of an operator; a check stops after those that are enough


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m torch_backend.api_coverage",
        description="Runs every public name of PyTorch on a device, beside the CPU, and says which are native.",
    )
    parser.add_argument("--device", default="tb", help="the device, as torch.device takes it (default tb)")
    parser.add_argument("--name", default="*", help="patterns of names, separated by commas: 'torch.fft.*'")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the report as JSON")
    parser.add_argument("--page", type=pathlib.Path, metavar="FILE", help="write the report as Markdown")
    parser.add_argument("--workers", type=int, default=2, help="worker processes (default 2)")
    parser.add_argument("--case-limit", type=float, default=60.0, metavar="SECONDS", help="a longer case is a crash")
    return parser


def main(arguments: list[str] | None = None) -> int:
    """Runs the names; 0 when some ran, whatever came of it, 1 when none did, 2 when the device cannot be used."""
    options = _arguments().parse_args(arguments)
    try:
        chosen = [case for case in cases() if matches(case.entry, options.name)]
        if not chosen:
            print(f"no name with a call matches {options.name!r}: nothing was run", file=sys.stderr)
            return 1
        pool = Pool(Setup(options.device, "quick", 0, options.case_limit, SAMPLES, WORKER), options.workers)
    except (DatabaseMissing, WorkerFailed, OSError) as error:
        print(f"the names cannot be run on {options.device}: {error}", file=sys.stderr)
        return 2
    report = Report(options.name)
    start = reported = time.monotonic()
    print(f"{len(chosen)} cases of {len(report.states)} names on {options.device}")
    try:
        for done, result in enumerate(pool.run(chosen, threading.Event()), start=1):
            report.add(result)
            if time.monotonic() - reported >= PROGRESS_SECONDS:
                reported = time.monotonic()
                print(f"[{reported - start:5.0f} s] {done}/{len(chosen)} cases; at {result.case.entry}", flush=True)
    finally:
        pool.close()
    facts = {**pool.facts, "date": datetime.date.today().isoformat(), "seconds": round(time.monotonic() - start)}
    made = report.to_json(facts)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(made, indent=1) + "\n")
    if options.page:
        options.page.write_text(page.page([made]))
    print("\n".join(f"{number:6} {state}" for state, number in report.counts().items()))
    return 0 if report.tried() else 1
