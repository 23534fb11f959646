"""`nox -s bench-generator`: nanoseconds an element on one thread, and whether the aims are met; JSON to a file."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any

import numpy
import tb_generator
import torch

from benchmarks import pages
from benchmarks.generator.cases import ELEMENTS, Case, cases
from benchmarks.interleave import Plan, Subject, compare
from benchmarks.page import write


def measure(case: Case, elements: int, rounds: int) -> dict[str, Any]:
    """Medians over interleaved rounds. `times`: how many times faster tb is than each peer and than NumPy's fastest."""
    found = compare([Subject(call) for call in case.calls.values()], Plan(1, rounds, True))
    times = {name: 1 / ratio.median for name, ratio in zip(list(case.calls)[1:], found.ratios, strict=True)}
    stock = [factor for name, factor in times.items() if name.startswith("NumPy")]
    times["NumPy"] = min(stock)
    nanoseconds = {
        name: 1000 * time / (elements * case.share) for name, time in zip(case.calls, found.microseconds, strict=True)
    }
    met = {name: times[name] >= aim for name, aim in case.aims.items()}
    return {"nanoseconds": nanoseconds, "times": times, "aims": case.aims, "met": met}


def main() -> None:
    """Measures the chosen rows, by default all."""
    parser = argparse.ArgumentParser(prog="nox -s bench-generator --", description=__doc__)
    parser.add_argument("chosen", nargs="*", metavar="NAME", help="rows whose names contain one of these")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--elements", type=int, default=ELEMENTS)
    parser.add_argument("--json", type=Path, default=Path("build/bench-generator.json"))
    parser.add_argument("--page", type=Path, metavar="FILE", help="write docs/results/generator.md there")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    print(f"one thread, {asked.elements} elements, {tb_generator.instruction_sets()[-1]}; ns an element")
    print(f"torch {torch.__version__}, NumPy {numpy.__version__}, {os.cpu_count()} processors\n")
    rows = {}
    for name, case in cases(asked.elements).items():
        if asked.chosen and not any(part in name for part in asked.chosen):
            continue
        row = rows[name] = measure(case, asked.elements, asked.rounds)
        figures = "  ".join(f"{who} {value:.2f}" for who, value in row["nanoseconds"].items())
        print(f"{name:20} {figures}")
        for who, aim in row["aims"].items():
            verdict = "met" if row["met"][who] else "NOT MET"
            print(f"{'':20} {row['times'][who]:.1f} times as fast as {who}, aim {aim:g}: {verdict}")
    asked.json.parent.mkdir(parents=True, exist_ok=True)
    asked.json.write_text(json.dumps(rows, indent=1) + "\n")
    if asked.page:
        write(asked.page, pages.generator(rows))


if __name__ == "__main__":
    main()
