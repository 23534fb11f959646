"""A million random operations against a map of what is allocated; `nox -s soak-allocator` does a hundred million."""

from __future__ import annotations

import pytest
from tb_allocator import _core


@pytest.mark.parametrize("seed", range(4))
def test_every_promise_holds_over_random_operations(seed: int) -> None:
    seen = _core._exercise(250_000, seed)
    # All paths were taken: memory ran out, pages moved, streams waited for one another, blocks shared pages.
    assert seen["allocations"] > 90_000
    assert min(seen["out_of_memory"], seen["waits"], seen["spliced"]) > 10
    assert seen["pages_mapped"] > 1000


@pytest.mark.parametrize("seed", range(2))
def test_every_promise_holds_with_threads_that_free_each_others_blocks(seed: int) -> None:
    seen = _core._exercise(250_000, seed, 8)
    assert seen["allocations"] > 90_000
    assert seen["out_of_memory"] > 10
    assert seen["pages_mapped"] > 500
