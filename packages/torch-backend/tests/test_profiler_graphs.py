"""torch.profiler over graphs, and beside tb_stream.trace."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import tb_stream
import torch
from profiles import WORK, annotations, device_rows, names, of_category, operator_of, profiled, rows_of, trace_of

tb: Any = torch.tb  # type: ignore[attr-defined]
INNER = ["aten::mul", "aten::add"]


def captured(x: torch.Tensor) -> tuple[Any, torch.Tensor]:
    """A graph of two operators, and their result."""
    (x * 2) + 1  # an operator's first call is no part of a capture
    graph = tb.Graph()
    with tb.graph(graph):
        out = x * 2
        out = out + 1
    return graph, out


def test_a_replay_has_the_rows_of_its_operators() -> None:
    x = torch.ones(1000, device="tb")
    graph, _ = captured(x)
    graph.replay()
    with profiled() as made:
        for _ in range(3):
            graph.replay()
    assert names(made) == INNER * 3
    launches = [row for row in annotations(made) if row.name == "graph_launch"]
    assert len(launches) == 3
    for launch, row in zip(launches, device_rows(made)[::2], strict=True):
        assert launch.time_range.start <= row.time_range.start <= row.time_range.end <= launch.time_range.end


def test_the_work_of_a_replay_is_linked_to_its_launch(tmp_path: Path) -> None:
    x = torch.ones(1000, device="tb")
    graph, _ = captured(x)
    with profiled() as made:
        graph.replay()
        graph.replay()
    rows = rows_of(trace_of(made, tmp_path))
    launches = [
        row["args"]["correlation"]
        for row in of_category(rows, "privateuse1_runtime")
        if row["name"] == "tb_graph_launch"
    ]
    assert [row["args"]["correlation"] for row in of_category(rows, *WORK)] == [launches[0]] * 2 + [launches[1]] * 2


def test_a_capture_within_a_profile_has_no_rows_and_replays_right_after_it() -> None:
    x = torch.ones(1000, device="tb")
    with profiled() as made:
        graph, out = captured(x)
    assert names(made) == INNER  # of the calls before the capture
    with profiled() as other:
        for _ in range(100):
            x.add_(0)
    del made, other
    x.fill_(5)
    graph.replay()
    assert out.tolist() == [11.0] * 1000
    with profiled() as later:
        graph.replay()
    assert names(later) == INNER


def test_a_graph_within_a_profile_has_rows_at_its_replays() -> None:
    x = torch.ones(1000, device="tb")
    with profiled() as made:
        graph, out = captured(x)
        graph.replay()
        graph.replay()
    assert names(made) == INNER * 3
    assert out.tolist() == [3.0] * 1000


def runs_in(file: Path) -> list[str]:
    events = json.loads(file.read_text())["traceEvents"]
    return [operator_of(event["name"]) for event in events if event.get("cat") == "run"]


def test_a_timeline_within_a_profile_and_around_one(tmp_path: Path) -> None:
    x = torch.ones(1000, device="tb")
    with profiled() as outer:
        x.add_(1)
        with tb_stream.trace(tmp_path / "inner.json"):
            x.mul_(2)
    assert names(outer) == ["aten::add_", "aten::mul_"]
    assert runs_in(tmp_path / "inner.json") == ["aten::mul_"]
    with tb_stream.trace(tmp_path / "outer.json"):
        x.add_(1)
        with profiled() as inner:
            x.mul_(2)
    assert names(inner) == ["aten::mul_"]
    runs = [name for name in runs_in(tmp_path / "outer.json") if name in {"aten::add_", "aten::mul_"}]
    assert runs == ["aten::add_", "aten::mul_"]


def test_a_timeline_that_crosses_a_profile(tmp_path: Path) -> None:
    x = torch.ones(1000, device="tb")
    for first, second in (("timeline", "profile"), ("profile", "timeline")):
        file = tmp_path / f"{first}.json"
        parts = {"timeline": tb_stream.trace(file), "profile": profiled()}
        made: dict[str, Any] = {first: parts[first].__enter__()}
        x.add_(1)
        made[second] = parts[second].__enter__()
        x.mul_(2)
        parts[first].__exit__(None, None, None)
        x.sub_(1)
        parts[second].__exit__(None, None, None)
        expected = {first: ["aten::add_", "aten::mul_"], second: ["aten::mul_", "aten::sub_"]}
        ours = [name for name in names(made["profile"]) if name.endswith("_")]
        assert ours == expected["profile"]
        assert [name for name in runs_in(file) if name in {"aten::add_", "aten::mul_", "aten::sub_"}] == expected[
            "timeline"
        ]
    assert x.tolist() == [((1 + 1) * 2 - 1 + 1) * 2 - 1.0] * 1000
