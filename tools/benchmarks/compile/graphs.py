"""Replays of a captured training step against the same step run eagerly: python -m benchmarks.compile.graphs.

Both run asynchronously: a block of steps is queued and then waited for. Losses of the two are compared bit by bit.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import torch
import torch_backend.device_module as tb
from examples.models.case import Case, Training, adamw_fused
from torch_backend.conformance.bits import bit_identical

from benchmarks import pages
from benchmarks.operators.steps import STEPS
from benchmarks.page import write

AIM = 0.7
CHOSEN = ("MLP 4x128 batch 32", "transformer d64")


@dataclass(frozen=True)
class Measured:
    """Milliseconds of one step, medians over blocks; the ratio is the median of the ratios of neighbouring blocks."""

    name: str
    eager: float
    replay: float
    ratio: float
    operations: int


def _case(name: str) -> Case:
    torch.manual_seed(0)
    case = STEPS[name][0]()
    return case if name.startswith("MLP") else replace(case, optimizer=adamw_fused)


def _warm_up(training: Training) -> None:
    torch.manual_seed(0)  # for dropout
    for _ in range(3):
        training.step()


def _captured(training: Training) -> tuple[tb.Graph, torch.Tensor, int]:
    import tb_stream

    _warm_up(training)
    with tb_stream.capture() as counted:  # torch.tb.Graph has no node count
        training.step()
    count = counted.node_count
    counted.reset()
    graph = tb.Graph()
    with tb.graph(graph):
        loss = training.step()
    return graph, loss, count


def _block(call: Callable[[], object], count: int) -> float:
    begin = time.perf_counter()
    for _ in range(count):
        call()
    tb.synchronize()
    return (time.perf_counter() - begin) / count * 1e3


def measure(name: str, rounds: int) -> Measured:
    device = torch.device("tb")
    eager, other = Training(_case(name), device), Training(_case(name), device)
    graph, loss, operations = _captured(other)
    _warm_up(eager)
    for seed in range(3):
        torch.manual_seed(seed)
        expected = eager.step()
        torch.manual_seed(seed)
        graph.replay()
        if not bit_identical(expected, loss):
            raise SystemExit(f"{name}: the replay's loss {loss.item()} is not the eager step's, {expected.item()}")
    count = max(1, int(50 / _block(eager.step, 5)))  # blocks of some 50 ms
    pairs = [(_block(eager.step, count), _block(graph.replay, count)) for _ in range(rounds)]
    return Measured(
        name,
        statistics.median(one for one, _ in pairs),
        statistics.median(two for _, two in pairs),
        statistics.median(two / one for one, two in pairs),
        operations,
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="nox -s bench-graphs --", description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=41, help="blocks of each (%(default)s)")
    parser.add_argument("--json", type=pathlib.Path, default=pathlib.Path("build/bench-graphs.json"), metavar="FILE")
    parser.add_argument("--page", type=pathlib.Path, metavar="FILE", help="write docs/results/graphs.md there")
    asked = parser.parse_args()
    rows = [measure(name, asked.rounds) for name in CHOSEN]
    asked.json.parent.mkdir(parents=True, exist_ok=True)
    asked.json.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    if asked.page:
        write(asked.page, pages.graphs([asdict(row) for row in rows], AIM))
    print(f"{'step':22}{'eager ms':>10}{'replay ms':>11}{'ratio':>7}{'operations':>12}")
    for row in rows:
        print(f"{row.name:22}{row.eager:10.3f}{row.replay:11.3f}{row.ratio:7.2f}{row.operations:12}")
    missed = [row.name for row in rows if row.ratio > AIM]
    print(f"aim: at most {AIM}: " + (f"missed by {', '.join(missed)}" if missed else "met"))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
