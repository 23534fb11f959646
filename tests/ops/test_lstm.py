"""nn.LSTM on tb runs whole layers: our kernel computes float layers with AVX-512, and oneDNN computes the others.

Stock CPU uses oneDNN, which adds in a different order than our kernel. So the errors of both against float64 are
compared. Layers that oneDNN computes on tb are bit-identical to stock CPU's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from ops.cases.case import Source, assert_same, backward, leaves
from ops.replay import replayed
from ops.threads import one_thread
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils._python_dispatch import TorchDispatchMode

tb: Any = torch.tb  # type: ignore[attr-defined]

# The number of threads changes the last bits of matrix products and sums.
pytestmark = pytest.mark.usefixtures("one_thread")

OPTIONS: dict[str, dict[str, Any]] = {
    "one layer": {},
    "layers": {"num_layers": 3},
    "both directions": {"num_layers": 2, "bidirectional": True},
    "batch first": {"batch_first": True, "bidirectional": True},
    "no biases": {"bias": False, "num_layers": 2},
    # A probability below 1 would draw different masks on each device.
    "everything dropped between layers": {"num_layers": 2, "dropout": 1.0},
}


class Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records the names of the operators that are called inside it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(str(func))
        return func(*args, **(kwargs or {}))


def network(device: str, inputs: int = 5, hidden: int = 7, **options: Any) -> nn.LSTM:
    torch.manual_seed(1)
    return nn.LSTM(inputs, hidden, **options).to(device)


def state(source: Source, lstm: nn.LSTM, batch: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return source.randn(lstm.num_layers * (1 + lstm.bidirectional), batch, lstm.hidden_size, dtype=dtype, grad=True)


def run(
    device: str,
    dtype: torch.dtype = torch.float32,
    sizes: tuple[int, int, int, int] = (4, 3, 5, 7),
    **options: Any,
) -> list[Any]:
    """The outputs, and all gradients from each output; twice, because later calls use the layout cache."""
    first, second, inputs, hidden_size = sizes
    source, lstm = Source(device), network(device, inputs, hidden_size, **options).to(dtype)
    results: list[Any] = []
    for _ in range(2):
        x = source.randn(first, second, inputs, dtype=dtype, grad=True)
        hidden, cell = (state(source, lstm, first if lstm.batch_first else second, dtype) for _ in range(2))
        out, (last_hidden, last_cell) = lstm(x, (hidden, cell))
        results += [out, last_hidden, last_cell]
        for result in (out, last_hidden, last_cell):
            results += backward(result, x, hidden, cell, *lstm.parameters(), retain=True)
    return results


def errors(results: list[Tensor], exact: list[Tensor]) -> list[float]:
    """The largest error of each tensor, relative to the tensor's largest element."""
    found = []
    for one, other in zip(results, exact, strict=True):
        assert one.shape == other.shape
        difference, largest = (one.detach().cpu().double() - other).abs().max().item(), other.abs().max().item()
        found.append(difference / (largest or 1))
    return found


def assert_as_exact(on: Callable[..., list[Tensor]], dtype: torch.dtype = torch.float32) -> None:
    """Checks that on(device, dtype) is about as close to float64 on tb as on stock CPU."""
    exact, stock, ours = on("cpu", torch.float64), on("cpu", dtype), on("tb", dtype)
    for here, there in zip(errors(ours, exact), errors(stock, exact), strict=True):
        assert here <= 3 * there + 8 * torch.finfo(dtype).eps


@pytest.mark.parametrize("name", OPTIONS)
def test_results_and_gradients_of_bfloat16_are_those_of_stock_cpu(name: str, no_fallbacks: None) -> None:
    """They are bit-identical if oneDNN has bfloat16 layers. Otherwise both compose layers of different products."""
    if torch.ops.mkldnn._is_mkldnn_bf16_supported():
        assert_same(run("cpu", torch.bfloat16, **OPTIONS[name]), run("tb", torch.bfloat16, **OPTIONS[name]))
    else:
        assert_as_exact(lambda device, dtype: run(device, dtype, **OPTIONS[name]), torch.bfloat16)


@pytest.mark.parametrize("name", OPTIONS)
def test_results_and_gradients_are_as_exact_as_those_of_stock_cpu(name: str, no_fallbacks: None) -> None:
    assert_as_exact(lambda device, dtype: run(device, dtype, **OPTIONS[name]))


# Sizes around the boundaries of our kernel's tiles: 14 rows, 16 lanes, 32 columns and K = 192.
@pytest.mark.parametrize("sizes", [(1, 1, 1, 1), (2, 14, 32, 16), (3, 15, 33, 17), (1, 40, 200, 48), (9, 2, 3, 97)])
def test_sizes_around_the_boundaries_of_tiles(sizes: tuple[int, int, int, int], no_fallbacks: None) -> None:
    assert_as_exact(lambda device, dtype: run(device, dtype, sizes, num_layers=2, bidirectional=True))


