"""Snapshots, histories, pools and limits of memory, under the names of torch.cuda."""

import pathlib
import pickle

import pytest
import torch
from conftest import Script

MiB = 1 << 20


def test_nested_statistics_have_the_values_of_the_flat_ones() -> None:
    x = torch.empty(MiB, dtype=torch.uint8, device="tb")
    flat, nested = torch.tb.memory_stats(), torch.tb.memory_stats_as_nested_dict()
    assert nested["allocated_bytes"]["all"]["current"] == flat["allocated_bytes.all.current"] >= MiB
    assert nested["num_ooms"] == flat["num_ooms"]
    flat, nested = torch.tb.host_memory_stats(), torch.tb.host_memory_stats_as_nested_dict()
    assert nested["active_bytes"]["current"] == flat["active_bytes.current"]
    del x


def test_the_memory_in_use_is_what_is_not_free() -> None:
    used = torch.tb.device_memory_used("tb:0")
    assert 0 <= used <= torch.tb.get_device_properties(0).total_memory


def test_the_fraction_is_the_one_that_was_set() -> None:
    assert torch.tb.get_per_process_memory_fraction() == 1
    try:
        torch.tb.set_per_process_memory_fraction(0.5, "tb:0")
        assert torch.tb.get_per_process_memory_fraction(0) == 0.5
        with pytest.raises(ValueError, match="fraction"):
            torch.tb.set_per_process_memory_fraction(2.0)
        assert torch.tb.get_per_process_memory_fraction() == 0.5
    finally:
        torch.tb.set_per_process_memory_fraction(1.0)
    with pytest.raises(RuntimeError):
        torch.tb.get_per_process_memory_fraction(99)


def holds(segments: list[dict[str, object]], address: int) -> bool:
    blocks = [block for segment in segments for block in segment["blocks"]]
    return any(block["address"] == address and block["state"] == "active_allocated" for block in blocks)


def test_a_snapshot_has_the_blocks_of_tensors() -> None:
    x = torch.empty(3 * MiB, dtype=torch.uint8, device="tb")
    address = x.untyped_storage().data_ptr()
    assert holds(torch.tb.memory_snapshot(), address)
    assert holds(torch.tb.memory._snapshot(device=0)["segments"], address)
    del x
    assert not holds(torch.tb.memory_snapshot(), address)


def test_the_history_is_what_was_recorded(tmp_path: pathlib.Path) -> None:
    torch.tb.memory._record_memory_history(max_entries=1000)
    x = torch.empty(3 * MiB, dtype=torch.uint8, device="tb")
    address = x.untyped_storage().data_ptr()
    del x
    file = tmp_path / "snapshot.pickle"
    torch.tb.memory._dump_snapshot(file)
    snapshot = pickle.loads(file.read_bytes())
    actions = [event["action"] for event in snapshot["device_traces"][0] if event.get("addr") == address]
    assert actions[0] == "alloc"
    assert any(action.startswith("free") for action in actions)
    torch.tb.memory._record_memory_history(enabled=None)
    torch.empty(MiB, dtype=torch.uint8, device="tb")
    assert torch.tb.memory._snapshot()["device_traces"][0] == []
    torch.tb.memory._record_memory_history()
    with pytest.raises(ValueError, match="sometimes"):
        torch.tb.memory._record_memory_history("sometimes")


def test_pytorchs_viewer_reads_a_snapshot() -> None:
    from torch.cuda import _memory_viz

    keep = torch.empty(MiB, dtype=torch.uint8, device="tb")
    assert "MiB" in _memory_viz.segsum(torch.tb.memory._snapshot())
    assert "<html>" in _memory_viz.trace_plot(torch.tb.memory._snapshot())
    del keep


