"""The trace that torch.profiler exports: rows, arrows, tracks, memory."""

from __future__ import annotations

import gzip
import itertools
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from profiles import WORK, Row, of_category, profiled, rows_of, trace_of
from torch import nn
from torch.profiler import profile, record_function

tb: Any = torch.tb  # type: ignore[attr-defined]
ROUNDING = 0.002  # microseconds: the trace has three digits


@pytest.fixture(scope="module")
def made() -> profile:
    """Three steps of a small model, with work on a second stream."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 8)).to("tb")
    optimizer = torch.optim.AdamW(model.parameters())
    x, y, side = torch.randn(32, 64), torch.randint(0, 8, (32,), device="tb"), tb.Stream()

    def step() -> None:
        with record_function("forward"):
            loss = nn.functional.cross_entropy(model(x.to("tb")), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with tb.stream(side):
            torch.ones(1000, device="tb").mul_(2)
        side.synchronize()

    step()
    with profiled(record_shapes=True, profile_memory=True, with_stack=True) as out:
        for _ in range(3):
            step()
    return out


@pytest.fixture(scope="module")
def trace(made: profile, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The exported file. A profile can be exported once."""
    return trace_of(made, tmp_path_factory.mktemp("trace"))


@pytest.fixture(scope="module")
def rows(trace: dict[str, Any]) -> list[Row]:
    return rows_of(trace)


def test_each_work_has_its_launch_and_its_operator(rows: list[Row]) -> None:
    launches = {row["args"]["correlation"]: row for row in of_category(rows, "privateuse1_runtime")}
    operators = {row["args"]["External id"] for row in of_category(rows, "cpu_op")}
    work = of_category(rows, *WORK)
    assert len(work) > 60
    assert {row["name"] for row in work if row["args"]["correlation"] not in launches} == set()
    assert {row["name"] for row in work if row["args"].get("External id") not in operators} == set()


def test_no_work_begins_before_its_launch(rows: list[Row]) -> None:
    launches = {row["args"]["correlation"]: row["ts"] for row in of_category(rows, "privateuse1_runtime")}
    work = of_category(rows, *WORK)
    assert [row["name"] for row in work if row["ts"] + ROUNDING < launches[row["args"]["correlation"]]] == []


def test_each_launch_is_within_its_operator(rows: list[Row]) -> None:
    """The recorder's clock is that of PyTorch's rows, to a few microseconds."""
    operators = {row["args"]["External id"]: row for row in of_category(rows, "cpu_op")}
    off = []
    for launch in of_category(rows, "privateuse1_runtime"):
        operator = operators.get(launch["args"].get("External id"))
        if operator:
            off.append(
                max(operator["ts"] - launch["ts"], launch["ts"] + launch["dur"] - operator["ts"] - operator["dur"])
            )
    assert len(off) > 60
    assert max(off) < 20


def test_work_of_a_stream_does_not_overlap(rows: list[Row]) -> None:
    work = of_category(rows, *WORK)
    streams = {row["tid"] for row in work}
    assert len(streams) == 2
    for stream in streams:
        mine = sorted((row for row in work if row["tid"] == stream), key=lambda row: row["ts"])
        assert all(a["ts"] + a["dur"] <= b["ts"] + ROUNDING for a, b in itertools.pairwise(mine))


def test_arrows_lead_from_each_launch_to_its_work(rows: list[Row]) -> None:
    starts = {row["id"]: row for row in rows if row["ph"] == "s" and row["cat"] == "ac2g"}
    ends = {row["id"]: row for row in rows if row["ph"] == "f" and row["cat"] == "ac2g"}
    correlations = {row["args"]["correlation"] for row in of_category(rows, *WORK)}
    assert correlations == set(ends)
    assert set(ends) <= set(starts)
    assert all(ends[number]["ts"] + ROUNDING >= starts[number]["ts"] for number in ends)


