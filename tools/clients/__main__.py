"""Runs the checks, each client's in a process of its own, and writes the reports."""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib import metadata

from clients.checks import Checks, Result, run
from clients.versions import CLIENTS, VARIABLES

SECONDS = 1800
"""After this time the process of a client's checks is ended, and the check that ran has failed."""
ENDED = "all"
"""The name under which a process that ended before or between the checks is in the report."""
CHOOSE_DEVICES = ["ACCELERATE_TORCH_DEVICE", "KERAS_TORCH_DEVICE", "TB_INTEGRATIONS"]


def checks_of(client: str) -> Checks:
    """The checks in the module of this name."""
    found: Checks = importlib.import_module(f"clients.{client}").checks
    return found


def run_here(client: str, pattern: str, file: pathlib.Path) -> None:
    """Runs a client's checks in this process; each result is a line of the file."""
    found = checks_of(client)
    for check in found.all:
        if pattern in check.name:
            write(file, Result(found.client, check.name, "failed", "the process ended"))
            result = run(found.client, check)
            write(file, result)
            print(f"{result.outcome:<8} {found.client}: {check.name} ({result.seconds} s) {result.reason}", flush=True)


def write(file: pathlib.Path, result: Result) -> None:
    """Adds a line to the file; the last one of a check counts."""
    with file.open("a") as lines:
        lines.write(json.dumps(dataclasses.asdict(result)) + "\n")


def run_apart(client: str, pattern: str) -> list[Result]:
    """Runs them in a process of their own, without the hub, and without variables by which a client would find tb."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "results"
        command = [sys.executable, "-m", "clients", client, "-k", pattern, "--here", str(file)]
        environment = {name: value for name, value in os.environ.items() if name not in CHOOSE_DEVICES}
        environment |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", **VARIABLES.get(client, {})}
        try:
            status = subprocess.run(command, env=environment, timeout=SECONDS, cwd=folder).returncode
        except subprocess.TimeoutExpired:
            status = 1
        written = file.read_text().splitlines() if file.exists() else []
    results = {entry["check"]: Result(**entry) for entry in map(json.loads, written)}
    if status and all(result.passed for result in results.values()):
        reason = f"the process ended with status {status}"
        results[ENDED] = Result(CLIENTS[client].split("=")[0], ENDED, "failed", reason)
    return list(results.values())


def record(path: pathlib.Path, results: Sequence[Result]) -> None:
    """Writes these results in place of what the report has for the same checks, or a new report for another torch."""
    torch = metadata.version("torch")
    report = json.loads(path.read_text()) if path.exists() else {}
    if report.get("torch") != torch:
        report = {"torch": torch, "versions": {}, "results": []}
    report["versions"] |= {result.client: metadata.version(result.client) for result in results}
    ran = {result.client for result in results}
    kept = [entry for entry in report["results"] if entry["check"] != ENDED or entry["client"] not in ran]
    entries = {(entry["client"], entry["check"]): entry for entry in kept}
    entries |= {(result.client, result.check): dataclasses.asdict(result) for result in results}
    order = list(report["versions"])
    report["results"] = sorted(entries.values(), key=lambda entry: order.index(entry["client"]))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report, indent=1) + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0 if every check passed."""
    parser = argparse.ArgumentParser(prog="nox -s clients --", description=__doc__)
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help=f"some of {' '.join(CLIENTS)} (default: all)")
    parser.add_argument("-k", dest="pattern", default="", help="only checks whose name has this text")
    parser.add_argument("--json", type=pathlib.Path, help="the report, in which these results replace earlier ones")
    parser.add_argument("--here", type=pathlib.Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    unknown = [name for name in chosen.clients if name not in CLIENTS]
    if unknown:
        parser.error(f"there are no checks for {', '.join(unknown)}; there are some for {', '.join(CLIENTS)}")
    if chosen.here:
        run_here(chosen.clients[0], chosen.pattern, chosen.here)
        return 0
    results = []
    for client in chosen.clients or CLIENTS:
        found = run_apart(client, chosen.pattern)
        results += found
        if chosen.json:
            record(chosen.json, found)
    failed = [result for result in results if not result.passed]
    for result in failed:
        print(f"{result.outcome}: {result.client}: {result.check}: {result.reason}")
    print(f"{len(results) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main())