def test_snapshots_are_of_all_devices_and_use_none(script: Script) -> None:
    code = """
    import torch
    assert torch.tb.memory_snapshot() == [] and torch.tb.memory._snapshot()["segments"] == []
    assert not torch.tb.is_initialized()
    x, y = torch.ones(3, device="tb:0"), torch.ones(3, device="tb:1")
    assert {segment["device"] for segment in torch.tb.memory_snapshot()} == {0, 1}
    found = torch.tb.memory._snapshot(device="tb:1")
    assert {segment["device"] for segment in found["segments"]} == {1}
    assert [bool(trace) for trace in found["device_traces"]] == [False, True]
    pool = torch.tb.MemPool()
    with torch.tb.use_mem_pool(pool, "tb:1"):
        torch.ones(3, device="tb:0"), (inside := torch.ones(3, device="tb:1"))
    assert {segment["device"] for segment in pool.snapshot()} == {1}
    """
    script(code, TB_CPU_DEVICES="2")


def test_a_pool_has_the_tensors_of_its_blocks_and_no_others() -> None:
    pool, other = torch.tb.MemPool(), torch.tb.MemPool()
    assert pool.id != other.id
    assert pool.use_count() == 1
    outside = torch.ones(1000, device="tb")
    with torch.tb.use_mem_pool(pool):
        inside = torch.ones(1000, device="tb")
        with torch.tb.use_mem_pool(other):
            nested = torch.ones(1000, device="tb")
    after = torch.ones(1000, device="tb")
    for tensor, expected in ((outside, None), (inside, pool), (nested, other), (after, None)):
        address = tensor.untyped_storage().data_ptr()
        assert [one for one in (pool, other) if holds(one.snapshot(), address)] == ([expected] if expected else [])
        assert holds(torch.tb.memory_snapshot(), address) == (expected is None)
    assert torch.tb.memory_snapshot(pool.id) == pool.snapshot()
    assert inside.add(1).sum().item() == 2000


def test_a_tensor_outlives_its_pool() -> None:
    pool = torch.tb.MemPool()
    with torch.tb.use_mem_pool(pool):
        x = torch.arange(5.0, device="tb")
    identity = pool.id
    del pool
    assert x.tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match=r"no torch\.tb\.MemPool"):
        torch.tb.memory_snapshot(identity)


def test_pools_refuse_what_they_cannot_do() -> None:
    with pytest.raises(NotImplementedError, match="allocator"):
        torch.tb.MemPool(allocator=object())
    with pytest.raises(NotImplementedError, match="use_on_oom"):
        torch.tb.MemPool(use_on_oom=True)


def test_the_offset_of_the_generator_is_set_and_the_seed_stays() -> None:
    torch.tb.manual_seed(5)
    torch.rand(10, device="tb")
    offset = torch.tb._get_rng_state_offset()
    expected = torch.rand(10, device="tb")
    assert torch.tb._get_rng_state_offset("tb:0") > offset > 0
    torch.tb._set_rng_state_offset(offset)
    assert torch.equal(torch.rand(10, device="tb"), expected)
    assert torch.tb.initial_seed() == 5


def test_a_native_stream_is_found_again() -> None:
    import tb_device
    import tb_stream

    side = torch.tb.Stream()
    with side:
        native = tb_stream.current_stream().native
    assert torch.tb.get_stream_from_external(native) == side
    native = tb_stream.default_stream(0).native
    assert torch.tb.get_stream_from_external(native, "tb:0") == torch.tb.default_stream()
    with pytest.raises(tb_device.NotFoundError, match="no live stream"):
        torch.tb.get_stream_from_external(1 << 40)


