"""Profiles for the tests: what ran, and the rows of its trace."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile

BOTH = (ProfilerActivity.CPU, ProfilerActivity.PrivateUse1)
Row = dict[str, Any]
WORK = ("kernel", "gpu_memcpy", "gpu_memset")  # categories of a trace


@contextlib.contextmanager
def profiled(**settings: Any) -> Iterator[profile]:
    """A profile of the host and of tb. Its device is used before, since a profiler does not open one."""
    torch.ones(1, device="tb").item()
    with profile(activities=list(BOTH), **settings) as made:
        yield made


def device_rows(made: profile) -> list[Any]:
    """The work on tb, without annotations, in the order in which it ran."""
    rows = [event for event in made.events() or () if event.device_type == DeviceType.PrivateUse1]
    return sorted((row for row in rows if not row.is_user_annotation), key=lambda row: row.time_range.start)


def names(made: profile) -> list[str]:
    """The operators of the work on tb, without their overloads."""
    return [operator_of(row.name) for row in device_rows(made)]


def operator_of(name: str) -> str:
    """aten::add of "aten::add.Tensor (tb)"."""
    return name.removesuffix(" (tb)").split(".")[0]


def annotations(made: profile) -> list[Any]:
    """The rows of ranges, graphs and waits on tb."""
    rows = [event for event in made.events() or () if event.device_type == DeviceType.PrivateUse1]
    return [row for row in rows if row.is_user_annotation]


def trace_of(made: profile, folder: Path) -> dict[str, Any]:
    """The exported trace."""
    file = folder / "trace.json"
    made.export_chrome_trace(str(file))
    trace: dict[str, Any] = json.loads(file.read_text())
    return trace


def rows_of(trace: dict[str, Any]) -> list[Row]:
    rows: list[Row] = trace["traceEvents"]
    return rows


def of_category(rows: list[Row], *categories: str) -> list[Row]:
    return [row for row in rows if row.get("cat") in categories and row["ph"] == "X"]
