"""Plans from Python: a repeated step gets its planned places, a changed one does not, and statistics count them."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Sequence

import pytest
import tb_allocator
import tb_device
from conftest import Python
from tb_allocator import Arena, _core, replay, traces

MiB = 1 << 20


def step(arena: Arena, sizes: Sequence[int] = (3 * MiB, MiB, 1000)) -> list[int]:
    """Allocates and frees; returns the addresses."""
    first = arena.empty(sizes[0])
    second = arena.empty(sizes[1])
    addresses = [first.ptr, second.ptr]
    first.free()
    with arena.empty(sizes[2]) as third:
        addresses.append(third.ptr)
        third.copy_from(bytes(sizes[2]))
        assert third.tobytes() == bytes(sizes[2])
    second.free()
    return addresses


def test_a_step_gets_the_same_addresses_each_time_and_no_new_memory() -> None:
    arena = Arena()
    plan = arena.plan("step", warmup=2)
    states, addresses, reserved = [], [], []
    for _ in range(5):
        with plan as same:
            assert same is plan
            addresses.append(step(arena))
            reserved.append(arena.memory_stats()["num_device_alloc"])
        states.append(plan.state)
    assert states == ["recording", "ready", "replaying", "replaying", "replaying"]
    assert addresses[2] == addresses[3] == addresses[4]
    assert reserved[2] == reserved[4]
    figures = plan.statistics()
    assert (figures["steps"], figures["replays"], figures["divergences"], figures["hits"]) == (5, 3, 0, 9)
    assert (figures["allocations"], figures["placed"], figures["handovers"]) == (3, 3, 0)
    assert figures["peak_bytes"] == 4 * MiB == figures["reserved_bytes"]
    assert figures["utilisation"] == 1
    assert arena.plan("step").statistics() == figures
    plan.reset()
    assert plan.state == "recording"
    arena.trim()
    assert arena.memory_stats()["reserved_bytes.all.current"] == 0


def test_inside_a_step_all_memory_of_the_thread_comes_from_the_arena() -> None:
    arena = Arena()
    before = tb_allocator.memory_stats()["num_device_alloc"]
    with arena.plan("step"), tb_allocator.empty(MiB):
        assert arena.memory_stats()["allocated_bytes.all.current"] == MiB
    made = tb_allocator.memory_stats()["num_device_alloc"] - before
    assert made == arena.memory_stats()["num_device_alloc"]


def test_a_changed_step_falls_back_and_a_lasting_change_is_planned_again() -> None:
    arena = Arena()
    plan = arena.plan("step", warmup=1)

    def turn(*sizes: int) -> str:
        with plan:
            step(arena, sizes)
        return plan.state

    usual, other = (3 * MiB, MiB, 1000), (3 * MiB, 2 * MiB, 1000)
    assert [turn(*usual), turn(*usual)] == ["ready", "replaying"]
    assert [turn(*other), turn(*usual)] == ["diverged", "replaying"]
    assert [turn(*other) for _ in range(4)] == ["diverged", "recording", "ready", "replaying"]
    assert plan.statistics()["divergences"] == 3
    with plan:  # only a part of the step
        arena.empty(3 * MiB).free()
    assert plan.state == "diverged"


def test_a_step_that_raises_is_not_planned() -> None:
    arena = Arena()
    plan = arena.plan("step", warmup=1)
    with pytest.raises(RuntimeError, match="in the step"), plan:
        raise RuntimeError("in the step")
    assert plan.state == "recording"
    with plan:
        step(arena)
    assert plan.state == "ready"


def test_snapshot_history_and_statistics_include_the_blocks_of_a_plan() -> None:
    arena = Arena()
    plan = arena.plan("step", warmup=1)
    for _ in range(2):
        with plan:
            step(arena)
    with plan:
        buffer = arena.empty(3 * MiB)
        stats = arena.memory_stats()
        assert stats["allocated_bytes.all.current"] == stats["active_bytes.all.current"] == 3 * MiB
        assert stats["allocated_bytes.all.peak"] == 4 * MiB
        snapshot = pickle.loads(arena._snapshot())
        blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
        [live] = [block for block in blocks if block["state"] == "active_allocated"]
        assert (live["address"], live["size"]) == (buffer.ptr, 3 * MiB)
        events = [event for event in snapshot["device_traces"][0] if event.get("addr") == buffer.ptr]
        assert events[-1]["action"] == "alloc"
        buffer.free()
    assert arena.memory_stats()["allocated_bytes.all.current"] == 0


def test_a_paused_arena_keeps_the_contents_of_a_plan() -> None:
    arena = Arena()
    plan = arena.plan("step", warmup=1)
    for _ in range(2):
        with plan:
            step(arena)
    with plan:
        first = arena.empty(3 * MiB)
        first.copy_from(bytes(range(256)) * (3 * MiB // 256))
        arena.pause()
        with pytest.raises(tb_device.FailedPreconditionError, match="call resume"):
            arena.empty(MiB)
        arena.resume()
        assert first.tobytes() == bytes(range(256)) * (3 * MiB // 256)
        first.free()


def test_plans_of_the_device_include_allocations_of_other_threads() -> None:
    plan = tb_allocator.plan("step", warmup=1)

    def work() -> None:
        tb_allocator.empty(2 * MiB).free()

    for _ in range(3):
        with plan, tb_allocator.empty(MiB):
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
    figures = plan.statistics()
    assert (figures["replays"], figures["hits"], figures["allocations"]) == (2, 4, 2)
    plan.reset()


def test_what_cannot_be_is_refused() -> None:
    arena = Arena()
    with pytest.raises(ValueError, match="from 1 to 1000"):
        arena.plan("step", warmup=0)
    plan = arena.plan("step")
    with plan:
        with pytest.raises(tb_device.FailedPreconditionError, match='the step "step" has not ended'), arena.plan("b"):
            pass
        with pytest.raises(tb_device.FailedPreconditionError, match="between steps"):
            plan.reset()


def test_memory_of_a_plan_is_freed_when_memory_runs_out(python: Python) -> None:
    code = """
    import tb_allocator
    plan = tb_allocator.plan("step", warmup=1)
    for _ in range(2):
        with plan:
            tb_allocator.empty(40 << 20).free()
    print(plan.state)
    with tb_allocator.empty(50 << 20):
        print(plan.state)
    for _ in range(2):
        with plan:
            tb_allocator.empty(40 << 20).free()
    print(plan.state)
    """
    assert python.output(code, TB_CPU_MEMORY="64M").split() == ["replaying", "diverged", "replaying"]


@pytest.mark.parametrize("name", [*traces.NAMES, "frames:1", "frames:8", "pipeline:2"])
def test_generated_traces_replay_from_their_places(name: str) -> None:
    trace = replay.load(f"generate:{name}")
    result = replay.replay(trace, settings="expandable_segments:True", plan=True)
    third = result["repetitions"][2]
    assert trace.peak_live / third["peak_reserved"] >= 0.985
    moving = {
        call: count for call, count in third["calls"].items() if count and call not in ("event_record", "stream_wait")
    }
    assert moving == {}
    assert result["plan"]["replays"] == 2
    assert result["plan"]["hits"] == 2 * result["plan"]["allocations"]
    if trace.streams == 1:
        assert sum(third["calls"].values()) == 0


def two_streams(bytes_of_the_second: int, *, used_by_the_first: bool = False) -> str:
    """A trace whose second stream has its peak while the first one uses 160 MiB, less than its own peak of 200 MiB."""
    lines, block = [], 0
    for _ in range(20):
        first = range(block, block + 40)
        second = range(block + 40, block + 60)
        block += 60
        lines += [f"a {one} {5 << 20} 0" for one in first] + [f"f {one}" for one in first[:8]]
        lines += [f"a {one} {bytes_of_the_second // 20} 1" for one in second]
        if used_by_the_first:
            lines += [f"r {one} 0" for one in second]
        lines += [f"f {one}" for one in (*first[8:], *second)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("nbytes", "used_by_the_first", "calls"),
    [(15 << 17, False, (0, 0)), (3 << 20, False, (1, 500)), (15 << 17, True, (1, 1000))],
    ids=["room for both", "hardly room", "used by both"],
)
def test_streams_call_the_driver_only_where_they_have_to_share(
    nbytes: int, used_by_the_first: bool, calls: tuple[int, int]
) -> None:
    trace = _core._Trace(two_streams(nbytes, used_by_the_first=used_by_the_first).encode())
    result = replay.replay(trace, settings="expandable_segments:True", plan=True)
    third = result["repetitions"][2]
    assert result["plan"]["replays"] == 2
    assert result["plan"]["utilisation"] >= 0.985
    assert calls[0] <= sum(third["calls"].values()) <= calls[1]
