"""torch.compile(mode="reduce-overhead") on tb: functions are launched as device graphs, or a reason is reported."""

from __future__ import annotations

import copy
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import tb_compile
import torch
import torch_backend.device_module as tb
from conftest import RunPython
from torch import nn
from torch_backend._testing import held
from torch_backend.conformance.bits import bit_identical

pytestmark = pytest.mark.usefixtures("fresh_compiler")
BACKENDS = ("tb", "tb_inductor")
CALLS = 8  # the third call is captured


def graphed(function: Callable[..., Any], backend: str = "tb", **options: Any) -> Callable[..., Any]:
    options.setdefault("fullgraph", True)
    call: Callable[..., Any] = torch.compile(function, backend=backend, mode="reduce-overhead", **options)
    return call


def launches() -> list[int]:
    return [graph.graphed.launches for graph in tb_compile.graphs() if graph.graphed]


def captures() -> list[int]:
    return [graph.graphed.captures for graph in tb_compile.graphs() if graph.graphed]


def refusals() -> list[str]:
    return [graph.graphed.refusal for graph in tb_compile.graphs() if graph.graphed]


def net() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.BatchNorm1d(16), nn.Linear(16, 4)).to("tb")


def train(model: nn.Module, call: Callable[..., Any], steps: int = CALLS, **options: Any) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    losses = []
    for _ in range(steps):
        x = torch.randn(32, 8, generator=generator).to("tb")
        optimizer.zero_grad(**options)
        loss = call(x).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return losses


@pytest.mark.parametrize("backend", BACKENDS)
def test_training_is_bit_identical_to_the_default_mode(backend: str, no_fallbacks: None) -> None:
    model, plain = net(), net()
    losses = train(model, graphed(model, backend))
    assert bit_identical(torch.stack(losses), torch.stack(train(plain, torch.compile(plain, backend=backend))))
    assert all(bit_identical(*pair) for pair in zip(model.buffers(), plain.buffers(), strict=True))
    assert (launches(), captures(), refusals()) == ([CALLS - 2] * 2, [1, 1], ["", ""])


def test_gradients_accumulate_in_place() -> None:
    model, plain = net(), net()
    losses = train(model, graphed(model), 14, set_to_none=False)
    torch.testing.assert_close(losses, train(plain, plain, 14, set_to_none=False), rtol=1e-5, atol=1e-6)
    assert min(launches()) >= 6


@pytest.mark.parametrize("backend", BACKENDS)
def test_results_that_the_caller_keeps_are_not_overwritten(backend: str) -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x * 2, (x + 1).sum()

    call = graphed(function, backend)
    given = [torch.randn(5, 3, device="tb") for _ in range(12)]
    kept = [call(x) for x in given]
    for x, found in zip(given, kept, strict=True):
        torch.testing.assert_close(found, function(x))
    assert (launches(), captures()) == ([9], [2])  # the call that detects kept results runs without a graph