@pytest.mark.parametrize("wanted", ["input", "weights", "hidden", "cell", "input bias", "hidden bias"])
@pytest.mark.parametrize("of", ["output", "hidden", "cell"])
def test_one_gradient_alone(wanted: str, of: str, no_fallbacks: None) -> None:
    """The gradient of one result with respect to one tensor. The output's gradient is expanded, with strides of 0."""

    def once(device: str, dtype: torch.dtype) -> list[Tensor]:
        source, lstm = Source(device), network(device).to(dtype).requires_grad_(False)
        x, hidden, cell = (source.randn(*shape, dtype=dtype) for shape in ((4, 3, 5), (1, 3, 7), (1, 3, 7)))
        parameters = dict(lstm.named_parameters())
        tensors: dict[str, list[Tensor]] = {
            "input": [x],
            "weights": [parameters["weight_ih_l0"], parameters["weight_hh_l0"]],
            "hidden": [hidden],
            "cell": [cell],
            "input bias": [parameters["bias_ih_l0"]],
            "hidden bias": [parameters["bias_hh_l0"]],
        }
        for tensor in tensors[wanted]:
            tensor.requires_grad_()
        out, (last_hidden, last_cell) = lstm(x, (hidden, cell))
        result = {"output": out, "hidden": last_hidden, "cell": last_cell}[of]
        return list(torch.autograd.grad(result.sum(), tensors[wanted]))

    assert_as_exact(once)


def test_saturated_gates_and_nan() -> None:
    """Large sums saturate gates at 0, 1 or -1. A NaN in one sequence does not reach the others."""

    def once(device: str) -> Tensor:
        lstm, x = network(device, 4, 18), Source(device).randn(3, 4, 4)
        x[0, 1] *= 1e6
        x[0, 2] *= 1e30
        x[1, 3, 0] = float("nan")
        with torch.no_grad():
            return torch.Tensor.cpu(lstm(x)[0])

    expected, found = once("cpu"), once("tb")
    torch.testing.assert_close(found, expected, equal_nan=True)
    assert found.isnan().any(-1).tolist() == [[False] * 4, [False] * 3 + [True], [False] * 3 + [True]]


def test_results_do_not_depend_on_thread_count_or_gradients() -> None:
    """Replays of graphs, in which threads share the work, agree too; without AVX-512 only up to the last bits."""
    close = functools.partial(torch.allclose, atol=1e-6)
    same = torch.equal if torch.backends.cpu.get_cpu_capability() == "AVX512" else close
    lstm, x = network("tb", 33, 40, num_layers=2, bidirectional=True), Source("tb").randn(12, 9, 33, grad=True)

    def step() -> list[Tensor]:
        out, _ = lstm(x)
        return [out.detach(), *torch.autograd.grad(out.sin().sum(), [x, *lstm.parameters()])]

    with one_thread():
        expected = [tensor.cpu() for tensor in step()]
        with torch.no_grad():
            assert same(lstm(x)[0].cpu(), expected[0])
    before = torch.get_num_threads()
    try:
        for threads in (2, 3, 5):
            torch.set_num_threads(threads)
            for one, other in zip(expected, replayed(step), strict=True):
                assert same(one, other)
    finally:
        torch.set_num_threads(before)


def test_a_backward_pass_can_be_repeated_with_retain_graph() -> None:
    lstm, x = network("tb", num_layers=2), Source("tb").randn(4, 3, 5, grad=True)
    out = lstm(x)[0].square().sum()
    first, second = (torch.autograd.grad(out, [x, *lstm.parameters()], retain_graph=i == 0) for i in range(2))
    assert_same([g.cpu() for g in first], [g.cpu() for g in second])
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(out, x)


@pytest.mark.parametrize("what", ["output", "weight"])
def test_a_tensor_changed_before_the_backward_pass_is_an_error(what: str) -> None:
    lstm, x = network("tb"), Source("tb").randn(4, 3, 5, grad=True)
    out, _ = lstm(x)
    loss = out.sum()  # the gradient of the sum does not read `out`
    with torch.no_grad():
        (out if what == "output" else dict(lstm.named_parameters())["weight_hh_l0"]).mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_memory_of_a_layer_is_freed_after_use() -> None:
    lstm, x = network("tb", 64, 64), Source("tb").randn(50, 8, 64)

    def used() -> int:
        tb.synchronize()
        return int(tb.memory_allocated())

    lstm(x)[0].sum().backward()
    lstm.zero_grad()
    before = used()
    for _ in range(3):
        lstm(x)
        lstm(x)[0].sum().backward()
    lstm.zero_grad()
    assert used() == before


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients_results_are_as_exact(mode: Any, no_fallbacks: None) -> None:
    """Without gradients a layer keeps no workspace. A layer with gradients and the same shapes must still get one."""

    def infer_and_train(device: str, dtype: torch.dtype) -> list[Any]:
        lstm, x = network(device, num_layers=2).to(dtype), Source(device).randn(4, 3, 5, dtype=dtype)
        results: list[Any] = []
        for _ in range(2):
            with mode():
                results += [*leaves([lstm(x), lstm(x)])]
            out, _ = lstm(x)
            results += [out, *backward(out, *lstm.parameters())]
        return results

    assert_as_exact(infer_and_train)


