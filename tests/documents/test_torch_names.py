"""torch.tb has the public names of torch.cuda and torch.xpu, or tools/docs/cuda_names.toml has the reason why not."""

from __future__ import annotations

import tomllib

import torch
from docs.cuda_names import SAID, cuda_names, differences

SAYS = tomllib.loads(SAID.read_text())


def test_each_name_is_there_or_has_a_reason() -> None:
    assert differences(SAYS) == []
    assert {"memory_stats", "XPUGraph", "utilization"} <= set(cuda_names(SAYS["leave_out"]))


def test_a_missing_name_without_a_reason_is_found() -> None:
    lacking = {name: text for name, text in SAYS["lacking"].items() if name != "utilization"}
    [found] = differences({**SAYS, "lacking": lacking})
    assert "torch.tb has no utilization" in found


def test_a_reason_for_a_name_that_exists_is_found() -> None:
    [found] = differences({**SAYS, "lacking": {**SAYS["lacking"], "memory_stats": "for no reason"}})
    assert found == "[lacking] has memory_stats, which torch.tb has"


def test_modules_that_the_page_leaves_out_are_parts_of_torch_tb() -> None:
    for name in ("amp", "graphs", "memory", "random", "streams"):
        assert hasattr(torch.get_device_module("tb"), name)
