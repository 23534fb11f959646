"""A million random operations against a map of what is allocated; `nox -s check-allocator` does a hundred million."""

from __future__ import annotations

import json
import subprocess

import pytest
from building import native_tests


def exercise(*arguments: int) -> dict[str, int]:
    """Runs tests/cpp/exercise and returns its counts. It fails with the promise that was broken."""
    program = native_tests.build("tb-allocator", "exercise")
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    counts: dict[str, int] = json.loads(done.stdout)
    return counts


@pytest.mark.parametrize("seed", range(4))
def test_every_promise_holds_over_random_operations(seed: int) -> None:
    counts = exercise(250_000, seed)
    # All cases occurred: memory ran out, pages were remapped, streams waited for each other, blocks shared pages.
    assert counts["allocations"] > 90_000
    assert min(counts["out_of_memory"], counts["waits"], counts["remapped"]) > 10
    assert counts["pages_mapped"] > 1000


@pytest.mark.parametrize("seed", range(2))
def test_every_promise_holds_with_threads_that_free_each_others_blocks(seed: int) -> None:
    counts = exercise(250_000, seed, 8)
    assert counts["allocations"] > 90_000
    assert counts["out_of_memory"] > 10
    assert counts["pages_mapped"] > 500
