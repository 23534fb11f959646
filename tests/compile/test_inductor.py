"""torch.compile(backend="tb_inductor"): fused kernels give the results of plain calls and are equally asynchronous."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import tb_stream
import torch
import torch.nn.functional as F
import torch_backend.device_module as tb
from conftest import RunPython
from torch import nn
from torch_backend.conformance.bits import bit_identical

pytestmark = pytest.mark.usefixtures("fresh_compiler")


def compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    options.setdefault("fullgraph", True)
    call: Callable[..., Any] = torch.compile(function, backend="tb_inductor", **options)
    return call


def same(found: Any, expected: Any, tolerance: float = 1e-5) -> None:
    torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance)


def test_forward_and_backward(no_fallbacks: None) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.LayerNorm(8)).to("tb")
    plain = copy.deepcopy(net)
    call = compiled(net)
    for _ in range(2):
        x = torch.randn(4, 8, device="tb")
        for one, run in ((net, call), (plain, plain)):
            one.zero_grad()
            # sin(), because the sum of squares of a layer norm is constant, so its gradients are only rounding errors.
            run(x).sin().sum().backward()
        same(call(x), plain(x))
        for parameter, other in zip(net.parameters(), plain.parameters(), strict=True):
            same(parameter.grad, other.grad)


def test_torch_compile_uses_inductor_on_tb_by_default(run_python: RunPython) -> None:
    done = run_python(
        """
        import sys, torch
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout(0.1), torch.nn.LayerNorm(8)).to("tb")
        for options in ({}, {"mode": "reduce-overhead"}):
            torch.compiler.reset()
            call = torch.compile(model, fullgraph=True, **options)
            for _ in range(5):
                call(torch.ones(2, 8, device="tb")).sum().backward()
        import tb_compile
        print(*tb_compile.graphs(), sep="\\n")
        plain = torch.compile(lambda x: x.sin().sum())
        print(plain(torch.zeros(3)).item(), torch.tb.memory_allocated() > 0)
        """
    )
    forward = "forward graph: 1 generated kernels and what is called between them"
    backward = forward.replace("forward graph: 1", "backward graph: 2")
    lines = done.stdout.splitlines()
    assert lines[:2] == [forward, backward]
    assert [line.rpartition(";")[2] for line in lines[2:4]] == [" 3 launches as a device graph"] * 2
    assert lines[4:] == ["0.0 True"]


def test_kernels_are_queued_without_a_wait() -> None:
    call = compiled(lambda x: (x.sin() * 2).exp().sum(0))
    x = torch.randn(3000, 1000, device="tb")
    expected = call(x)
    tb.synchronize()
    stream = tb.Stream()
    with tb.stream(stream):
        for _ in range(4):
            found = call(x)
        assert not stream.record_event().query()
    stream.synchronize()
    same(found, expected)


def test_dynamic_shapes_and_views_in_place() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        rest = x[1:]
        rest.mul_(y)
        return (x * 2).relu().sum(1)

    call = compiled(function, dynamic=True)
    y = torch.randn(17, device="tb")
    for n in (3, 7, 64):
        x = torch.randn(n, 17, device="tb")
        plain = x.clone()
        before = x._version
        same(call(x, y), function(plain, y))
        same(x, plain)
        assert x._version > before


def test_dropout_draws_new_numbers_and_repeats_with_the_seed() -> None:
    call = compiled(lambda x: F.dropout(x, 0.5) * 1.0)
    x = torch.ones(1000, device="tb")
    torch.manual_seed(3)
    first, second = call(x), call(x)
    torch.manual_seed(3)
    assert bit_identical(first, call(x))
    assert not bit_identical(first, second)
    assert 300 < int((first == 0).sum()) < 700


def test_cpu_tensors_as_arguments() -> None:
    scaled = compiled(lambda x, s: x * s + s)
    x, y = torch.randn(5, device="tb"), torch.randn(5)
    for scale in (torch.tensor(2.5), torch.tensor(-1.5)):
        same(scaled(x, scale), x * scale + scale)
    same(compiled(lambda x: (x * 2).cpu() + 1)(x), x.cpu() * 2 + 1)
    same(compiled(lambda x, y: x + (y * 2).to("tb"))(x, y), x + y.to("tb") * 2)


def test_an_error_of_a_kernel_is_reported_with_its_name_and_the_process_lives() -> None:
    def function(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return x[i] + 1

    call = compiled(function)
    x = torch.randn(5, device="tb")
    call(x, torch.tensor([1, 2], device="tb"))
    with pytest.raises(RuntimeError, match=r"index out of bounds|cpp_fused"):
        call(x, torch.tensor([1, 99], device="tb")).cpu()
    same(call(x, torch.tensor([1, 2], device="tb")), x[1:3] + 1)

    divide = compiled(lambda x, y: torch.div(x, y, rounding_mode="floor") + 1)
    whole = torch.arange(5, device="tb")
    divide(whole, torch.ones_like(whole))
    with pytest.raises(RuntimeError, match=r"[Dd]ivision|cpp_fused"):
        divide(whole, torch.zeros_like(whole)).cpu()
    same(divide(whole, torch.ones_like(whole)), whole + 1)


def test_convolution_attention_and_autocast() -> None:
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).to("tb").eval()
    x = torch.randn(2, 3, 8, 8, device="tb").to(memory_format=torch.channels_last)
    with torch.no_grad():
        same(compiled(net)(x), net(x))
    q = torch.randn(2, 4, 16, 16, device="tb", requires_grad=True)

    def attention(q: torch.Tensor) -> torch.Tensor:
        return F.scaled_dot_product_attention(q, q, q, is_causal=True).sum()

    torch.autograd.backward(compiled(attention)(q))
    gradient, q.grad = q.grad, None
    torch.autograd.backward(attention(q))
    same(gradient, q.grad)
    layer = nn.Linear(16, 16).to("tb")

    def mixed(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("tb", torch.bfloat16):
            result: torch.Tensor = layer(x).relu()
        return result

    x = torch.randn(4, 16, device="tb")
    found = compiled(mixed)(x)
    assert found.dtype is torch.bfloat16
    same(found.float(), mixed(x).float(), 2e-2)


def test_pooling_stays_the_devices_own_kernel(tmp_path: Any) -> None:
    model = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)).to("tb")
    plain = copy.deepcopy(model)
    call = compiled(model)
    x = torch.randn(2, 3, 8, 8, device="tb")
    for run in (call, plain):
        run(x).square().sum().backward()
    for parameter, other in zip(model.parameters(), plain.parameters(), strict=True):
        same(parameter.grad, other.grad)
    with tb_stream.trace(tmp_path / "timeline.json"):
        call(x).sum().backward()
    text = (tmp_path / "timeline.json").read_text()
    assert text.count('"aten::max_pool2d_with_indices"') == 2  # queued and run
    assert text.count('"aten::max_pool2d_with_indices_backward"') == 2
    on_cpu = torch.compile(nn.MaxPool2d(2), fullgraph=True)
    same(on_cpu(x.cpu()), nn.MaxPool2d(2)(x.cpu()))


def test_pooling_stays_the_devices_own_kernel_after_inductors_decompositions_were_used(
    run_python: RunPython, tmp_path: Any
) -> None:
    timeline = str(tmp_path / "timeline.json")
    done = run_python(
        f"""
        import torch
        from torch._inductor.decomposition import select_decomp_table
        select_decomp_table()  # as other compilers do, without Inductor's own
        call = torch.compile(torch.nn.MaxPool2d(2).to("tb"), backend="tb_inductor", fullgraph=True)
        call(torch.ones(1, 1, 8, 8, device="tb"))
        import tb_compile
        [graph] = tb_compile.graphs()
        import tb_stream
        with tb_stream.trace({timeline!r}):
            call(torch.ones(1, 1, 8, 8, device="tb"))
        print(open({timeline!r}).read().count('"aten::max_pool2d_with_indices"'))
        """
    )
    assert done.stdout.split() == ["2"]  # queued and run


def test_conditions_and_custom_operators_inside_a_graph() -> None:
    call = compiled(lambda x: torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,)))
    for sign in (1, -1):
        x = sign * torch.rand(5, device="tb")
        same(call(x), x.sin() if sign > 0 else x.cos())

    @torch.library.custom_op("tb_inductor_test::halve", mutates_args=(), device_types=("cpu", "tb"))
    def halve(x: torch.Tensor) -> torch.Tensor:
        return x / 2

    halve.register_fake(torch.empty_like)
    x = torch.randn(4, device="tb")
    same(compiled(lambda x: halve(x + 1) * 2)(x), x + 1)


def test_an_optimizer_step() -> None:
    net = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8)).to("tb")
    plain = copy.deepcopy(net)
    optimizers = [torch.optim.AdamW(one.parameters(), lr=1e-2, capturable=True) for one in (net, plain)]
    step = compiled(lambda: optimizers[0].step(), fullgraph=False)
    for _ in range(3):
        x = torch.randn(4, 8, device="tb")
        for one in (net, plain):
            one.zero_grad()
            one(x).square().sum().backward()
        step()
        optimizers[1].step()
    for parameter, other in zip(net.parameters(), plain.parameters(), strict=True):
        same(parameter, other, 1e-4)


def test_several_devices_and_the_cache_of_a_second_process(run_python: RunPython, tmp_path: Any) -> None:
    code = """
        import torch
        from torch._dynamo.utils import counters
        call = torch.compile(lambda x: (x.sin() * 2).softmax(-1), backend="tb_inductor", fullgraph=True)
        for device in ("tb:1", "tb:0"):
            x = torch.randn(4, 9, device=device)
            y = call(x)
            assert y.device == x.device, y.device
            torch.testing.assert_close(y, (x.sin() * 2).softmax(-1))
        print(counters["inductor"]["fxgraph_cache_hit"])
        """
    environment = {"TB_CPU_DEVICES": "2", "TB_DRIVER": "cpu", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    first, second = (int(run_python(code, env=environment, timeout=240).stdout) for _ in range(2))
    assert first == 0
    assert second == 2


def test_a_captured_step_holds_fused_kernels() -> None:
    import tb_compile

    call = torch.compile(lambda x: (x.sin() * 2 + 1).relu(), backend="tb_inductor", fullgraph=True)
    step = tb_compile.step(lambda x: call(x) @ x)
    for i in range(6):
        x = torch.full((8, 8), float(i), device="tb")
        same(step(x), (x.sin() * 2 + 1).relu() @ x)
    assert step.replays == 3, step.refusal