def test_two_forward_passes_before_a_backward_pass() -> None:
    model, plain = net().eval(), net().eval()
    call = graphed(model)
    for _ in range(CALLS):
        x, y = (torch.randn(4, 8, device="tb") for _ in range(2))
        for one, run in ((model, call), (plain, plain)):
            one.zero_grad()
            (run(x) * run(y)).sum().backward()
        for parameter, other in zip(model.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(parameter.grad, other.grad, rtol=1e-5, atol=1e-6)
    assert min(launches()) > 4


def test_results_survive_launches_of_other_functions() -> None:
    x = torch.randn(64, 64, device="tb")
    first = graphed(lambda x: torch.stack([torch.full_like(x, float(i)) + x for i in range(12)]).sum())
    second = graphed(lambda x: x * 2 + 1)
    for call in (first, second):
        for _ in range(6):
            call(x)
    result = second(x)
    first(x)
    assert bit_identical(result, x * 2 + 1)
    assert launches() == [5, 5]


def test_a_result_with_a_live_view_is_not_overwritten() -> None:
    call = graphed(lambda x: x * 2)
    rows = [call(torch.full((3, 3), float(i), device="tb"))[1] for i in range(CALLS)]
    assert torch.stack(rows)[:, 0].tolist() == [2.0 * i for i in range(CALLS)]


def test_results_may_be_views_of_inputs_and_inputs_may_be_written_to() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x.mul_(2)
        return x[1], y.t(), x.sum()

    call = graphed(function)
    for i in range(CALLS):
        x, y = torch.full((3, 2), float(i), device="tb"), torch.randn(2, 3, device="tb")
        version = x._version
        row, transposed, total = call(x, y)
        assert (row.data_ptr(), transposed.data_ptr()) == (x[1].data_ptr(), y.data_ptr())
        assert (x.tolist(), total.item(), x._version > version) == ([[2.0 * i] * 2] * 3, 12.0 * i, True)
        x.zero_()
        assert row.tolist() == [0.0, 0.0]
    # The caller keeps `total` from call to call. The call that detects this runs without a graph.
    assert launches() == [CALLS - 3]


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_launch_draws_new_numbers_and_the_seed_repeats_it(backend: str) -> None:
    call = graphed(lambda x: torch.dropout(x, 0.5, True), backend)
    x = torch.ones(1000, device="tb")

    def draws() -> list[torch.Tensor]:
        torch.manual_seed(1)
        return [call(x).clone() for _ in range(CALLS)]

    first, second = draws(), draws()
    assert launches() == [2 * CALLS - 2]
    assert all(bit_identical(*pair) for pair in zip(first, second, strict=True))
    assert not any(bit_identical(*pair) for pair in itertools.pairwise(first))


def test_sizes_that_change_have_a_graph_each() -> None:
    call = graphed(lambda x: (x * x.shape[0]).cumsum(0), dynamic=True)
    for _ in range(5):
        for size in (3, 5, 9):
            torch.testing.assert_close(
                call(torch.ones(size, device="tb")).tolist(), [size * (i + 1.0) for i in range(size)]
            )
    assert (captures(), launches()) == ([3], [9])


def test_changing_strides_are_captured_again_a_limited_number_of_times() -> None:
    call = graphed(lambda x: x * 2, dynamic=True)
    square = torch.randn(6, 6, device="tb")
    for i in range(40):
        x = square if i // 4 % 2 else square.t()
        assert bit_identical(call(x), x * 2)
    assert all(count <= 9 for count in captures())


def test_a_broadcast_input_is_copied_once() -> None:
    call = graphed(lambda x: x + 1)
    for i in range(CALLS):
        x = torch.full((1, 4), float(i), device="tb").expand(5, 4)
        assert call(x).tolist() == [[i + 1.0] * 4] * 5
    assert launches() == [CALLS - 2]


@pytest.mark.parametrize(
    ("function", "inputs", "why"),
    [
        (lambda x: x.cpu() + 1, 1, "would wait for the device inside a capture"),
        (lambda x, y: x + y, "cpu", "an input is not on the device"),
        (lambda: torch.ones(3, device="tb") * 2, 0, "no input is a tensor"),
    ],
)
def test_a_function_that_cannot_be_a_graph_runs_plainly_with_a_reason(
    function: Callable[..., torch.Tensor], inputs: Any, why: str
) -> None:
    extra = [torch.tensor(2.0, device=inputs)] if isinstance(inputs, str) else []
    call = graphed(function)
    for _ in range(CALLS + 8):
        given = [torch.ones(3, device="tb")] * (1 if inputs else 0) + extra
        assert bit_identical(call(*given).cpu(), function(*given).cpu())
    [refusal] = refusals()
    assert (why in refusal, launches()) == (True, [0])


def test_inside_a_capture_the_work_joins_the_capture() -> None:
    call = graphed(lambda x: x.sin() * 2)
    x = torch.ones(4, device="tb")
    for _ in range(4):
        call(x)
    before = launches()
    step = tb_compile.step(lambda y: call(y) + 1)
    for i in range(CALLS):
        found = step(torch.full((4,), float(i), device="tb"))
        torch.testing.assert_close(found, torch.full((4,), float(i), device="tb").sin() * 2 + 1)
    assert step.replays > 0
    assert step.refusal == ""
    graph = tb.Graph()
    with tb.graph(graph):
        inside = call(x)
    x.fill_(2)
    graph.replay()
    assert bit_identical(inside, x.sin() * 2)
    assert launches() >= before


def test_another_stream_waits_for_the_launch_before() -> None:
    call = graphed(lambda x: (x @ x) * 1e-2)
    x = torch.randn(500, 500, device="tb")
    expected = x @ x * 1e-2
    for _ in range(4):
        call(x)
    streams = [tb.Stream() for _ in range(3)]
    torch.accelerator.synchronize()
    found: list[torch.Tensor] = []
    with held(streams[0]) as gate:
        gate.open_once_this_thread_waits()
        for i in range(9):
            with tb.stream(streams[i % 3]):
                found.append(call(x).sum())
        torch.accelerator.synchronize()
    torch.testing.assert_close(torch.stack(found), expected.sum().expand(9), rtol=1e-3, atol=1e-2)


def test_threads_may_share_a_function() -> None:
    call = graphed(lambda x: x.exp().sum(1))
    x = torch.randn(64, 64, device="tb")
    expected = call(x).clone()
    wrong: list[int] = []

    def work() -> None:
        for i in range(200):
            if not bit_identical(call(x), expected):
                wrong.append(i)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert launches()[0] > 100


def test_an_error_of_a_call_is_raised_by_it_and_the_next_call_works() -> None:
    call = graphed(lambda x, i: x[i] * 2)
    x = torch.arange(4.0, device="tb")
    for _ in range(CALLS):
        assert call(x, torch.tensor([1], device="tb")).tolist() == [2.0]
    bad = call(x, torch.tensor([7], device="tb"))
    with pytest.raises(IndexError, match="7 is out of bounds"):
        bad.tolist()
    assert call(x, torch.tensor([2], device="tb")).tolist() == [4.0]


def test_many_launches_keep_no_memory() -> None:
    model = net()
    call = graphed(model)
    train(model, call, 6)
    torch.accelerator.synchronize()
    before = tb.memory_allocated()
    for _ in range(300):
        call(torch.randn(32, 8, device="tb")).sum().backward()
        model.zero_grad()
    torch.accelerator.synchronize()
    assert tb.memory_allocated() <= before
    assert min(launches()) > 290


def test_a_dropped_function_frees_its_memory() -> None:
    def once() -> None:
        call = graphed(lambda x: x.sin())
        for _ in range(4):
            call(torch.ones(1 << 18, device="tb"))

    once()
    torch.compiler.reset()
    tb_compile.reset()
    before = tb.memory_allocated()
    once()
    assert tb.memory_allocated() > before
    torch.compiler.reset()
    tb_compile.reset()
    assert tb.memory_allocated() <= before


def test_a_second_process_reuses_cached_code_and_captures_graphs(run_python: RunPython, tmp_path: Any) -> None:
    code = """
        import torch, tb_compile
        from torch._dynamo.utils import counters
        call = torch.compile(lambda x: (x.sin() * 2).sum(), backend="tb_inductor", mode="reduce-overhead")
        for _ in range(6): found = call(torch.ones(5, device="tb"))
        [graph] = tb_compile.graphs()
        print(counters["inductor"]["fxgraph_cache_hit"], graph)
    """
    env = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path), "TORCHINDUCTOR_AUTOGRAD_CACHE": "0"}
    lines = [run_python(code, env, timeout=240).stdout.strip() for _ in range(2)]
    text = "inference graph: 1 generated kernels and what is called between them; 3 launches as a device graph"
    assert lines == [f"0 {text}", f"1 {text}"]  # the first calls run without a graph


