"""What is saved on tb loads anywhere."""

from __future__ import annotations

import pathlib

import torch
from conftest import RunPython
from torch import nn


def save_model(path: pathlib.Path) -> dict[str, torch.Tensor]:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4)).to("tb")
    torch.save(model.state_dict(), path)
    return {name: tensor.cpu() for name, tensor in model.state_dict().items()}


def test_it_loads_back_on_tb(tmp_path: pathlib.Path) -> None:
    expected = save_model(tmp_path / "model.pt")
    loaded = torch.load(tmp_path / "model.pt")
    assert {t.device.type for t in loaded.values()} == {"tb"}
    for name, tensor in expected.items():
        assert torch.equal(loaded[name].cpu(), tensor)


def test_it_loads_on_the_cpu_with_map_location(tmp_path: pathlib.Path) -> None:
    expected = save_model(tmp_path / "model.pt")
    loaded = torch.load(tmp_path / "model.pt", map_location="cpu")
    assert {t.device.type for t in loaded.values()} == {"cpu"}
    assert all(torch.equal(loaded[name], tensor) for name, tensor in expected.items())


def test_it_loads_in_a_process_without_the_backend(tmp_path: pathlib.Path, run_python: RunPython) -> None:
    expected = save_model(tmp_path / "model.pt")
    total = float(sum(tensor.sum() for tensor in expected.values()))
    code = f"""
        import sys, torch
        loaded = torch.load({str(tmp_path / "model.pt")!r}, map_location="cpu")
        assert "torch_backend" not in sys.modules
        print(float(sum(tensor.sum() for tensor in loaded.values())))
    """
    done = run_python(code, {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    assert float(done.stdout) == total


def test_what_the_cpu_saved_loads_on_tb(tmp_path: pathlib.Path) -> None:
    torch.save({"x": torch.arange(5)}, tmp_path / "x.pt")
    loaded = torch.load(tmp_path / "x.pt", map_location="tb")["x"]
    assert loaded.device.type == "tb"
    assert loaded.cpu().tolist() == [0, 1, 2, 3, 4]


def test_tensors_that_share_memory_still_share_it(tmp_path: pathlib.Path) -> None:
    x = torch.arange(6.0, device="tb")
    torch.save([x, x[2:]], tmp_path / "views.pt")
    whole, part = torch.load(tmp_path / "views.pt")
    part.zero_()
    assert whole.cpu().tolist() == [0, 1, 0, 0, 0, 0]
