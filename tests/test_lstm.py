"""nn.LSTM on tb takes stock CPU's way, whole layers in oneDNN, and so gives the same bits."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from kernel_cases import Source, assert_same, backward
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils._python_dispatch import TorchDispatchMode

tb: Any = torch.tb  # type: ignore[attr-defined]

# How a matrix product or a sum is cut among threads changes its last bits.
pytestmark = pytest.mark.usefixtures("one_thread")

OPTIONS: dict[str, dict[str, Any]] = {
    "one layer": {},
    "layers": {"num_layers": 3},
    "both directions": {"num_layers": 2, "bidirectional": True},
    "batch first": {"batch_first": True, "bidirectional": True},
    "no biases": {"bias": False, "num_layers": 2},
    "everything dropped between layers": {"num_layers": 2, "dropout": 1.0},  # other masks would be other numbers
}


class Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the names of the operators that are called in it."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.add(str(func))
        return func(*args, **(kwargs or {}))


def network(device: str, **options: Any) -> nn.LSTM:
    torch.manual_seed(1)
    return nn.LSTM(5, 7, **options).to(device)


def state(source: Source, lstm: nn.LSTM, batch: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return source.randn(lstm.num_layers * (1 + lstm.bidirectional), batch, 7, dtype=dtype, grad=True)


def run(device: str, dtype: torch.dtype = torch.float32, **options: Any) -> list[Any]:
    """Outputs and the gradients of all that has some, from each output; twice, since later calls take another path."""
    source, lstm = Source(device), network(device, **options).to(dtype)
    results: list[Any] = []
    for _ in range(2):
        x = source.randn(4, 3, 5, dtype=dtype, grad=True)
        hidden, cell = (state(source, lstm, 4 if lstm.batch_first else 3, dtype) for _ in range(2))
        out, (last_hidden, last_cell) = lstm(x, (hidden, cell))
        results += [out, last_hidden, last_cell]
        for result in (out, last_hidden, last_cell):
            results += backward(result, x, hidden, cell, *lstm.parameters(), retain=True)
    return results


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", OPTIONS)
def test_results_and_gradients_are_those_of_stock_cpu(name: str, dtype: torch.dtype, no_fallbacks: None) -> None:
    assert_same(run("cpu", dtype, **OPTIONS[name]), run("tb", dtype, **OPTIONS[name]))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients_results_are_those_of_stock_cpu(mode: Any, no_fallbacks: None) -> None:
    """Such a layer keeps no workspace for the backward pass; one with gradients does, be it of the same shapes."""

    def infer_and_train(device: str) -> list[Any]:
        lstm, x = network(device, num_layers=2), Source(device).randn(4, 3, 5)
        results: list[Any] = []
        for _ in range(2):
            with mode():
                results += [lstm(x), lstm(x)]
            out, _ = lstm(x)
            results += [out, *backward(out, *lstm.parameters())]
        return results

    assert_same(infer_and_train("cpu"), infer_and_train("tb"))


def test_one_tensor_as_both_states(no_fallbacks: None) -> None:
    def once(device: str) -> list[Any]:
        source, lstm = Source(device), network(device)
        x, both = source.randn(4, 3, 5, grad=True), state(source, lstm, 3)
        results: list[Any] = []
        for _ in range(2):
            out, _ = lstm(x, (both, both))
            results += [out, *backward(out, x, both, *lstm.parameters())]
        return results

    assert_same(once("cpu"), once("tb"))


def test_gradients_of_gradients_are_those_of_stock_cpu(no_fallbacks: None) -> None:
    def twice(device: str) -> list[Any]:
        lstm, x = network(device, num_layers=2), Source(device).randn(4, 3, 5, grad=True)
        inputs = [x, *lstm.parameters()]
        first = torch.autograd.grad(lstm(x)[0].square().sum(), inputs, create_graph=True)
        return [*first, *torch.autograd.grad(torch.stack([g.square().sum() for g in first]).sum(), inputs)]

    assert_same(twice("cpu"), twice("tb"))


def test_whole_layers_run_in_one_operator() -> None:
    lstm, x = network("tb", num_layers=2), Source("tb").randn(4, 3, 5)
    with Operators() as seen:
        lstm(x)[0].sum().backward()
    assert {"aten.mkldnn_rnn_layer.default", "aten.mkldnn_rnn_layer_backward.default"} <= seen.names


@pytest.mark.parametrize("options", [{"proj_size": 3}, {"dtype": torch.float64}])
def test_what_stock_cpu_composes_is_composed(options: dict[str, Any], no_fallbacks: None) -> None:
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


def test_a_forced_layer_still_computes() -> None:
    lstm, x = network("tb"), Source("tb").randn(4, 3, 5)
    expected = lstm(x)[0]
    with tb.force_fallback("aten::mkldnn_rnn_layer"):
        assert torch.equal(lstm(x)[0], expected)
