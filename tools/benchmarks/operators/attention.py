"""Float attention and its gradients on tb against stock cpu, one thread: python -m benchmarks.operators.attention.

Both call the operators behind torch.nn.functional.scaled_dot_product_attention, and the wait for the result is
included. Own: whether tb-ops' kernel computes the size; a trial decides between it and PyTorch's. Equal: whether the
results are equal.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import tb_ops._testing
import torch

from benchmarks.interleave import Plan, Subject, compare

# (batch, heads, positions, size of a head, causal): the sizes of the benchmark's models, and longer ones.
SIZES = (
    (8, 4, 64, 16, True),
    (8, 4, 128, 32, True),
    (16, 3, 65, 64, False),
    (4, 8, 128, 64, True),
    (2, 8, 256, 64, True),
    (1, 8, 512, 64, True),
    (1, 4, 1024, 64, True),
    (1, 4, 1024, 64, False),
)
Size = tuple[int, int, int, int, bool]
TRIED_AFTER = 5  # calls of a size, after which the trial is over
MICROSECONDS_PER_BLOCK = 4000


@dataclass(frozen=True)
class Attention:
    """Microseconds of a call on each device, whether tb-ops' own kernel ran, and whether the results are equal."""

    size: Size
    backward: bool
    stock: float
    tb: float
    ratio: float
    own: bool
    equal: bool


def _call(size: Size, backward: bool, device: str) -> Callable[[], tuple[torch.Tensor, ...]]:
    """A call whose arguments are stored position by position, as in models."""
    batch, heads, positions, width, causal = size
    generator = torch.Generator().manual_seed(0)
    query, key, value, grad = (
        torch.randn(batch, positions, heads, width, generator=generator).to(device).transpose(1, 2) for _ in range(4)
    )
    forward = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    if not backward:
        return lambda: forward(query, key, value, 0.0, causal)
    out, sums = forward(query, key, value, 0.0, causal)
    gradients = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
    return lambda: gradients(grad, query, key, value, out, sums, 0.0, causal)


def measured(size: Size, backward: bool, rounds: int) -> Attention:
    """Times one size, forward or backward."""
    there, here = (_call(size, backward, device) for device in ("tb", "cpu"))
    subjects = [Subject(there, finish=torch.accelerator.synchronize), Subject(here)]
    for _ in range(TRIED_AFTER):
        there()
    torch.accelerator.synchronize()
    once = compare(subjects, Plan(calls=1, rounds=3, wait_inside=True)).microseconds[1]
    calls = max(1, round(MICROSECONDS_PER_BLOCK / once))
    found = compare(subjects, Plan(calls=calls, rounds=rounds, wait_inside=True))
    batch, heads, positions, width, causal = size
    wanted = (batch, heads, positions, positions, width, causal, backward, True)
    results = zip(there(), here(), strict=True)
    return Attention(
        size,
        backward,
        found.microseconds[1],
        found.microseconds[0],
        found.ratios[0].median,
        wanted in tb_ops._testing.tried_attention(),
        all(torch.equal(one.cpu(), other) for one, other in results),
    )


def table(found: Sequence[Attention]) -> str:
    """The results as a Markdown table."""
    lines = [
        "| batch x heads x positions x size | | | stock cpu, us | tb, us | ratio | own | equal |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for a in found:
        lines.append(
            f"| {' x '.join(map(str, a.size[:4]))} | {'causal' if a.size[4] else ''} | "
            f"{'backward' if a.backward else 'forward'} | {a.stock:.0f} | {a.tb:.0f} | {a.ratio:.2f} | "
            f"{'yes' if a.own else 'no'} | {'yes' if a.equal else 'no'} |"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.operators.attention", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the smallest size and one round: does everything run?")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    shown, rounds = (1, 1) if asked.quick else (None, 15)
    print(table([measured(size, backward, rounds) for size in SIZES[:shown] for backward in (False, True)]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