def test_one_tensor_as_both_states(no_fallbacks: None) -> None:
    def once(device: str, dtype: torch.dtype) -> list[Any]:
        source, lstm = Source(device), network(device).to(dtype)
        x, both = source.randn(4, 3, 5, dtype=dtype, grad=True), state(source, lstm, 3, dtype)
        results: list[Any] = []
        for _ in range(2):
            out, _ = lstm(x, (both, both))
            results += [out, *backward(out, x, both, *lstm.parameters())]
        return results

    assert_as_exact(once)


def test_gradients_of_gradients_are_as_exact_as_those_of_stock_cpu(no_fallbacks: None) -> None:
    def twice(device: str, dtype: torch.dtype) -> list[Any]:
        lstm = network(device, num_layers=2).to(dtype)
        x = Source(device).randn(4, 3, 5, dtype=dtype, grad=True)
        inputs = [x, *lstm.parameters()]
        first = torch.autograd.grad(lstm(x)[0].square().sum(), inputs, create_graph=True)
        return [*first, *torch.autograd.grad(torch.stack([g.square().sum() for g in first]).sum(), inputs)]

    assert_as_exact(twice)


def test_whole_layers_run_in_one_operator() -> None:
    """Under a dispatch mode, which observes operators, oneDNN computes the layers."""
    lstm, x = network("tb", num_layers=2), Source("tb").randn(4, 3, 5)
    with Operators() as seen:
        lstm(x)[0].sum().backward()
    assert {"aten.mkldnn_rnn_layer.default", "aten.mkldnn_rnn_layer_backward.default"} <= seen.names


@pytest.mark.parametrize("options", [{"proj_size": 3}, {"dtype": torch.float64}])
def test_layers_that_stock_cpu_composes_are_composed(options: dict[str, Any], no_fallbacks: None) -> None:
    def once(device: str) -> list[Any]:
        lstm = network(device, **options)
        x = Source(device).randn(4, 3, 5, dtype=options.get("dtype", torch.float32), grad=True)
        with Operators() as seen:
            out, _ = lstm(x)
        assert "aten.mkldnn_rnn_layer.default" not in seen.names
        return [out, *backward(out, x, *lstm.parameters())]

    for expected, actual in zip(once("cpu"), once("tb"), strict=True):
        torch.testing.assert_close(actual.cpu(), expected)


def test_with_onednn_off_no_layer_runs_in_it(no_fallbacks: None) -> None:
    lstm, x = network("tb"), Source("tb").randn(4, 3, 5)
    expected = lstm(x)[0].cpu()
    with torch.backends.mkldnn.flags(enabled=False), Operators() as seen:
        out = lstm(x)[0]
    assert "aten.mkldnn_rnn_layer.default" not in seen.names
    torch.testing.assert_close(out.cpu(), expected)


def test_packed_sequences_agree_with_stock_cpu(no_fallbacks: None) -> None:
    def once(device: str) -> Tensor:
        out: Any = network(device)(pack_padded_sequence(Source(device).randn(4, 3, 5), torch.tensor([4, 2, 1])))[0]
        return torch.Tensor.cpu(out.data)

    torch.testing.assert_close(once("tb"), once("cpu"))


def test_autocast_lowers_the_precision(no_fallbacks: None) -> None:
    lstm, x = network("tb"), Source("tb").randn(4, 3, 5)
    with torch.autocast("tb", dtype=torch.bfloat16):
        out = lstm(x)[0]
    assert out.dtype == torch.bfloat16
    out.float().sum().backward()
    torch.testing.assert_close(out.float(), lstm(x)[0], rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("wrong", ["forward derivative", "width", "state on the cpu"])
def test_errors_are_those_of_pytorch(wrong: str) -> None:
    def call(device: str) -> None:
        lstm, x = network(device), Source(device).randn(4, 3, 5)
        if wrong == "forward derivative":
            torch.func.jvp(lambda x: lstm(x)[0], (x,), (x,))
        elif wrong == "width":
            lstm(x[..., :4])
        else:
            other = "meta" if device == "cpu" else "cpu"
            lstm(x, (torch.zeros(1, 3, 7, device=other), torch.zeros(1, 3, 7, device=other)))

    with pytest.raises(Exception) as expected:  # noqa: PT011 - whatever stock CPU raises
        call("cpu")
    with pytest.raises(type(expected.value)):
        call("tb")


def test_forcing_a_composition_is_refused() -> None:
    with pytest.raises(NotImplementedError, match="composed of other operators"), tb.force_fallback("aten::lstm.input"):
        pass


@pytest.mark.parametrize("name", ["aten::mkldnn_rnn_layer", "aten::mkldnn_rnn_layer_backward"])
def test_a_forced_layer_is_bit_identical_to_stock_cpu(name: str) -> None:
    """If one of the two passes is forced, both run in oneDNN, because the workspaces of the kernels differ."""
    with tb.force_fallback(name):
        assert_same(run("cpu"), run("tb"))
    lstm, x = network("tb"), Source("tb").randn(4, 3, 5)
    out, _ = lstm(x)
    with tb.force_fallback(name):  # the fallback is forced after the forward pass
        backward(out, *lstm.parameters())
