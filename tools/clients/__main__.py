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
from clients.page import page

CLIENTS = ["accelerate", "transformers", "lightning", "pytorch_lightning", "safetensors"]
"""The modules of this package that have checks."""
VARIABLES = {"safetensors": {"TB_CPU_DEVICES": "2"}}
"""What a client's checks need beyond nothing."""
SECONDS = 1800
"""A client's checks end after this time; those that are left have failed."""


def checks_of(client: str) -> Checks:
    """The checks in the module of this name."""
    found: Checks = importlib.import_module(f"clients.{client}").checks
    return found


def run_here(client: str, pattern: str, file: pathlib.Path) -> None:
    """Runs a client's checks in this process; each result is a line of the file."""
    found = checks_of(client)
    for check in found.all:
        if pattern in check.name:
            with file.open("a") as lines:
                lines.write(
                    json.dumps(dataclasses.asdict(Result(found.client, check.name, "failed", "the process ended")))
                    + "\n"
                )
            result = run(found.client, check)
            with file.open("a") as lines:
                lines.write(json.dumps(dataclasses.asdict(result)) + "\n")
            print(f"{result.outcome:<8} {found.client}: {check.name} ({result.seconds} s) {result.reason}", flush=True)


def run_apart(client: str, pattern: str) -> list[Result]:
    """Runs them in a process of their own, without the network and with none of its variables for devices."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "results"
        command = [sys.executable, "-m", "clients", client, "-k", pattern, "--here", str(file)]
        environment = {
            **os.environ,
            "HF_HUB_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
            **VARIABLES.get(client, {}),
        }
        try:
            status = subprocess.run(command, env=environment, timeout=SECONDS, cwd=folder).returncode
        except subprocess.TimeoutExpired:
            status = 1
        written = file.read_text().splitlines() if file.exists() else []
    results = {entry["check"]: Result(**entry) for entry in map(json.loads, written)}
    if status and all(result.passed for result in results.values()):
        results["all"] = Result(client, "all", "failed", f"the process ended with status {status}")
    return list(results.values())


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0 if every check passed."""
    parser = argparse.ArgumentParser(prog="nox -s clients --", description=__doc__)
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help=f"some of {' '.join(CLIENTS)} (default: all)")
    parser.add_argument("-k", dest="pattern", default="", help="only checks whose name has this text")
    parser.add_argument("--json", type=pathlib.Path, help="where the report is written")
    parser.add_argument("--page", type=pathlib.Path, help="the page whose marked part is written again")
    parser.add_argument("--here", type=pathlib.Path, help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    unknown = [name for name in chosen.clients if name not in CLIENTS]
    if unknown:
        parser.error(f"there are no checks for {', '.join(unknown)}; there are some for {', '.join(CLIENTS)}")
    if chosen.here:
        run_here(chosen.clients[0], chosen.pattern, chosen.here)
        return 0
    results = [result for client in chosen.clients or CLIENTS for result in run_apart(client, chosen.pattern)]
    report = {
        "torch": metadata.version("torch"),
        "versions": {client: metadata.version(client) for client in dict.fromkeys(result.client for result in results)},
        "results": [dataclasses.asdict(result) for result in results],
    }
    if chosen.json:
        chosen.json.parent.mkdir(parents=True, exist_ok=True)
        chosen.json.write_text(json.dumps(report, indent=1) + "\n")
    if chosen.page:
        chosen.page.write_text(page(chosen.page.read_text(), report))
    failed = [result for result in results if not result.passed]
    for result in failed:
        print(f"{result.outcome}: {result.client}: {result.check}: {result.reason}")
    print(f"{len(results) - len(failed)} passed, {len(failed)} failed")
    return 1 if failed or not results else 0


if __name__ == "__main__":
    sys.exit(main())
