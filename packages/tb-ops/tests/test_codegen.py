"""The generator emits every structured operator of the installed PyTorch, once each."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tb_ops.codegen import aten, device_checks, routing, schema, structured


@pytest.fixture(scope="module")
def groups():
    return schema.installed().structured_groups


@pytest.fixture(scope="module")
def text(groups):
    return aten.shard_text(groups, 0)


def test_every_structured_group_with_a_cpu_kernel_is_found(groups):
    assert len(groups) > 250
    names = {str(g.out.func.name) for g in groups}
    assert {"add.out", "mm.out", "_softmax.out", "cat.out", "index.Tensor_out", "topk.values"} <= names


def test_each_schema_is_registered_exactly_once(groups, text):
    registered = re.findall(r'aten\.impl\("([^"]+)"', text)
    wanted = [str(f.func.name) for g in groups for f in structured.functions(g)]
    assert sorted(registered) == sorted(wanted)
    assert len(set(registered)) == len(registered)


def test_operators_written_by_hand_are_not_generated_too(text):
    kernels = Path(__file__).resolve().parents[1] / "src" / "backends" / "host"
    by_hand = set(re.findall(r'aten\.impl\("([^"]+)"', "".join(p.read_text() for p in kernels.rglob("*.cpp"))))
    assert {"mse_loss", "native_layer_norm", "trace"} <= by_hand
    assert by_hand.isdisjoint(re.findall(r'aten\.impl\("([^"]+)"', text))


def test_each_kernel_checks_then_launches_then_returns(groups, text):
    kernels = sum(len(structured.functions(g)) for g in groups if str(g.out.func.name) not in structured.CHECKED)
    assert len(re.findall(r"^  op\.meta\(", text, re.M)) == kernels
    assert len(re.findall(r"^  launch_kernel<", text, re.M)) == kernels


def test_kernels_that_check_on_the_host_run_at_the_call(text):
    assert text.count("{ return call_checked<at::_ops::_linalg_svd") == 2
    assert "if (check_errors) return call_checked<at::_ops::linalg_inv_ex>(A, check_errors);" in text


def test_in_place_kernels_pass_self_as_the_output(text):
    assert "void op_add__Tensor_cpu(at::Tensor &self" in text
    assert "{ cpu::add_outf(self, other, alpha, self)" in text


def test_operators_that_are_no_iterators_check_their_devices(text):
    assert 'common_device("aten::mm", {&self, &mat2})' in text


def test_every_thread_invariant_operator_is_a_name_under_which_a_kernel_is_launched(text):
    """An entry under another name, as that of a composite operator, has no effect."""
    sources = Path(__file__).resolve().parents[1] / "src"
    listed = re.findall(r'"(aten::[^"]+)"', (sources / "intraop" / "thread_invariant_ops.h").read_text())
    texts = [text, *(source.read_text() for source in sources.rglob("*.cpp"))]
    launched = {name for each in texts for name in re.findall(r'<"(aten::[^"]+)"', each)}
    registered = {f"aten::{name}" for each in texts for name in re.findall(r'impl\("([^"]+)"', each)}

    def cached(name: str) -> bool:  # the layout cache launches the CPU's kernels of what has none here
        return name not in registered and torch._C._dispatch_has_kernel_for_dispatch_key(name, "CPU")

    assert len(listed) > 30
    assert [name for name in listed if name not in launched and not cached(name)] == []


def test_the_same_schema_gives_the_same_text(groups, text):
    assert aten.shard_text(groups, 0) == text


def test_the_command_writes_the_files_it_is_asked_for(tmp_path):
    names = ("index", "routes", "lists", "kinds", "devices", "a", "b")
    paths = [tmp_path / f"{name}.cpp" for name in names]
    routes = Path(__file__).resolve().parents[1] / "src" / "dispatch" / "routes.yaml"
    subprocess.run([sys.executable, "-m", "tb_ops.codegen", "aten", *map(str, [routes, *paths])], check=True)
    index, routed, lists, kinds, devices, first, second = (p.read_text() for p in paths)
    assert "void register_routed_views" in routed
    assert "void register_foreach_patterns" in lists
    assert "nested_kernels_of_the_cpu()" in kinds
    assert "operators_without_device_check()" in devices
    assert "register_structured_0(aten);" in index
    assert "register_structured_1(aten);" in index
    assert "void register_structured_0" in first
    assert "void register_structured_1" in second
    assert set(re.findall(r'impl\("([^"]+)"', first)).isdisjoint(re.findall(r'impl\("([^"]+)"', second))


def test_missing_schema_is_named(monkeypatch):
    monkeypatch.setattr(schema.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(FileNotFoundError, match="comes with torch"):
        schema.native_directory()


def test_a_route_registers_pytorchs_body_by_the_type_of_its_overload(tmp_path):
    source = tmp_path / "routes.yaml"
    source.write_text("some:\n  - floor_divide_.Tensor\n")
    text = routing.file_text(schema.installed(), source)
    assert "#include <ATen/ops/floor_divide_native.h>" in text
    assert "void register_routed_some(torch::Library &aten)" in text
    assert "static_cast<at::Tensor & (*)(at::Tensor &, const at::Tensor &)>(at::native::floor_divide_)" in text


def test_a_route_compares_devices_where_pytorch_does_for_cuda(tmp_path):
    source = tmp_path / "routes.yaml"
    source.write_text("some:\n  - normal.Tensor_Tensor\n  - addr\n  - where.self\n  - roll\n")
    text = routing.file_text(schema.installed(), source)
    assert 'common_device("aten::normal.Tensor_Tensor", {&mean, &std})' in text
    assert 'common_device("aten::where' not in text  # builds an iterator, which takes numbers of the host
    assert 'common_device("aten::roll' not in text  # has one tensor


def test_operators_without_a_comparison_of_devices_are_those_of_pytorchs_schema():
    text = device_checks.file_text(schema.installed())
    names = re.findall(r'"([^"]+)"', text.split("names[] = ")[1])
    assert names == sorted(names)
    assert {"add.Tensor", "copy_", "index.Tensor", "_foreach_add.List"} <= set(names)
    assert not {"mm", "bincount", "masked_select", "nonzero.out", "cat"} & set(names)


@pytest.mark.parametrize(("name", "wanted"), [("no_such", "has no operator 'no_such'"), ("mm", "no body of its own")])
def test_an_impossible_route_is_named(tmp_path, name, wanted):
    source = tmp_path / "routes.yaml"
    source.write_text(f"some:\n  - {name}\n")
    with pytest.raises(ValueError, match=wanted):
        routing.file_text(schema.installed(), source)
