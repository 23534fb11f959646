"""A profile of each family's training step ties all that ran on tb to the operators that queued it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from examples.models.case import Training
from torch.profiler import ProfilerActivity, profile
from training.families import FAMILIES, SEED


def rows(made: profile, file: Path, *categories: str) -> list[dict[str, Any]]:
    if not file.exists():
        made.export_chrome_trace(str(file))
    events = json.loads(file.read_text())["traceEvents"]
    return [event for event in events if event.get("cat") in categories and event["ph"] == "X"]


@pytest.mark.parametrize("family", FAMILIES)
def test_all_work_of_a_training_step_is_linked_to_its_operator(family: str, tmp_path: Path) -> None:
    torch.manual_seed(SEED)
    training = Training(FAMILIES[family](), torch.device("tb"))
    training.step()
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.PrivateUse1]) as made:
        training.step()
    file = tmp_path / "trace.json"
    work = rows(made, file, "kernel", "gpu_memcpy", "gpu_memset")
    operators = {row["args"]["External id"]: row["name"] for row in rows(made, file, "cpu_op")}
    launches = {row["args"]["correlation"] for row in rows(made, file, "privateuse1_runtime")}
    assert len(work) > 10
    assert [row["name"] for row in work if row["args"].get("External id") not in operators] == []
    assert [row["name"] for row in work if row["args"]["correlation"] not in launches] == []
    names = {row["name"].partition(" (tb)")[0].partition(".")[0] for row in work}
    assert len(names) > 3, "the rows have no names of operators"
    assert {row.key for row in made.key_averages() if row.self_device_time_total < 0} == set()
