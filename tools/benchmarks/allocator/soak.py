"""`nox -s check-allocator`: many random operations against a map of what is allocated, seed after seed."""

from __future__ import annotations

import argparse
import json
import subprocess
from collections import Counter

from building import native_tests

EACH = 1_000_000  # operations of one allocator


def main() -> None:
    """Runs the program seed after seed. If it fails, it names the broken promise, and the last line has the seed."""
    parser = argparse.ArgumentParser(prog="nox -s check-allocator --", description=__doc__)
    parser.add_argument("operations", nargs="?", type=int, default=100_000_000)
    operations = parser.parse_args().operations
    program = native_tests.build("tb-allocator", "exercise")
    total: Counter[str] = Counter()
    for seed in range(-(-operations // EACH)):
        if seed % 10 == 0:
            print(f"seed {seed}", flush=True)
        done = subprocess.run([program, str(EACH), str(seed)], stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"seed {seed} failed with status {done.returncode}")
        total.update(json.loads(done.stdout))
    print(f"{-(-operations // EACH) * EACH} operations held every promise:", dict(total))


if __name__ == "__main__":
    main()
