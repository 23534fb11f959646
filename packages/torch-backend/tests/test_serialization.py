"""Saving, loading, copying and moving tb tensors and modules."""

import copy
import io
import pathlib
import pickle

import pytest
import torch
from conftest import Script
from torch_backend.conformance.bits import bit_identical


def test_save_and_load_come_back_to_tb() -> None:
    x = torch.arange(12.0, device="tb").reshape(3, 4)
    buffer = io.BytesIO()
    torch.save({"all": x, "view": x[1:, ::2]}, buffer)
    buffer.seek(0)
    loaded = torch.load(buffer)
    assert loaded["all"].device == x.device
    assert bit_identical(loaded["all"], x)
    assert loaded["view"].stride() == (4, 2)
    assert loaded["view"].untyped_storage().data_ptr() == loaded["all"].untyped_storage().data_ptr()


def test_conjugate_and_negative_views_are_kept() -> None:
    x = torch.randn(3, dtype=torch.complex64, device="tb")
    for view, metadata in ((x.conj(), {"conj": True}), (x.conj().imag, {"neg": True}), (x, {})):
        assert torch._utils.get_tensor_metadata(view) == metadata
        buffer = io.BytesIO()
        torch.save(view, buffer)
        buffer.seek(0)
        for loaded in (torch.load(buffer), pickle.loads(pickle.dumps(view))):
            assert loaded.device == x.device
            assert torch._utils.get_tensor_metadata(loaded) == metadata
            assert bit_identical(loaded.cpu().resolve_conj().resolve_neg(), view.cpu().resolve_conj().resolve_neg())
    plain = x.clone()
    torch._utils.set_tensor_metadata(plain, {"conj": True})
    assert bit_identical(plain.cpu().resolve_conj(), x.cpu().conj().resolve_conj())


@pytest.mark.parametrize("location", ["cpu", "tb", "tb:0", "meta"])
def test_load_maps_anywhere(location: str) -> None:
    buffer = io.BytesIO()
    torch.save(torch.ones(3, device="tb"), buffer)
    buffer.seek(0)
    loaded = torch.load(buffer, map_location=location)
    assert loaded.device.type == location.partition(":")[0]
    if location != "meta":
        assert loaded.tolist() == [1, 1, 1]


def test_cpu_file_loads_onto_tb() -> None:
    buffer = io.BytesIO()
    torch.save(torch.ones(3), buffer)
    buffer.seek(0)
    assert torch.load(buffer, map_location="tb").is_tb