def test_every_event_and_block_of_a_history_has_the_line_of_its_call() -> None:
    torch.tb.memory._record_memory_history()
    try:
        x = torch.empty(3 * MiB, dtype=torch.uint8, device="tb")
        address = x.untyped_storage().data_ptr()
        block = next(b for s in torch.tb.memory_snapshot() for b in s["blocks"] if b["address"] == address)
        del x
        events = torch.tb.memory._snapshot(device=0)["device_traces"][0]
    finally:
        torch.tb.memory._record_memory_history(None)
    assert block["frames"][0]["name"] == test_every_event_and_block_of_a_history_has_the_line_of_its_call.__name__
    assert block["frames"][0]["filename"] == __file__
    assert {"alloc", "free_requested", "free_completed"} <= {event["action"] for event in events}
    assert all(event["frames"][0]["filename"] == __file__ for event in events), events
    first = events[0]["frames"][0]["line"]
    freed = next(event for event in events if event["action"] == "free_completed" and event["addr"] == address)
    assert freed["frames"][0]["line"] == first + 3


@pytest.mark.parametrize(("context", "kept"), [(None, set()), ("alloc", {"alloc"}), ("state", {"alloc"})])
def test_the_context_says_which_events_have_stacks(context: str | None, kept: set[str]) -> None:
    torch.tb.memory._record_memory_history(context=context, stacks="python")
    try:
        x = torch.empty(MiB + 1, dtype=torch.uint8, device="tb")
        del x
        events = torch.tb.memory._snapshot()["device_traces"][0]
    finally:
        torch.tb.memory._record_memory_history(None)
    assert {event["action"] for event in events if event["frames"]} - {"segment_alloc", "segment_map"} == kept
    with pytest.raises(ValueError, match="context"):
        torch.tb.memory._record_memory_history(context="some")
    with pytest.raises(ValueError, match="stacks"):
        torch.tb.memory._record_memory_history(stacks="c")


LIMITED = """
    import gc, torch
    MiB = 1 << 20
    torch.tb.set_per_process_memory_fraction(64 * MiB / torch.tb.mem_get_info()[1])
    def most(make):
        kept = []
        try:
            for _ in range(40):
                kept.append(make())
        except torch.OutOfMemoryError:
            pass
        return kept
    x = torch.empty(4 * MiB, dtype=torch.uint8, device="tb")
    y = x + 1
    del y
"""


@pytest.mark.parametrize(
    "use",
    [
        """
    pool = torch.tb.MemPool()
    with torch.tb.use_mem_pool(pool):
        kept = most(lambda: torch.empty(8 * MiB, dtype=torch.uint8, device="tb"))
    """,
        """
    graph = torch.tb.Graph()
    kept = []
    try:
        with torch.tb.graph(graph):
            for _ in range(40):
                kept.append(x + 1)
    except torch.OutOfMemoryError:
        pass
    """,
        """
    pool = torch.tb.MemPool()
    with torch.tb.use_mem_pool(pool):
        kept = most(lambda: torch.empty(16 * MiB, dtype=torch.uint8, device="tb"))
    kept += most(lambda: torch.empty(4 * MiB, dtype=torch.uint8, device="tb"))
    """,
    ],
    ids=["a pool", "a graph", "a pool and plain tensors"],
)
def test_the_limit_and_the_statistics_cover(script: Script, use: str) -> None:
    check = """
    live = x.nbytes + sum(each.nbytes for each in kept)
    assert 32 * MiB <= live <= 64 * MiB, live
    assert live <= torch.tb.memory_allocated() <= torch.tb.memory_reserved() <= 64 * MiB, torch.tb.memory_summary()
    """
    script(LIMITED + use + check)


def test_what_a_pool_has_cached_is_no_obstacle(script: Script) -> None:
    code = """
    pool = torch.tb.MemPool()
    with torch.tb.use_mem_pool(pool):
        kept = most(lambda: torch.empty(8 * MiB, dtype=torch.uint8, device="tb"))
    torch.tb.synchronize()
    del kept
    z = torch.empty(24 * MiB, dtype=torch.uint8, device="tb")
    with torch.tb.use_mem_pool(pool):
        w = torch.empty(8 * MiB, dtype=torch.uint8, device="tb")
    assert torch.tb.memory_reserved() <= 64 * MiB
    """
    script(LIMITED + code)
