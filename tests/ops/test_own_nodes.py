"""The nodes of autograd and the autograd kernels that are ours take part in all that PyTorch asks of its own."""

from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F
from conftest import ROOT
from ops import node_demands
from ops.node_demands import Function, Way

Case = tuple[Function, tuple[tuple[int, ...], ...]]  # a function and the shapes of its arguments


def _lstm(x: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
    return torch._VF.lstm(x, (hidden, cell), weights, True, 2, 0.0, True, False, False)[0]


def _lstm_cell(x: torch.Tensor, hidden: torch.Tensor, cell: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
    return torch.cat(torch._VF.lstm_cell(x, (hidden, cell), *weights))


_LAYERS = tuple(shape for inputs in (4, 5) for shape in ((20, inputs), (20, 5), (20,), (20,)))
# For each operator whose autograd kernel is ours, its cases.
CASES: dict[str, dict[str, Case]] = {
    "aten::_thnn_fused_gru_cell": {"gru_cell": (torch.gru_cell, ((2, 4), (2, 5), (15, 4), (15, 5), (15,), (15,)))},
    "aten::_thnn_fused_lstm_cell": {
        "lstm_cell": (_lstm_cell, ((2, 4), (2, 5), (2, 5), (20, 4), (20, 5), (20,), (20,)))
    },
    "aten::linear": {
        "linear": (F.linear, ((3, 4), (5, 4), (5,))),
        "linear of a batch": (F.linear, ((2, 3, 4), (5, 4), (5,))),
        "linear without bias": (F.linear, ((2, 3, 4), (5, 4))),
    },
    "aten::lstm.input": {"lstm": (_lstm, ((3, 2, 4), (2, 2, 5), (2, 2, 5), *_LAYERS))},
    "aten::max_pool1d": {"max_pool1d": (lambda x: F.max_pool1d(x, 2), ((2, 3, 8),))},
}
FLAT = {name: case for cases in CASES.values() for name, case in cases.items()}
# On the CPU a cell is several operators.
SAME_OPERATOR = [name for name in FLAT if not name.endswith("cell")]
# The files with nodes, with the class of each and the operator that records it.
NODES = {
    "backends/host/gemm/linear.cpp": ("LinearBackward", "aten::linear"),
    "backends/host/recurrent/lstm.cpp": ("LstmBackward", "aten::lstm.input"),
}


def _arguments(name: str, device: str) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(7)
    return [torch.randn(shape, generator=generator).to(device).requires_grad_() for shape in FLAT[name][1]]


def test_each_autograd_kernel_of_ours_has_a_case() -> None:
    torch.empty(0, device="tb")  # the first use registers the kernels
    ours = {
        name
        for name in torch._C._dispatch_get_all_op_names()
        if torch._C._dispatch_has_kernel_for_dispatch_key(name, "AutogradPrivateUse1")
        and not torch._C._dispatch_has_kernel_for_dispatch_key(name, "AutogradCPU")
        and not name.startswith("tb_")
    }
    assert ours == set(CASES)


def test_each_node_in_the_sources_is_a_gradient_node_with_a_case() -> None:
    found = {}
    sources = [path for path in (ROOT / "packages").glob("*/src/**/*") if path.suffix in (".cpp", ".h", ".py")]
    for path in sources:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r":\s*(public\s+)?(torch::)?autograd::(Node|Function<\w+>)\s*{", text), path
        for name in re.findall(r"(\w+) final : public GradientNode<\1>", text):
            found[path.as_posix().split("/src/", 1)[1]] = name
    assert found == {file: name for file, (name, _) in NODES.items()}
    assert {operator for _, operator in NODES.values()} <= set(CASES)


@pytest.mark.parametrize("way", node_demands.WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("name", FLAT)
def test_gradients_are_those_of_a_plain_backward_pass(name: str, way: Way) -> None:
    function, arguments = FLAT[name][0], _arguments(name, "tb")
    # oneDNN's LSTM node reads arguments that were changed since, on the CPU too, whatever is done to save them.
    changed = name == "lstm" and way is node_demands.arguments_changed_before_the_backward_pass
    expected = (way if changed else node_demands.plain)(function, _arguments(name, "cpu"))
    found = way(function, arguments)
    assert len(found) == len(expected)
    for want, got in zip(expected, found, strict=True):
        assert got.device.type == "tb"
        torch.testing.assert_close(got.cpu(), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", SAME_OPERATOR)
def test_floating_point_operations_are_counted_as_on_the_cpu(name: str) -> None:
    found = [node_demands.flops(FLAT[name][0], _arguments(name, device)) for device in ("cpu", "tb")]
    assert found[1] == found[0]
    assert all(found[0]) == name.startswith("linear")


@pytest.mark.parametrize("name", SAME_OPERATOR)
def test_hooks_get_the_saved_tensors_that_they_get_on_the_cpu(name: str) -> None:
    found = [node_demands.saved_tensors(FLAT[name][0], _arguments(name, device)) for device in ("cpu", "tb")]
    assert found[0]
    assert found[1] == found[0]