def test_a_file_from_tb_loads_where_there_is_no_backend(script: Script, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "x.pt"
    torch.save(torch.arange(3.0, device="tb"), file)
    code = f"import torch; assert torch.load({str(file)!r}, map_location='cpu').tolist() == [0, 1, 2]"
    script(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")


def test_a_file_from_another_device_number_says_what_to_do(script: Script, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "x.pt"
    script(f"import torch; torch.save(torch.ones(2, device='tb:1'), {str(file)!r})", TB_CPU_DEVICES="2")
    with pytest.raises(RuntimeError, match="map_location"):
        torch.load(file)
    assert torch.load(file, map_location="tb:0").tolist() == [1, 1]


def test_load_is_the_first_use(script: Script, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "x.pt"
    torch.save(torch.ones(2, device="tb"), file)
    script(f"import torch; assert torch.load({str(file)!r}).add(1).tolist() == [2, 2]")


def test_pickle_and_deepcopy_are_independent_copies_on_tb() -> None:
    x = torch.nn.Parameter(torch.ones(3, device="tb"))
    for other in (copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert isinstance(other, torch.nn.Parameter)
        assert other.is_tb
        assert other.requires_grad
        with torch.no_grad():
            other.add_(1)
        assert x.tolist() == [1, 1, 1]


def test_data_can_be_set_across_devices() -> None:
    x = torch.nn.Parameter(torch.zeros(2))
    x.data = torch.ones(3, device="tb")
    assert x.is_tb
    assert x.requires_grad
    assert x.tolist() == [1, 1, 1]
    (x * 2).sum().backward()
    assert x.grad.is_tb
    assert x.grad.tolist() == [2, 2, 2]
    x.grad = None
    x.data = torch.ones(2)
    assert x.device.type == "cpu"
    assert (x + 1).tolist() == [2, 2]


def test_data_set_across_devices_drops_the_gradient_accumulator_of_the_old_device() -> None:
    x = torch.nn.Parameter(torch.zeros(2))
    old_graph = x * 2  # keeps the accumulator alive
    x.data = torch.ones(3, device="tb")
    (x * 3).sum().backward()
    assert x.grad.is_tb
    assert x.grad.tolist() == [3, 3, 3]
    assert old_graph.device.type == "cpu"


def test_data_of_other_kinds_is_still_refused() -> None:
    x = torch.zeros(2, device="tb")
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        x.data = torch.zeros(2).to_sparse()
    with pytest.raises(RuntimeError, match="floating point"):
        torch.nn.Parameter(torch.zeros(2)).data = torch.zeros(2, dtype=torch.int64, device="tb")


def test_module_moves_keep_parameters_ties_and_optimizers() -> None:
    first, second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
    second.weight = first.weight
    model = torch.nn.Sequential(first, second)
    before = list(model.parameters())
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    model.to("tb")
    assert first.weight is second.weight
    assert first.weight.is_tb
    assert all(a is b for a, b in zip(before, model.parameters(), strict=True))
    old = first.weight.detach().cpu().clone()
    model(torch.ones(2, 4, device="tb")).sum().backward()
    optimizer.step()
    assert not bit_identical(first.weight.detach().cpu(), old)
    model.cpu()
    assert first.weight is second.weight
    assert first.weight.device.type == "cpu"


def test_state_dict_loads_across_devices() -> None:
    source, target = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2).to("tb")
    target.load_state_dict(source.state_dict())
    assert target.weight.is_tb
    assert bit_identical(target.weight.cpu(), source.weight)
    target.load_state_dict(copy.deepcopy(source.state_dict()), assign=True)
    assert target.weight.device.type == "cpu"


def test_storage_moves_both_ways() -> None:
    storage = torch.arange(5, dtype=torch.uint8).untyped_storage()
    on_device = storage.tb()
    assert on_device.device.type == "tb"
    assert on_device.cpu().tolist() == [0, 1, 2, 3, 4]


def save_model(path: pathlib.Path) -> dict[str, torch.Tensor]:
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.LayerNorm(4)).to("tb")
    torch.save(model.state_dict(), path)
    return {name: tensor.cpu() for name, tensor in model.state_dict().items()}


def test_a_model_s_state_loads_back_on_tb(tmp_path: pathlib.Path) -> None:
    expected = save_model(tmp_path / "model.pt")
    loaded = torch.load(tmp_path / "model.pt")
    assert {t.device.type for t in loaded.values()} == {"tb"}
    for name, tensor in expected.items():
        assert bit_identical(loaded[name].cpu(), tensor)


def test_a_model_s_state_loads_on_the_cpu_with_map_location(tmp_path: pathlib.Path) -> None:
    expected = save_model(tmp_path / "model.pt")
    loaded = torch.load(tmp_path / "model.pt", map_location="cpu")
    assert {t.device.type for t in loaded.values()} == {"cpu"}
    assert all(bit_identical(loaded[name], tensor) for name, tensor in expected.items())


def test_a_model_s_state_loads_in_a_process_without_the_backend(tmp_path: pathlib.Path, script: Script) -> None:
    expected = save_model(tmp_path / "model.pt")
    total = float(sum(tensor.sum() for tensor in expected.values()))
    code = f"""
        import sys, torch
        loaded = torch.load({str(tmp_path / "model.pt")!r}, map_location="cpu")
        assert "torch_backend" not in sys.modules
        print(float(sum(tensor.sum() for tensor in loaded.values())))
    """
    done = script(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")
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
