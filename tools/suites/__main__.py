"""Runs one suite on the device, and on stock CPU the tests that fail there, and writes its report."""

from __future__ import annotations

import argparse
import dataclasses
import json
import pathlib
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch_backend.conformance.device import Device
from torch_backend.pytorch_tests.expectations import KINDS
from torch_backend.pytorch_tests.expectations import load as load_expectations
from torch_backend.pytorch_tests.report import Report
from torch_backend.pytorch_tests.result import FAILED, Result, TestName

from suites import processes, unpacked
from suites.plugin import NOT_ON_DEVICE
from suites.suite import Suite, load

SUITE_KINDS = KINDS | {"library": "the library's own fault"}
"""The kinds of expected failures: those of PyTorch's tests, and one more."""


def results_of(suite: Suite, source: pathlib.Path, folder: pathlib.Path, device: str, text: str) -> list[Result]:
    """The results on the device; each failure with what stock CPU does in the same test, if it has that test."""
    found = []
    root = unpacked.take(suite, source, folder, device)
    for result in processes.run(suite, root, folder, device, None, text):
        found.append(result)
        if result.outcome == FAILED:
            print(f"fails on {device}: {result.name}: {result.text[:200]}", flush=True)
    failed = [result.name for result in found if result.outcome == FAILED]
    on_cpu: dict[TestName, str] = {}
    if failed:
        root = unpacked.take(suite, source, folder, "cpu")
        on_cpu = {result.name: result.outcome for result in processes.run(suite, root, folder, "cpu", failed, "")}
    return [dataclasses.replace(result, cpu=on_cpu.get(result.name)) for result in found]


def verdict_of(report: Report, whole: bool) -> list[str]:
    """Why the run failed; [] if it passed. In a whole run an entry without a test is one of the reasons."""
    verdict = report.verdict()
    if whole:
        used = report.entries()
        stale = [entry for entry in report.expectations if entry not in used and entry not in report.passes_of]
        verdict += [f"the entry {entry} expects a failure, and no test fails by it" for entry in stale]
    return verdict


def summary(suite: Suite, report: Report, verdict: Sequence[str]) -> dict[str, Any]:
    """What the report has of a suite."""
    skipped = sum((tally.skipped for tally in report.tallies.values()), Counter[str]())
    not_on_device = skipped.pop(NOT_ON_DEVICE, 0)
    on_cpu_too = [result for tally in report.tallies.values() for result in tally.on_cpu_too]
    counts = {"executed": "executed", "passed": "passed", "failed": "failures", "expected": "expected"}
    counts |= {"failed on stock CPU too": "on_cpu_too", "expected by the suite": "xfailed", "native": "native"}
    return {
        "version": suite.version,
        "from": suite.origin,
        "part": suite.part,
        "ok": not verdict,
        "verdict": list(verdict),
        **{name: report.total(count) for name, count in counts.items()},
        "not on the device": not_on_device,
        "skipped": skipped.total(),
        "skips": dict(skipped.most_common(20)),
        "entries": [
            {
                "entry": " ".join(str(entry).split()),
                "kind": SUITE_KINDS[entry.kind],
                "reason": entry.reason,
                "tests": count,
            }
            for entry, count in report.entries().most_common()
        ],
        "causes": {text: [str(one.name) for one in group] for text, group in report.causes(report.failures)},
        "causes on stock CPU too": {text: len(group) for text, group in report.causes(on_cpu_too)},
        "fallbacks": dict(report.fallbacks.most_common()),
    }


def record(path: pathlib.Path, name: str, run: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Writes a suite's part of the report, in place of an earlier one; a new report for another torch or driver."""
    report = json.loads(path.read_text()) if path.exists() else {}
    if any(report.get(key) != value for key, value in run.items()):
        report = {**run, "suites": {}}
    report["suites"] = dict(sorted({**report["suites"], name: found}.items()))
    path.write_text(json.dumps(report, indent=1) + "\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when every failure on the device is explained, 1 when one is not or no test ran, 2 when it could not run."""
    suites, _ = load()
    parser = argparse.ArgumentParser(prog="python -m suites", description=__doc__)
    parser.add_argument("name", choices=list(suites))
    parser.add_argument("--source", type=pathlib.Path, required=True, help="the unpacked archive")
    parser.add_argument("--json", type=pathlib.Path, required=True, help="the report of all suites; others stay in it")
    parser.add_argument("--device", default="tb", help="the type of device (default tb)")
    parser.add_argument("-k", dest="text", default="", help="only tests that pytest's -k finds; nothing is recorded")
    parser.add_argument("--judge", action="store_true", help="run nothing: compare the last results with the entries")
    chosen = parser.parse_args(arguments)
    suite = suites[chosen.name]
    driver = str(Device(chosen.device).module.get_device_properties(0).driver)
    paths = [suite.expected] if suite.expected.exists() else []
    report = Report(load_expectations(paths, driver, suite.version, SUITE_KINDS))
    folder = chosen.json.parent / suite.name
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "results.jsonl"
    try:
        if chosen.judge:
            found = [Result.from_json(json.loads(line)) for line in log.read_text().splitlines()]
        else:
            found = results_of(suite, chosen.source, folder, chosen.device, chosen.text)
    except (processes.SuiteFailed, FileNotFoundError) as error:
        print(f"{suite.name} cannot run: {error}", file=sys.stderr)
        return 2
    for result in found:
        report.add(result)
    verdict = verdict_of(report, not chosen.text)
    numbers = summary(suite, report, verdict)
    if not chosen.text:
        log.write_text("".join(json.dumps(result.to_json()) + "\n" for result in found))
        record(chosen.json, suite.name, {"torch": torch.__version__, "driver": driver}, numbers)
    _print(suite, report, numbers)
    return 1 if verdict else 0


def _print(suite: Suite, report: Report, numbers: Mapping[str, Any]) -> None:
    for text, group in report.causes(report.failures):
        print(f"{len(group):5} {text[:200]}\n      for example {group[0].name}")
    for reason in numbers["verdict"]:
        print(f"FAILED: {reason}")
    shown = ["executed", "passed", "failed", "expected", "failed on stock CPU too", "not on the device", "skipped"]
    print(f"{suite.name} {suite.version}: " + ", ".join(f"{numbers[key]} {key}" for key in shown), flush=True)


if __name__ == "__main__":
    sys.exit(main())
