"""The command line: chooses files and tests, runs them, prints the progress and writes the reports."""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
import threading
from typing import Any

import tb_device
import torch
from tb_device.console import WIDTH

from torch_backend.conformance.expectations import matches
from torch_backend.pytorch_tests.checkout import ACCELERATOR, DEVICE_TYPES, Checkout
from torch_backend.pytorch_tests.expectations import SHIPPED, beside, load
from torch_backend.pytorch_tests.page import page
from torch_backend.pytorch_tests.pool import Pool, Schedule, Setup, sample
from torch_backend.pytorch_tests.progress import Progress
from torch_backend.pytorch_tests.report import Report
from torch_backend.pytorch_tests.result import Log, Result

DESCRIPTION = "Runs PyTorch's own test files on a device, beside stock CPU. docs/pytorch-tests.md says what is run."
QUICK_TESTS, QUICK_SECONDS = 30, 600.0  # of each file, of the run


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m torch_backend.pytorch_tests", description=DESCRIPTION)
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="test files below `test`; default: those of PyTorch's devices"
    )
    parser.add_argument("--kind", choices=(DEVICE_TYPES, ACCELERATOR), help="only files of this kind; default: both")
    parser.add_argument("--source", type=pathlib.Path, required=True, metavar="CHECKOUT", help="PyTorch's sources")
    parser.add_argument("--device", default="tb", help="the type of device under test (default tb)")
    parser.add_argument("--test", default="*", help="patterns of Class.method without the device's name, with commas")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_TESTS} tests of each file, {QUICK_SECONDS:.0f} s")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="N tests of each file, drawn by the seed")
    parser.add_argument("--seed", type=int, default=0, help="of the sample")
    parser.add_argument(
        "--results",
        type=pathlib.Path,
        default=pathlib.Path("pytorch-tests"),
        metavar="FOLDER",
        help="where the log and the reports are written, and a stopped run goes on (default %(default)s)",
    )
    parser.add_argument("--restart", action="store_true", help="forget the results of an earlier run in that folder")
    parser.add_argument("-x", "--exitfirst", action="store_true", help="begin no test after the first failure")
    parser.add_argument("--retry", action="store_true", help="run the tests that failed in that folder again")
    parser.add_argument(
        "--expected",
        type=pathlib.Path,
        action="append",
        default=[],
        metavar="FILE",
        help="more expected failures, in the format of the shipped expected.toml",
    )
    parser.add_argument("--workers", type=int, default=2, help="worker processes (default 2)")
    parser.add_argument("--time-limit", type=float, default=0.0, metavar="SECONDS", help="begin no test after this")
    parser.add_argument("--test-limit", type=float, default=300.0, metavar="SECONDS", help="a longer test is a failure")
    return parser


def _driver(device: str) -> tuple[str, list[pathlib.Path]]:
    """The driver below tb, and its vendor's expected failures beside its library; another device's type, and none."""
    if device.split(":")[0] != "tb":
        return device.split(":")[0], []
    name = str(torch.get_device_module("tb").get_device_properties(0).driver)
    [path] = [candidate.path for candidate in tb_device.drivers() if candidate.chosen]
    return name, beside(path)


def main(arguments: list[str] | None = None) -> int:
    """Runs the tests; 0 when no failure is unexplained, 1 when one is or nothing ran, 2 when it could not run."""
    options = _arguments().parse_args(arguments)
    if options.quick:
        options.sample = options.sample or QUICK_TESTS
        options.time_limit = options.time_limit or QUICK_SECONDS
    try:
        checkout = Checkout(options.source)
        files = checkout.files(options.files, options.kind)
        driver, of_vendor = _driver(options.device)
        expectations = load([SHIPPED, *of_vendor, *options.expected], driver, checkout.version)
        run: dict[str, Any] = {
            "device": options.device,
            "driver": driver,
            "torch": torch.__version__,
            "tests of": checkout.version,
        }
        log = Log(options.results / "log.jsonl", dict(run), afresh=options.restart)
    except (ValueError, OSError, RuntimeError) as error:
        print(f"the tests cannot run on {options.device}: {error}", file=sys.stderr)
        return 2

    def choose(tests: list[str]) -> list[str]:
        return sample([test for test in tests if matches(test, options.test)], options.sample, options.seed)

    if options.retry:
        log.forget_failures()
    report = Report(expectations)
    chosen = {file: choose(log.listed[file]) for file in files if file in log.listed}
    left = {file: [test for test in tests if (file, test) not in log.results] for file, tests in chosen.items()}
    there = [result for result in log.results.values() if result.name.test in chosen.get(result.name.file, ())]
    for result in there:
        report.add(result)
    schedule = Schedule([file for file in files if file not in chosen], left.items())
    progress = Progress(sum(map(len, left.values())), schedule.files_to_list())
    print(f"{len(files)} files of PyTorch {checkout.version} on {options.device}, driver {driver}")
    if there:
        print(f"{len(there)} results are there from an earlier run")
    pool = Pool(Setup(checkout, options.device, options.test_limit), options.workers, choose)
    stop = threading.Event()
    try:
        for event in pool.run(schedule, stop):
            if isinstance(event, Result):
                log.add(event)
                failure = report.add(event)
                progress.count(failure)
                if failure and options.exitfirst and not stop.is_set():
                    stop.set()
                    print("the first failure: the same command goes on where this run stopped")
            else:
                log.list_file(*event)
                progress.list_file(len(choose(event[1])))
            if options.time_limit and progress.seconds >= options.time_limit and not stop.is_set():
                stop.set()
                print(f"time limit of {options.time_limit:.0f} s: the same command goes on where this run stopped")
    except KeyboardInterrupt:
        print("\nstopped: the same command goes on from here")
        return 130
    finally:
        log.close()
    run["seconds"] = round(progress.seconds)
    report.listed = {file: len(log.listed[file]) for file in files if file in log.listed}
    (options.results / "report.json").write_text(json.dumps(report.to_json(run), indent=1) + "\n")
    (options.results / "page.md").write_text(page(report, run))
    _summary(report, options.results)
    return 1 if report.verdict() else 0


def _summary(report: Report, folder: pathlib.Path) -> None:
    width = max(map(len, report.tallies), default=4)
    print(f"\n{'':{width}} {'executed':>8} {'passed':>7} {'failed':>7} {'expected':>8} {'CPU too':>7} {'skipped':>8}")
    for file, tally in sorted(report.tallies.items()):
        figures = (tally.executed, tally.passed, len(tally.failures), len(tally.expected), len(tally.on_cpu_too))
        cells = [f"{figure:{size}}" for figure, size in zip(figures, (8, 7, 7, 8, 7), strict=True)]
        print(f"{file:{width}} {' '.join(cells)} {sum(tally.skipped.values()):8}")
    for text, group in report.causes(report.failures):
        print(f"{len(group):5} {text[: WIDTH - 6]}\n      for example {group[0].name}")
    verdict = report.verdict()
    print("\n" + ("\n".join(f"FAILED: {reason}" for reason in verdict) if verdict else "passed"))
    print(f"written: {folder}/page.md, report.json, log.jsonl")
