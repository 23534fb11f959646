"""PyTorch on the drivers for vendors' libraries, here with the simulated libraries of tests/sim_vendor."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import RunPython
from sim_vendor.simulated import build


@pytest.fixture(scope="module")
def npu() -> Path:
    return build("npu")


TRAINS = """
    import ctypes, json, os, torch

    def train(device):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        given = torch.randn(64, 16).pin_memory().to(device, non_blocking=True)
        wanted = torch.randint(0, 4, (64,)).to(device)
        losses = []
        for _ in range(4):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(given), wanted)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    start, end = torch.Event("tb", enable_timing=True), torch.Event("tb", enable_timing=True)
    start.record()
    losses = train("tb")
    end.record()
    end.synchronize()
    simulated = ctypes.CDLL(os.environ["TB_NPU_LIBRARY"])
    print(json.dumps({
        "name": torch.tb.get_device_name(), "count": torch.tb.device_count(), "losses": losses, "cpu": train("cpu"),
        "milliseconds": start.elapsed_time(end), "fallbacks": [row.operator for row in torch.tb.fallbacks()],
        "copies": simulated.tb_simnpu_calls(b"aclrtMemcpyAsync") + simulated.tb_simnpu_calls(b"aclrtMemcpy"),
    }))
"""


@pytest.mark.parametrize("segments", ["False", "True"])
def test_on_an_npu_a_model_trains_to_the_cpus_losses_by_the_counted_fallback(
    run_python: RunPython, npu: Path, segments: str
) -> None:
    environment = {"TB_DRIVER": "npu", "TB_NPU_LIBRARY": str(npu), "TB_FALLBACK": "allow"}
    done = run_python(TRAINS, {**environment, "TB_ALLOC_CONF": f"expandable_segments:{segments}"})
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["losses"] == found["cpu"]
    assert (found["name"], found["count"]) == ("Ascend910B2", 2)
    assert found["milliseconds"] > 0
    assert "aten::addmm.out" in found["fallbacks"]  # the driver has no kernels, so all operators ran on the CPU
    assert found["copies"] > 100


def test_without_the_vendors_library_the_import_works_and_the_device_says_why(run_python: RunPython) -> None:
    code = """
        import torch
        print(torch.ones(2).sum().item())
        try:
            torch.ones(2, device="tb")
        except RuntimeError as error:
            print(error)
    """
    done = run_python(code, {"TB_DRIVER": "npu", "TB_NPU_LIBRARY": "/absent/libascendcl.so"})
    assert done.stdout.startswith("2.0\n")
    assert "libascendcl cannot be loaded: /absent/libascendcl.so" in done.stdout
    assert "Install CANN" in done.stdout