def test_inputs_on_several_devices_are_no_graph(run_python: RunPython) -> None:
    done = run_python(
        """
        import torch, tb_compile
        call = torch.compile(lambda x, y: x + y.to("tb:0"), backend="tb", mode="reduce-overhead")
        for _ in range(6): found = call(torch.ones(2, device="tb:0"), torch.ones(2, device="tb:1"))
        alone = torch.compile(lambda x: x * 3, backend="tb", mode="reduce-overhead")
        for _ in range(6): other = alone(torch.ones(2, device="tb:1"))
        print(found.tolist(), other.tolist(), other.device, [str(graph) for graph in tb_compile.graphs()])
        """,
        {"TB_CPU_DEVICES": "2"},
    )
    assert done.stdout.startswith("[2.0, 2.0] [3.0, 3.0] tb:1 ")
    assert "no device graph: inputs are on several devices" in done.stdout
    assert "3 launches as a device graph" in done.stdout


def test_a_driver_without_graphs_is_reported(run_python: RunPython) -> None:
    done = run_python(
        """
        import torch, tb_compile
        call = torch.compile(lambda x: x * 2, backend="tb", mode="reduce-overhead")
        for _ in range(12): found = call(torch.ones(3, device="tb"))
        print(found.tolist(), tb_compile.graphs()[0].graphed.refusal)
        """,
        {"TB_DRIVER": "sim"},
    )
    assert done.stdout.startswith("[2.0, 2.0, 2.0] ")
    assert "sim" in done.stdout
    assert "graph" in done.stdout


def _graphs_in(lines: Sequence[str]) -> int:
    return sum("launches as a device graph" in line for line in lines)


def test_graphs_are_reported_and_counted() -> None:
    model = copy.deepcopy(net())
    train(model, graphed(model), 5)
    assert _graphs_in([str(graph) for graph in tb_compile.graphs()]) == 2
    for function in (lambda x: x.cpu() + 1, lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))):
        call = graphed(function)
        for _ in range(16):
            call(torch.ones(3, device="tb"))
    torch.compile(lambda x: x.sin() + 1)(torch.ones(3, device="tb"))
    assert tb.compiled_graphs()._asdict() == {
        "programs": 3,
        "of_kernels": 1,
        "of_python": 1,
        "captures": 2,
        "launches": 6,
        "refusals": 1,
    }
    with pytest.raises(Exception, match="no such mode; device graphs: 'reduce-overhead'"):
        torch.compile(model, backend="tb", mode="fast")(torch.ones(2, 8, device="tb"))
