"""tb-ops' float GEMM kernel against stock cpu's, one thread: python -m benchmarks.operators.products.

Single products call the kernel itself. Batches call torch.bmm on tb and include the wait for the result. Equal: whether
the results are equal; tb-ops uses the kernel only for sizes whose results are.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import tb_ops._testing
import torch

from benchmarks.interleave import Plan, Subject, compare

# (M, K, N): the sizes of the benchmark's models, and larger ones.
SIZES = (
    (32, 128, 128),
    (64, 64, 64),
    (512, 64, 64),
    (512, 64, 192),
    (512, 256, 64),
    (64, 512, 192),
    (512, 128, 512),
    (256, 1024, 1024),
    (1040, 192, 768),
    (2048, 512, 512),
)
LAYOUTS = {"x @ w": (False, False), "x @ w.T": (False, True), "x.T @ w": (True, False)}
# (batch, M, K, N): the sizes of attention and its gradients, and larger ones.
BATCHES = (
    (32, 64, 16, 64),
    (32, 64, 64, 16),
    (64, 128, 64, 128),
    (64, 128, 128, 64),
    (96, 65, 64, 65),
    (8, 256, 256, 256),
)
OPERATIONS_PER_BLOCK = 200e6
TRIED_AFTER = 5  # calls of a size, after which the trial is over


@dataclass(frozen=True)
class Product:
    """Microseconds of each kernel, and whether the results are equal. `count`: products in a batch; 0: a single one."""

    count: int
    size: tuple[int, int, int]
    layout: str
    stock: float
    own: float
    ratio: float
    equal: bool

    @property
    def gigaflops(self) -> float:
        rows, inner, columns = self.size
        return 2e-3 * max(self.count, 1) * rows * inner * columns / self.own


def _factors(size: tuple[int, int, int], layout: str, *batch: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Random operands, stored as the layout says."""
    rows, inner, columns = size
    turn_left, turn_right = LAYOUTS[layout]
    left = torch.randn(*batch, inner, rows).mT if turn_left else torch.randn(*batch, rows, inner)
    right = torch.randn(*batch, columns, inner).mT if turn_right else torch.randn(*batch, inner, columns)
    return left, right


def measured(size: tuple[int, int, int], layout: str, rounds: int) -> Product:
    """Times one size. RuntimeError: this processor has no AVX-512."""
    rows, inner, columns = size
    left, right = _factors(size, layout)
    expected, out = torch.empty(rows, columns), torch.empty(rows, columns)
    if not tb_ops._testing.sgemm(left, right, out, False):
        raise RuntimeError(
            "benchmarks.operators.products: this processor has no AVX-512, so there is no kernel to time"
        )
    calls = max(1, round(OPERATIONS_PER_BLOCK / (2 * rows * inner * columns)))
    own = Subject(lambda: tb_ops._testing.sgemm(left, right, out, False))
    stock = Subject(lambda: torch.mm(left, right, out=expected))
    found = compare([own, stock], Plan(calls=calls, rounds=rounds, wait_inside=False, warm=2))
    return Product(
        0,
        size,
        layout,
        found.microseconds[1],
        found.microseconds[0],
        found.ratios[0].median,
        torch.equal(out, expected),
    )


def measured_batch(batch: tuple[int, int, int, int], layout: str, rounds: int) -> Product:
    """Times a batch on tb and on stock cpu."""
    count, rows, inner, columns = batch
    left, right = _factors((rows, inner, columns), layout, count)
    there = left.to("tb"), right.to("tb")
    expected, out = torch.empty(count, rows, columns), torch.empty(count, rows, columns, device="tb")
    calls = max(1, round(10 * OPERATIONS_PER_BLOCK / (2 * count * rows * inner * columns)))
    own = Subject(lambda: torch.bmm(*there, out=out), finish=torch.accelerator.synchronize)
    stock = Subject(lambda: torch.bmm(left, right, out=expected))
    for _ in range(TRIED_AFTER):
        own.call()
    own.finish()
    found = compare([own, stock], Plan(calls=calls, rounds=rounds, wait_inside=True))
    equal = torch.equal(out.cpu(), expected)
    return Product(
        count, batch[1:], layout, found.microseconds[1], found.microseconds[0], found.ratios[0].median, equal
    )


def table(products: Sequence[Product]) -> str:
    """The results as a Markdown table."""
    lines = [
        "| rows x terms x columns | factors | stock cpu, us | tb-ops, us | ratio | GFLOP/s | equal |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for p in products:
        size = f"{p.count} of " * (p.count > 0) + " x ".join(map(str, p.size))
        lines.append(
            f"| {size} | `{p.layout}` | {p.stock:.1f} | {p.own:.1f} | {p.ratio:.2f} | {p.gigaflops:.0f} | "
            f"{'yes' if p.equal else 'no'} |"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.operators.products", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the smallest size and one round: does everything run?")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    shown, rounds = (1, 1) if asked.quick else (None, 9)
    products = [measured(size, layout, rounds) for size in SIZES[:shown] for layout in LAYOUTS]
    products += [measured_batch(batch, layout, rounds) for batch in BATCHES[:shown] for layout in LAYOUTS]
    print(table(products))
    return 0


if __name__ == "__main__":
    sys.exit(main())
