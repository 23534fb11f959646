"""python -m bench.measure: every row at this process's thread count, as JSON on the last line of standard output."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from bench.interleave import Call, Comparison, Plan, Subject, compare
from bench.operators import OPERATORS, PLAN
from bench.steps import STEPS, training_step


@dataclass(frozen=True)
class Row:
    """One line of build/bench.json."""

    name: str
    threads: int
    tb_us: float
    cpu_us: float
    ratio: float
    ratio_min: float
    ratio_max: float


def subject(call: Call, device: torch.device) -> Subject:
    """The call with the wait of its device; the CPU has nothing to wait for."""
    if device.type == "cpu":
        return Subject(call, lambda: None)
    return Subject(call, lambda: torch.accelerator.synchronize(device))


def rows(device: torch.device, quick: bool) -> Iterator[Row]:
    """All rows, operators first. `quick`: one pair of short blocks each, to see that everything runs."""
    cpu = torch.device("cpu")

    def measured(name: str, first: Call, second: Call, plan: Plan) -> Row:
        plan = replace(plan, calls=2, pairs=1) if quick else plan
        result: Comparison = compare(subject(first, device), subject(second, cpu), plan)
        return Row(
            name,
            torch.get_num_threads(),
            result.first_us,
            result.second_us,
            result.ratio,
            result.ratio_min,
            result.ratio_max,
        )

    for name, make in OPERATORS.items():
        yield measured(name, make(device), make(cpu), PLAN)
    for name, (make_case, plan) in STEPS.items():
        calls = []
        for where in (device, cpu):
            torch.manual_seed(0)
            calls.append(training_step(make_case(), where))
        yield measured(name, calls[0], calls[1], plan)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench.measure", description=__doc__)
    parser.add_argument("--device", default="tb")
    parser.add_argument("--quick", action="store_true")
    chosen = parser.parse_args()
    found = []
    for row in rows(torch.device(chosen.device), chosen.quick):
        found.append(vars(row))
        print(f"  {row.name}: {row.tb_us:.2f} us against {row.cpu_us:.2f} us", file=sys.stderr)
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