def test_devices_and_streams_have_their_names(rows: list[Row]) -> None:
    tracks = {(row["pid"], row["tid"]): row["args"]["name"] for row in rows if row["name"] == "thread_name"}
    used = {(row["pid"], row["tid"]) for row in of_category(rows, *WORK)}
    assert {tracks[place].strip() for place in used} == {"stream 0 (default)", "stream 1"}
    labels = {row["args"]["labels"] for row in rows if row["name"] == "process_labels" and row["pid"] == 0}
    assert "tb 0" in labels
    assert any(row["args"]["name"] == tb.get_device_name() for row in rows if row["name"] == "process_name")


def test_rows_say_device_stream_and_time_in_the_queue(rows: list[Row]) -> None:
    for row in of_category(rows, *WORK):
        assert row["args"]["device"] == 0
        assert row["args"]["stream"] == row["tid"]
        assert row["args"]["queued us"] >= -1


def test_device_properties_are_those_of_the_device(trace: dict[str, Any]) -> None:
    (device,) = trace["deviceProperties"]
    assert (device["id"], device["name"]) == (0, tb.get_device_name())
    assert device["totalGlobalMem"] == tb.get_device_properties().total_memory


def test_stacks_and_ranges_are_in_the_trace(rows: list[Row]) -> None:
    assert of_category(rows, "python_function")
    ranges = Counter((row["name"], row["tid"]) for row in of_category(rows, "gpu_user_annotation"))
    assert ranges["forward", 0] == 3


def test_memory_events_are_the_allocations(tmp_path: Path) -> None:
    before = tb.memory_allocated()
    with profiled(profile_memory=True) as out:
        x = torch.empty(300000, device="tb")
        del x
    events = [
        row
        for row in rows_of(trace_of(out, tmp_path))
        if row["name"] == "[memory]" and row["args"]["Device Type"] == 20
    ]
    allocated, freed = (row["args"] for row in events)
    assert allocated["Bytes"] == -freed["Bytes"] >= 1200000
    assert allocated["Addr"] == freed["Addr"]
    assert allocated["Total Allocated"] == before + allocated["Bytes"]
    assert freed["Total Allocated"] == before
    assert allocated["Total Reserved"] >= allocated["Total Allocated"]
    (row,) = [row for row in out.key_averages() if row.key == "aten::empty"]
    assert row.self_device_memory_usage == allocated["Bytes"]


def test_a_profile_without_profile_memory_has_no_memory_events(tmp_path: Path) -> None:
    with profiled() as out:
        torch.empty(300000, device="tb")
    assert [row for row in rows_of(trace_of(out, tmp_path)) if row["name"] == "[memory]"] == []


def test_a_memory_timeline_can_be_written(made: profile, tmp_path: Path) -> None:
    made.export_memory_timeline(str(tmp_path / "raw.json.gz"), device="tb:0")
    with gzip.open(tmp_path / "raw.json.gz") as file:
        events = json.load(file)
    assert len(events) > 100
    sizes = [size for _, action, size, _ in events if action in {0, 1}]  # what is there before, and what is made
    assert max(sizes) >= 64 * 128 * 4  # a parameter


def test_a_collective_has_a_row_from_its_start_to_its_end(tmp_path: Path) -> None:
    dist.init_process_group(init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        x = torch.ones(4, device="tb")
        with profiled() as out:
            dist.all_reduce(x)
            torch.tb.synchronize()
    finally:
        dist.destroy_process_group()
    rows = rows_of(trace_of(out, tmp_path))
    (row,) = [row for row in of_category(rows, "kernel") if "Collective name" in row["args"]]
    assert (row["name"], row["args"]["Collective name"]) == ("c10d::allreduce_ (tb)", "allreduce_")
    (operator,) = [row for row in of_category(rows, "cpu_op") if row["name"] == "c10d::allreduce_"]
    assert row["args"]["External id"] == operator["args"]["External id"]
    assert row["ts"] >= operator["ts"]
