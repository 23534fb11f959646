"""The command line: selects the cases, runs them, prints the progress and writes the reports."""

from __future__ import annotations

import argparse
import json
import pathlib
import random
import sys
import threading
import time
from typing import Any

from torch_backend._worker_process import WorkerFailed
from torch_backend.conformance.case import Case
from torch_backend.conformance.checks import CHECKS
from torch_backend.conformance.expectations import SHIPPED, load, matches
from torch_backend.conformance.page import page
from torch_backend.conformance.pool import Pool, Setup
from torch_backend.conformance.profiles import PROFILES
from torch_backend.conformance.report import Report

PROGRESS_SECONDS = 15.0


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m torch_backend.conformance", description=__doc__)
    parser.add_argument("--device", default="tb", help="the device under test, as torch.device takes it (default tb)")
    parser.add_argument("--profile", choices=sorted(PROFILES), default="quick", help="how much is run (default quick)")
    parser.add_argument("--check", default="*", help="patterns of checks, separated by commas")
    parser.add_argument("--op", default="*", help="patterns of entries, as in 'linalg.*,add'")
    parser.add_argument("--dtype", default="*", help="patterns of dtypes, as in 'float*'")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the report as JSON")
    parser.add_argument("--page", type=pathlib.Path, metavar="FILE", help="write the report as Markdown")
    parser.add_argument(
        "--expected",
        type=pathlib.Path,
        action="append",
        default=[],
        metavar="FILE",
        help="more strict expected failures, in the format of the shipped expected.toml",
    )
    parser.add_argument("--workers", type=int, default=2, help="worker processes (default 2)")
    parser.add_argument("--samples", type=int, default=0, help="at most this many samples per case")
    parser.add_argument("--seed", type=int, default=0, help="of the samples and of what a profile chooses")
    parser.add_argument("--time-limit", type=float, metavar="SECONDS", help="begin no case after this (0: never stop)")
    parser.add_argument("--case-limit", type=float, metavar="SECONDS", help="a case that takes longer is a failure")
    parser.add_argument("--list", action="store_true", help="print the cases and stop")
    return parser


def _selected(cases: list[Case], options: argparse.Namespace) -> list[Case]:
    return [case for case in cases if matches(case.entry, options.op) and matches(case.dtype, options.dtype)]


def _needing_more_devices(checks: list[str], count: int | None) -> list[str]:
    """The checks that one device alone cannot run. None if nothing else is selected: then they run, and fail."""
    needing = [name for name in checks if count == 1 and CHECKS[name].devices > 1]
    return needing if needing != checks else []


def _in_order(cases: list[Case], seed: int) -> list[Case]:
    """The shuffled cases of all checks, interleaved, so that a time limit cuts off all checks evenly."""
    places: dict[str, list[float]] = {}
    source = random.Random(seed)
    for case in cases:
        places.setdefault(case.check, [])
    counts = {check: sum(case.check == check for case in cases) for check in places}
    for check, count in counts.items():
        places[check] = [(index + 0.5) / count for index in range(count)]
        source.shuffle(places[check])
    return [case for _, case in sorted(((places[case.check].pop(), case) for case in cases), key=lambda pair: pair)]


def main(arguments: list[str] | None = None) -> int:
    """Runs the suite; 0 when it passed, 1 when something failed or nothing ran, 2 when it could not run."""
    options = _arguments().parse_args(arguments)
    checks = [name for name in CHECKS if matches(name, options.check)]
    if not checks:
        print(f"no check matches {options.check!r}; there are {', '.join(CHECKS)}", file=sys.stderr)
        return 2
    profile = PROFILES[options.profile]
    case_limit = profile.case_limit if options.case_limit is None else options.case_limit
    try:
        setup = Setup(options.device, profile.name, options.seed, case_limit, options.samples)
        pool = Pool(setup, options.workers)
        operators = pool.facts.get("operators", [])
        whole = options.op == "*" and options.dtype == "*" and checks == list(CHECKS)
        left_out = _needing_more_devices(checks, pool.facts.get("device_count"))
        checks = [name for name in checks if name not in left_out]
        expectations = load([SHIPPED, *options.expected], options.device.split(":")[0], operators)
        listed, without = pool.list_cases(checks)
    except (WorkerFailed, ValueError, OSError) as error:
        print(f"the suite cannot run on {options.device}: {error}", file=sys.stderr)
        return 2
    try:
        cases = _in_order(_selected(listed, options), options.seed)
        if options.list:
            print("\n".join(map(str, sorted(cases))))
            return 0 if cases else 1
        report = Report(cases, expectations, complete=profile.complete and whole)
        limit = profile.time_limit if options.time_limit is None else options.time_limit
        print(f"{len(cases)} cases of {len(report.tallies)} checks on {options.device}, profile {profile.name}")
        for check in left_out:
            print(f"left out: {check} needs {CHECKS[check].devices} devices, and there is one")
        for check, entry in without:
            print(f"no case: {check} {entry} lists no dtype for the CPU")
        seconds = _run(pool, cases, report, limit)
    finally:
        pool.close()
    run: dict[str, Any] = {
        "device": options.device,
        "profile": profile.name,
        "seed": options.seed,
        "seconds": round(seconds, 1),
        "facts": pool.facts,
        "left_out": left_out,
        "without_cpu_dtype": [entry for _, entry in without],
        "comparison": "see torch_backend.conformance.comparison; bit_equal_rate counts equality to the last bit",
    }
    if options.json:
        options.json.write_text(json.dumps(report.to_json(run), indent=1) + "\n")
    if options.page:
        options.page.write_text(page(report, run))
    _summary(report)
    return 1 if report.verdict() else 0


def _run(pool: Pool, cases: list[Case], report: Report, limit: float) -> float:
    """Runs the cases until the limit, in seconds (0: none); returns how long it took."""
    start = reported = time.monotonic()
    stop = threading.Event()
    failed = 0
    for done, result in enumerate(pool.run(cases, stop), start=1):
        failure = report.add(result)
        if failure is not None:
            failed += 1
            print(f"FAILED {failure[:400]}", flush=True)
        now = time.monotonic()
        if now - reported >= PROGRESS_SECONDS:
            reported = now
            print(f"[{now - start:5.0f} s] {done}/{len(cases)} cases, {failed} failed; at {result.case}", flush=True)
        if limit and now - start >= limit and not stop.is_set():
            stop.set()
            print(f"time limit of {limit:.0f} s: {len(cases) - done} cases are left", flush=True)
    return time.monotonic() - start


def _summary(report: Report) -> None:
    width = max(map(len, report.tallies), default=5)
    print(f"\n{'':{width}}  {'total':>6} {'run':>6} {'passed':>6} {'xfail':>6} {'failed':>6} {'bits':>8} {'native':>8}")
    for check, tally in report.tallies.items():
        bits = f"{tally.equal_bits / tally.tensors:8.2%}" if tally.tensors else " " * 8
        native = " " * 8 if tally.native_rate is None else f"{tally.native_rate:8.2%}"
        figures = (tally.total, tally.executed, tally.passed, len(tally.xfailed), len(tally.failures))
        print(f"{check:{width}}  {' '.join(f'{figure:6}' for figure in figures)} {bits} {native}")
    verdict = report.verdict()
    print("\n" + ("\n".join(f"FAILED: {reason}" for reason in verdict) if verdict else "passed"))
