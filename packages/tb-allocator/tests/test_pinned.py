"""The waste of pinned memory and its driver calls, on the traces of the benchmark."""

from __future__ import annotations

import pytest
from conftest import Python
from tb_allocator import replay, traces


def measured(name: str, seed: int, settings: str = "") -> tuple[float, float]:
    """The largest waste in three repetitions (reserved bytes to requested bytes), and calls per event of the last."""
    trace = replay.load(f"generate:{name}:{seed}")
    repetitions = replay.replay(trace, settings=settings, pinned=True)["repetitions"]
    assert [one["completed"] for one in repetitions] == [True] * 3
    calls = repetitions[-1]["calls"]
    assert calls["mem_alloc"] == calls["vmm_create"] == 0
    return (
        max(one["peak_reserved"] for one in repetitions) / trace.peak_live,
        (calls["mem_alloc_host"] + calls["mem_free_host"]) / trace.events,
    )


@pytest.mark.parametrize("name", traces.PINNED_NAMES)
@pytest.mark.parametrize("seed", range(3))
def test_pinned_memory_wastes_little(name: str, seed: int) -> None:
    waste, calls = measured(name, seed)
    assert 1 <= waste <= 1.06
    assert calls <= 0.4


@pytest.mark.parametrize("name", traces.PINNED_NAMES)
def test_more_slack_takes_fewer_calls(name: str) -> None:
    waste, calls = measured(name, 0, "pinned_slack:0.5")
    assert 1.06 < waste <= 1.51
    assert calls <= 0.01


def test_a_plan_of_pinned_memory_is_refused() -> None:
    with pytest.raises(ValueError, match="pinned memory has no plans"):
        replay.replay(replay.load("generate:texts"), pinned=True, plan=True)


def test_statistics_of_pinned_memory_count_allocations_and_frees(python: Python) -> None:
    code = """
    import tb_allocator
    MiB = 1 << 20
    for size in (4 * MiB + 1, 6 * MiB, 3 * MiB):
        tb_allocator.pinned(size).free()
    stats = tb_allocator.host_memory_stats()
    print(*(stats[key] for key in ("num_device_alloc", "num_device_free", "reserved_bytes.all.current",
                                   "reserved_bytes.all.peak", "requested_bytes.all.peak")))
    """
    MiB = 1 << 20
    assert list(map(int, python.output(code).split())) == [3, 2, 3 * MiB, 6 * MiB, 6 * MiB]
