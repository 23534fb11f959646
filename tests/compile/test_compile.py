"""torch.compile(backend="tb") gives the results of plain calls, waits no more than they do, and explains fallbacks."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import tb_compile
import torch
import torch.nn.functional as F
import torch_backend.device_module as tb
from conftest import RunPython
from torch import nn
from torch_backend.conformance.bits import bit_identical

pytestmark = pytest.mark.usefixtures("fresh_compiler")


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """The function compiled as one graph. all_programs() checks afterwards that it became programs."""
    options.setdefault("fullgraph", True)
    call: Callable[..., Any] = torch.compile(function, backend="tb", **options)
    return call


def all_programs() -> None:
    assert tb_compile.graphs()
    assert [graph.reason for graph in tb_compile.graphs() if graph.program is None] == []


def same(found: Any, expected: Any, tolerance: float = 1e-6) -> None:
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def test_the_backend_is_found_without_an_import(run_python: RunPython) -> None:
    done = run_python(
        """
        import sys, torch
        assert "tb_compile" not in sys.modules
        assert "tb" in torch.compiler.list_backends()
        call = torch.compile(lambda x: (x * 2).sum(), backend="tb", fullgraph=True)
        print(call(torch.arange(4.0, device="tb")).item())
        import tb_compile
        print([(graph.which, graph.program.instructions) for graph in tb_compile.graphs()])
        """
    )
    assert done.stdout.splitlines() == ["12.0", "[('inference', ['aten::mul.Tensor', 'aten::sum.default'])]"]


def test_forward_and_backward_are_programs() -> None:
    net = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8)).to("tb")
    plain = copy.deepcopy(net)
    call = compiled(net)
    for _ in range(3):
        x = torch.randn(4, 8, device="tb")
        for one, run in ((net, call), (plain, plain)):
            one.zero_grad()
            run(x).square().sum().backward()
        same(call(x), plain(x))
        for parameter, other in zip(net.parameters(), plain.parameters(), strict=True):
            same(parameter.grad, other.grad)
    all_programs()
    assert [graph.which for graph in tb_compile.graphs()] == ["forward", "backward"]
    assert [graph.runs for graph in tb_compile.graphs()] == [6, 3]


def test_a_call_queues_work_and_does_not_wait(no_fallbacks: None) -> None:
    call = compiled(lambda x: (x @ x) * 1e-3)
    x = torch.randn(700, 700, device="tb")
    call(x)
    tb.synchronize()
    with tb.stream(tb.Stream()):
        for _ in range(6):
            x = call(x)
        done = torch.accelerator.current_stream().record_event()
        assert not done.query()


def test_a_size_can_be_an_operand() -> None:
    call = compiled(lambda x: (x * x.shape[0] + x.shape[1]) / x.shape[0], dynamic=True)
    for size in (3, 5):
        x = torch.randn(size, size + 1, device="tb")
        same(call(x), (x * size + size + 1) / size)
    all_programs()


def test_dynamic_shapes_take_one_compilation() -> None:
    weight = torch.randn(5, 17, device="tb")

    def function(x: torch.Tensor) -> torch.Tensor:
        y = F.gelu(F.linear(x, weight))
        return torch.cat([y, y.new_zeros(y.shape[0], 1)], 1).reshape(-1, 2, 3)

    call = compiled(function, dynamic=True)
    for n in (3, 7, 64, 129):
        x = torch.randn(n, 17, device="tb")
        same(call(x), function(x))
    all_programs()
    assert len(tb_compile.graphs()) == 1


def test_dynamic_shapes_in_a_backward_pass() -> None:
    net = nn.Sequential(nn.Linear(6, 4), nn.Tanh()).to("tb")
    call = compiled(net, dynamic=True)
    for n in (3, 9, 20):
        x = torch.randn(n, 6, device="tb", requires_grad=True)
        call(x).sum().backward()
        gradient, x.grad = x.grad, None
        net(x).sum().backward()
        same(gradient, x.grad)
    all_programs()
    assert len(tb_compile.graphs()) == 2


def test_in_place_work_and_views() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        rest = x[1:]
        rest.mul_(y)
        return x.t() + 1

    call = compiled(function)
    x, y = torch.randn(4, 4, device="tb"), torch.randn(4, device="tb")
    plain = x.clone()
    before = x._version
    same(call(x, y), function(plain, y))
    same(x, plain)
    assert x._version > before
    all_programs()


def test_dropout_draws_new_numbers_and_repeats_with_the_seed() -> None:
    call = compiled(lambda x: F.dropout(x, 0.5))
    x = torch.ones(1000, device="tb")
    torch.manual_seed(3)
    first, second = call(x), call(x)
    torch.manual_seed(3)
    assert bit_identical(first, call(x))
    assert not bit_identical(first, second)
    assert 300 < int((first == 0).sum()) < 700
    all_programs()


def test_a_graph_break_at_a_value() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        return y * 2 if y.sum().item() > 0 else y - 1

    call = compiled(function, fullgraph=False)
    for sign in (1, -1):
        x = sign * torch.rand(5, device="tb")
        same(call(x), function(x))


@pytest.mark.parametrize("inside", [True, False])
def test_autocast(inside: bool) -> None:
    layer = nn.Linear(16, 16).to("tb")
    x = torch.randn(4, 16, device="tb")

    def function(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("tb", torch.bfloat16, enabled=inside):
            result: torch.Tensor = layer(x).relu()
        return result

    with torch.autocast("tb", torch.bfloat16):
        expected = layer(x).relu()
    if inside:
        found = compiled(function)(x)
    else:
        call = compiled(lambda x: layer(x).relu())
        with torch.autocast("tb", torch.bfloat16):
            found = call(x)
    assert found.dtype is torch.bfloat16
    same(found, expected)
    all_programs()


def test_the_current_stream_is_used() -> None:
    call = compiled(lambda x: (x * 2).exp())
    x = torch.randn(1 << 16, device="tb")
    expected = call(x)
    tb.synchronize()
    stream = tb.Stream()
    with tb.stream(stream):
        found = call(x)
    stream.synchronize()
    same(found, expected)


def test_device_queries_inside_a_compiled_function() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = x + tb.device_count() + tb.current_device() + int(tb.is_available())
        return result

    x = torch.zeros(2, device="tb")
    same(compiled(function)(x), function(x))


def test_several_devices(run_python: RunPython) -> None:
    done = run_python(
        """
        import torch
        call = torch.compile(lambda x: (x.sin() * 2).softmax(-1), backend="tb", fullgraph=True)
        for device in ("tb:1", "tb:0"):
            x = torch.randn(4, 9, device=device)
            y = call(x)
            assert y.device == x.device, y.device
            torch.testing.assert_close(y, (x.sin() * 2).softmax(-1))
        def function(x):
            with torch.tb.device(1):
                y = torch.ones(3, device="tb")
            return y, x + 1
        y, _ = torch.compile(function, backend="tb", fullgraph=True)(torch.zeros(2, device="tb"))
        assert y.device == torch.device("tb:1"), y.device
        print("both")
        """,
        env={"TB_CPU_DEVICES": "2", "TB_DRIVER": "cpu"},
    )
    assert done.stdout == "both\n"


@pytest.mark.parametrize(
    "options",
    [{"foreach": True, "capturable": True}, {"fused": True}, {"foreach": False, "capturable": True}],
    ids=["foreach", "fused", "one by one"],
)
def test_an_optimizer_step(options: dict[str, Any]) -> None:
    net = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)).to("tb")
    plain = copy.deepcopy(net)
    optimizers = [torch.optim.AdamW(one.parameters(), lr=1e-2, **options) for one in (net, plain)]
    step = compiled(lambda: optimizers[0].step(), fullgraph=False)
    for _ in range(3):
        x = torch.randn(4, 8, device="tb")
        for one in (net, plain):
            one.zero_grad()
            one(x).square().sum().backward()
        step()
        optimizers[1].step()
    for parameter, other in zip(net.parameters(), plain.parameters(), strict=True):
        same(parameter, other, 1e-5)
    if "fused" not in options:  # Dynamo does not compile a fused step, which is one operator
        assert any(graph.runs for graph in tb_compile.graphs())


def test_cpu_tensors_as_arguments() -> None:
    scaled = compiled(lambda x, s: x * s + s)
    x, y = torch.randn(5, device="tb"), torch.randn(5)
    for scale in (torch.tensor(2.5), torch.tensor(-1.5)):
        same(scaled(x, scale), x * scale + scale)
    same(compiled(lambda x: (x * 2).cpu() + 1)(x), x.cpu() * 2 + 1)
    same(compiled(lambda x, y: x + (y * 2).to("tb"))(x, y), x + y.to("tb") * 2)
    all_programs()


def test_a_checkpoint_recomputes_the_same_dropout() -> None:
    from torch.utils.checkpoint import checkpoint

    layers = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Dropout(0.5)).to("tb")
    x = torch.randn(400, 8, device="tb", requires_grad=True)
    y = compiled(lambda x: checkpoint(layers, x, use_reentrant=False))(x)
    torch.autograd.backward(y.sum())
    assert x.grad is not None
    hidden = layers[:2](x.detach().requires_grad_())
    kept = (y != 0).to(torch.float32) * 2  # the backward pass must drop the same elements
    same((kept * (1 - hidden**2)) @ layers[0].weight, x.grad, 1e-5)
    assert 0.4 < float(kept.mean()) / 2 < 0.6
    all_programs()
    forward = next(graph for graph in tb_compile.graphs() if graph.which == "forward")
    backward = next(graph for graph in tb_compile.graphs() if graph.which == "backward")
    assert forward.program is not None
    assert backward.program is not None
    assert "aten::tanh.default" in backward.program.instructions  # computed again


def test_convolution_of_channels_last() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).to("tb").eval()
    x = torch.randn(2, 3, 8, 8, device="tb").to(memory_format=torch.channels_last)
    with torch.no_grad():
        found, expected = compiled(net)(x), net(x)
    same(found, expected)
    assert found.stride() == expected.stride()
    all_programs()


def test_batch_norm_keeps_its_statistics() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4)).to("tb")
    plain = copy.deepcopy(net)
    call = compiled(net)
    for _ in range(3):
        x = torch.randn(2, 3, 8, 8, device="tb")
        same(call(x), plain(x), 1e-5)
    for buffer, other in zip(net.buffers(), plain.buffers(), strict=True):
        same(buffer, other, 1e-5)


def test_attention() -> None:
    def function(q: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, q, q, is_causal=True).sum()

    q = torch.randn(2, 4, 16, 16, device="tb", requires_grad=True)
    compiled(function)(q).backward()
    gradient, q.grad = q.grad, None
    torch.autograd.backward(function(q))
    same(gradient, q.grad)
    all_programs()


def test_an_operator_of_the_user() -> None:
    @torch.library.custom_op("tb_compile_integration::halve", mutates_args=(), device_types=("cpu", "tb"))
    def halve(x: torch.Tensor) -> torch.Tensor:
        return x / 2

    halve.register_fake(torch.empty_like)
    x = torch.randn(4, device="tb")
    same(compiled(lambda x: halve(x + 1) * 2)(x), x + 1)
    all_programs()


def test_a_graph_that_cannot_be_a_program_runs_as_python_with_a_reason() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))
        return result

    call = compiled(function)
    for sign in (1, -1):
        x = sign * torch.rand(5, device="tb")
        same(call(x), x.sin() if sign > 0 else x.cos())
    assert any("cond" in graph.reason for graph in tb_compile.graphs() if graph.program is None)


def test_an_error_of_a_kernel_is_reported_at_the_wait_and_the_device_lives() -> None:
    call = compiled(lambda x, i: x[i] + 1)
    x = torch.randn(5, device="tb")
    call(x, torch.tensor([1, 2], device="tb"))
    with pytest.raises(IndexError, match="out of bounds"):
        call(x, torch.tensor([1, 99], device="tb")).cpu()
    same(call(x, torch.tensor([1, 2], device="tb")), x[1:3] + 1)


@pytest.mark.parametrize(
    ("asked", "text"),
    [({"options": {"colour": "red"}}, "takes no options, but got colour"), ({"mode": "fast"}, "there is no such mode")],
)
def test_unknown_options_and_modes_are_refused(asked: dict[str, Any], text: str) -> None:
    with pytest.raises(Exception, match=text):
        torch.compile(lambda x: x + 1, backend="tb", **asked)(torch.ones(1, device="tb"))


def test_threads_share_a_compiled_function() -> None:
    from concurrent.futures import ThreadPoolExecutor

    net = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 4)).to("tb")
    call = compiled(net)
    inputs = [torch.randn(8, 16, device="tb") for _ in range(16)]
    with torch.no_grad():
        call(inputs[0])
        expected = [net(x) for x in inputs]

    def run(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            found: torch.Tensor = call(x)
        torch.accelerator.current_stream().synchronize()
        return found

    with ThreadPoolExecutor(4) as pool:
        for found, right in zip(pool.map(run, inputs), expected, strict=True):
            same(found, right)


def test_explain_reports_graphs_and_graph_breaks() -> None:
    layer = nn.Linear(4, 4).to("tb")

    def function(x: torch.Tensor) -> torch.Tensor:
        y = layer(x).relu()
        print(end="")  # a graph break
        result: torch.Tensor = torch.cond(y.sum() > 0, lambda y: y.sin(), lambda y: y.cos(), (y,))
        return result * 2

    found = tb_compile.explain(function, torch.randn(2, 4, device="tb"))
    assert any(graph.program is None and "cond" in graph.reason for graph in found.graphs)
    assert any(graph.program is not None for graph in found.graphs)
    [broken] = found.breaks
    assert "test_compile.py" in broken.place
    text = str(found)
    assert "forward graph: a program of " in text
    assert "Python code, because of cond" in text
    assert "graph break at " in text
