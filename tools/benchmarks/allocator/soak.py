"""`nox -s soak-allocator`: many random operations against a map of what is allocated, seed after seed."""

from __future__ import annotations

import argparse
from collections import Counter

from tb_allocator import _core

EACH = 1_000_000  # operations of one allocator


def main() -> None:
    """Run; RuntimeError names the promise that was broken, the seed is that of the last line."""
    parser = argparse.ArgumentParser(prog="nox -s soak-allocator --", description=__doc__)
    parser.add_argument("operations", nargs="?", type=int, default=100_000_000)
    operations = parser.parse_args().operations
    total: Counter[str] = Counter()
    for seed in range(-(-operations // EACH)):
        if seed % 10 == 0:
            print(f"seed {seed}", flush=True)
        total.update(_core._exercise(EACH, seed))
    print(f"{-(-operations // EACH) * EACH} operations held every promise:", dict(total))


if __name__ == "__main__":
    main()
