"""The rows of `tb-device explain` agree with what PyTorch programs observe on the driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
import tb_device
from tb_device import explain

PROGRAM = """
import json, threading
import tb_ops, tb_stream, torch
from tb_device import explain, default_driver
from torch_backend._testing import held

x = torch.arange(64, dtype=torch.float32, device="tb")
seen = {"kernels on the host's memory": tb_ops.native()}
torch.relu(x), x + x  # a capture runs nothing for the first time
torch.tb.synchronize()
images = tb_ops.kernel_images()
seen["loaded kernels"] = images.compiled + images.found > 0

graph = torch.tb.Graph()
try:
    with torch.tb.graph(graph):
        y = x + x
    graph.replay()
    seen["graphs"] = y.tolist() == (2 * torch.arange(64)).tolist()
except (RuntimeError, NotImplementedError):
    seen["graphs"] = False

called = threading.Event()
tb_stream.current_stream().add_callback(called.set)
torch.tb.synchronize()
seen["host callbacks"] = called.is_set()

def returns_before_its_stream_runs(copy):
    # A copy on a stream that is held up; on another thread, since it may wait.
    stream, done = torch.Stream(device="tb"), threading.Event()
    def run():
        with stream:
            copy()
        done.set()
    with stream:
        copy()
        torch.tb.synchronize()
    with held(stream, seconds=60):
        thread = threading.Thread(target=run)
        thread.start()
        early = done.wait(2)
    thread.join()
    torch.tb.synchronize()
    return early

pinned = torch.full((64,), 3.0).pin_memory()
seen["non_blocking copies"] = returns_before_its_stream_runs(lambda: x.copy_(pinned, non_blocking=True)) and (
    returns_before_its_stream_runs(lambda: pinned.copy_(x, non_blocking=True))
)
wide = torch.full((64,), 3.0, dtype=torch.float64).pin_memory()
seen["pinned copies that convert return early"] = returns_before_its_stream_runs(
    lambda: x.copy_(wide, non_blocking=True)
)
pageable = torch.full((1 << 20,), 5.0)
y = torch.zeros(1 << 20, device="tb")
seen["pageable copies return early"] = returns_before_its_stream_runs(
    lambda: pageable.copy_(y, non_blocking=True)
) or returns_before_its_stream_runs(lambda: y.copy_(pageable, non_blocking=True))
seen["pinned memory"] = torch.ones(4).pin_memory().is_pinned()
try:
    first, second = (torch.Event(device="tb", enable_timing=True) for _ in range(2))
    first.record(), second.record(), torch.tb.synchronize()
    seen["event timing"] = first.elapsed_time(second) >= 0
except (RuntimeError, NotImplementedError):
    seen["event timing"] = False
rows = {row["feature"]: row["state"] for row in explain.examine(default_driver())["features"]}
print(json.dumps([seen, rows]))
"""


def observed(driver: str) -> tuple[dict[str, bool], dict[str, str]]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env=os.environ | {"TB_DRIVER": driver, "TB_FALLBACK": "allow"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    seen, rows = json.loads(done.stdout)
    return seen, rows


def row(driver: str, feature: str) -> dict[str, Any]:
    report = explain.examine(tb_device.load_driver(driver))
    [found] = [each for each in report["features"] if each["feature"] == feature]
    return dict(found)


@pytest.mark.parametrize("driver", ["cpu", "sim"])
def test_rows_agree_with_what_programs_observe(driver: str) -> None:
    seen, rows = observed(driver)
    assert not seen.pop("pageable copies return early")
    converts = "have the same dtype" not in row(driver, "non_blocking copies")["how"]
    assert seen.pop("pinned copies that convert return early") == converts
    assert {feature: rows[feature] == explain.NATIVE for feature in seen} == seen


def test_the_row_of_copies_says_that_only_pinned_memory_is_asynchronous() -> None:
    assert "pageable memory has happened when the call returns" in row("cpu", "non_blocking copies")["how"]
    assert row("sim", "non_blocking copies")["state"] == explain.NATIVE


def test_the_row_of_copies_names_the_conversions_that_wait_without_host_kernels() -> None:
    # The host cannot access the device's memory.
    assert "have the same dtype" in row("sim", "non_blocking copies")["how"]
    assert "have the same dtype" not in row("cpu", "non_blocking copies")["how"]
