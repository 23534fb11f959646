"""torch.profiler on tb: what ran, for whom, and how long."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import Script
from profiles import BOTH, annotations, device_rows, names, operator_of, profiled
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule, tensorboard_trace_handler
from torch_backend._testing import held

tb: Any = torch.tb  # type: ignore[attr-defined]


def averages(made: profile) -> dict[str, Any]:
    return {row.key: row for row in made.key_averages()}


def test_tb_is_an_activity_of_the_profiler() -> None:
    assert ProfilerActivity.PrivateUse1 in torch.profiler.supported_activities()


def test_each_operation_has_a_row_under_the_name_of_its_operator() -> None:
    x = torch.ones(1000, device="tb")
    with profiled() as made:
        (x * 2).add_(1).sum()
    assert next(row.name for row in device_rows(made)) == "aten::mul.Tensor (tb)"
    assert names(made) == ["aten::mul", "aten::add_", "aten::sum"]


def test_each_row_is_linked_to_the_operator_that_queued_it() -> None:
    x = torch.ones(1000, device="tb")
    with profiled() as made:
        (x * 2).add_(1)
    operators = {event.id: event.name for event in made.events() or () if event.name.startswith("aten::")}
    linked = [operators[row.linked_correlation_id] for row in device_rows(made)]
    assert linked == ["aten::mul", "aten::add_"]


def test_the_times_of_the_rows_are_the_operators_device_times() -> None:
    x = torch.ones(100000, device="tb")
    with profiled() as made:
        for _ in range(5):
            x.mul_(1.5)
    row = averages(made)["aten::mul_"]
    times = [row.time_range.elapsed_us() for row in device_rows(made)]
    assert row.count == len(times) == 5
    assert row.self_device_time_total == pytest.approx(sum(times))
    assert min(times) > 0
    assert "Self TB" in made.key_averages().table()


def test_no_self_time_is_negative() -> None:
    model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4)).to("tb")
    x = torch.randn(16, 32, device="tb")
    with profiled() as made:
        for _ in range(3):
            model(x).square().mean().backward()
            tb.synchronize()
    rows = averages(made).values()
    assert {row.key for row in rows if row.self_device_time_total < 0} == set()
    total = sum(row.self_device_time_total for row in rows if row.device_type == torch.autograd.DeviceType.CPU)
    assert total == pytest.approx(sum(row.time_range.elapsed_us() for row in device_rows(made)))


def test_copies_between_memories_say_direction_and_size(script: Script) -> None:
    """On a driver with memory of its own; where the host reaches the memory, the calling thread copies."""
    done = script(
        """
    import json, torch
    from torch.profiler import ProfilerActivity, profile
    host, x = torch.ones(3000), torch.ones(3000, device="tb")
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as made:
        x.copy_(host)
        x.cpu()
    made.export_chrome_trace("trace.json")
    with open("trace.json") as file:
        rows = [row for row in json.load(file)["traceEvents"] if row.get("cat") == "gpu_memcpy"]
    print([(row["name"], row["args"]["bytes"]) for row in rows])
    """,
        TB_DRIVER="sim",
    )
    assert done.stdout.strip() == "[('Memcpy HtoD', 12000), ('Memcpy DtoH', 12000)]"


def test_waits_of_the_host_have_rows_and_wait_for_the_work() -> None:
    x = torch.ones(10, device="tb")
    x.add_(1)
    with profiled() as made, held() as gate:
        x.add_(1)
        gate.open_once_this_thread_waits()
        tb.current_stream().synchronize()
    (row,) = device_rows(made)[-1:]
    waits = [event for event in made.events() or () if event.name == "tb_stream_synchronize"]
    assert any(
        wait.time_range.start <= row.time_range.start and wait.time_range.end >= row.time_range.end for wait in waits
    )


def test_a_wait_of_a_stream_is_no_work() -> None:
    x, side = torch.ones(10, device="tb"), tb.Stream()
    with profiled() as made, held() as gate:
        side.wait_stream(tb.current_stream())
        with tb.stream(side):
            x.add_(1)
        gate.open()
        tb.synchronize()
    (wait,) = [row for row in annotations(made) if row.name == "stream_wait_event"]
    (work,) = [row for row in device_rows(made) if operator_of(row.name) == "aten::add_"]
    assert wait.time_range.end <= work.time_range.start
    assert wait.device_resource_id == work.device_resource_id
    assert "stream_wait_event" not in averages(made) or averages(made)["stream_wait_event"].is_user_annotation


def test_each_stream_has_its_number() -> None:
    x, side = torch.ones(10, device="tb"), tb.Stream()
    with profiled() as made:
        x.add_(1)
        tb.synchronize()
        with tb.stream(side):
            x.mul_(2)
        tb.synchronize()
    assert [(operator_of(row.name), row.device_resource_id) for row in device_rows(made)] == [
        ("aten::add_", 0),
        ("aten::mul_", 1),
    ]


def test_nested_ranges_have_a_row_each_around_their_work() -> None:
    x = torch.ones(1000, device="tb")
    with profiled() as made:
        x.add_(1)
        with record_function("outer"):
            x.add_(2)
            with record_function("inner"):
                x.mul_(2)
            x.add_(3)
    ranges = {row.name: row.time_range for row in annotations(made)}
    assert set(ranges) == {"outer", "inner"}
    times = [row.time_range for row in device_rows(made)]
    assert (ranges["outer"].start, ranges["outer"].end) == (times[1].start, times[3].end)
    assert (ranges["inner"].start, ranges["inner"].end) == (times[2].start, times[2].end)


def test_work_of_threads_without_a_profiler_has_rows_without_an_operator() -> None:
    x = torch.ones(10, device="tb")
    with profiled() as made:
        thread = threading.Thread(target=lambda: x.add_(1))
        thread.start()
        thread.join()
    (row,) = device_rows(made)
    assert (operator_of(row.name), row.linked_correlation_id) == ("aten::add_", 0)


def test_a_profile_has_only_its_own_work() -> None:
    x = torch.ones(10, device="tb")
    with profiled() as first:
        x.add_(1)
    x.mul_(2)
    with profiled() as second:
        x.sub_(1)
    assert (names(first), names(second)) == (["aten::add_"], ["aten::sub_"])


def test_the_device_alone_and_the_host_alone() -> None:
    x = torch.ones(10, device="tb")
    with profile(activities=[ProfilerActivity.PrivateUse1]) as device:
        x.add_(1)
    assert names(device) == ["aten::add_"]
    with profile(activities=[ProfilerActivity.CPU]) as host:
        x.add_(1)
    assert names(host) == []
    assert "aten::add_" in averages(host)


def test_shapes_and_stacks_are_recorded() -> None:
    x = torch.ones(3, 5, device="tb")
    verbose = torch._C._profiler._ExperimentalConfig(verbose=True)  # keeps the stack of each event
    with profiled(record_shapes=True, with_stack=True, experimental_config=verbose) as made:
        x + x
    (event,) = [event for event in made.events() or () if event.name == "aten::add"]
    assert event.input_shapes[:2] == [[3, 5], [3, 5]]
    assert any("test_shapes_and_stacks_are_recorded" in frame for frame in event.stack)
    (row,) = [row for row in made.key_averages(group_by_input_shape=True) if row.key == "aten::add"]
    assert row.device_time_total > 0


def test_a_schedule_gives_a_file_a_cycle_with_the_active_steps_only(tmp_path: Path) -> None:
    x = torch.ones(10, device="tb")
    with profiled(
        schedule=schedule(wait=1, warmup=1, active=2, repeat=2), on_trace_ready=tensorboard_trace_handler(str(tmp_path))
    ) as made:
        for _ in range(8):
            x.add_(1)
            made.step()
    files = sorted(tmp_path.iterdir())
    assert len(files) == 2
    assert [file.read_text().count('"name": "aten::add_"') for file in files] == [2, 2]


def test_an_exception_ends_the_profile(tmp_path: Path) -> None:
    x = torch.ones(10, device="tb")

    def failing() -> None:
        with profiled() as made:
            kept.append(made)
            x.add_(1)
            raise KeyError

    kept: list[profile] = []
    with pytest.raises(KeyError):
        failing()
    assert names(kept[0]) == ["aten::add_"]
    with profiled() as made:
        x.mul_(2)
    assert names(made) == ["aten::mul_"]


def test_the_older_profiler_has_device_times() -> None:
    x = torch.ones(200000, device="tb")
    x.mul_(1.5)
    with torch.autograd.profiler.profile(use_device="tb", use_kineto=False) as made:
        x.mul_(1.5)
    (row,) = [row for row in made.key_averages() if row.key == "aten::mul_"]
    assert 0 < row.device_time_total < 1e6


def test_a_profiler_opens_no_driver(script: Script) -> None:
    done = script("""
    import torch, tb_device
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as made:
        torch.ones(3).add_(1)
    print(tb_device.is_open(), len(made.events()) > 0)
    """)
    assert done.stdout.split() == ["False", "True"]


def test_each_device_has_a_process_of_rows(script: Script) -> None:
    done = script(
        """
    import json, torch
    from torch.profiler import ProfilerActivity, profile
    a, b = (torch.ones(10, device=f"tb:{number}") for number in range(2))
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as made:
        a.add_(1)
        b.mul_(2)
    made.export_chrome_trace("trace.json")
    with open("trace.json") as file:
        trace = json.load(file)
    rows = {row["name"]: row["pid"] for row in trace["traceEvents"] if row.get("cat") == "kernel"}
    labels = [row for row in trace["traceEvents"] if row["name"] == "process_labels"]
    labels = {row["pid"] for row in labels if "tb" in row["args"]["labels"]}
    print(rows, sorted(labels), [device["id"] for device in trace["deviceProperties"]])
    """,
        TB_CPU_DEVICES="2",
    )
    assert done.stdout.strip() == "{'aten::add_.Tensor (tb)': 0, 'aten::mul_.Tensor (tb)': 1} [0, 1] [0, 1]"


def test_a_failure_of_the_work_is_raised_and_the_profiler_stays_usable() -> None:
    index = torch.tensor([7], device="tb")
    x = torch.ones(3, device="tb")

    def failing() -> None:
        with profiled():
            x.index_select(0, index)

    with pytest.raises(Exception, match="index"):
        failing()
    with profile(activities=list(BOTH)) as made:
        x.add_(1)
    assert names(made) == ["aten::add_"]


def test_a_failure_that_only_the_profiler_waits_for_is_written_to_stderr(script: Script) -> None:
    """torch.profiler waits for the current device by itself; tb's part of it waits for the others."""
    done = script(
        """
    import torch
    from torch.profiler import ProfilerActivity, profile
    x, index = torch.ones(3, device="tb:1"), torch.tensor([7], device="tb:1")
    x.index_select(0, torch.tensor([1], device="tb:1")).tolist()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]):
        x.index_select(0, index)
    print(x.sum().item())
    """,
        TB_CPU_DEVICES="2",
    )
    assert "The profiler waited for tb:1 at its end, and work there had failed: " in done.stderr
    assert "index_select" in done.stderr
    assert done.stdout.strip() == "3.0"
