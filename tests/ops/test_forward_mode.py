"""Forward-mode derivatives of recurrent layers and cells, whose fused cells have no formula in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.func import functional_call, jvp
from torch.utils import _pytree as pytree

LAYERS: dict[str, tuple[Callable[[], torch.nn.Module], tuple[int, ...]]] = {
    "LSTM": (lambda: torch.nn.LSTM(3, 4, 2), (5, 2, 3)),
    "LSTM with projections": (lambda: torch.nn.LSTM(3, 4, proj_size=2), (5, 2, 3)),
    "LSTM in both directions without biases": (lambda: torch.nn.LSTM(3, 4, bidirectional=True, bias=False), (5, 2, 3)),
    "GRU": (lambda: torch.nn.GRU(3, 4, 2), (5, 2, 3)),
    "GRU without biases": (lambda: torch.nn.GRU(3, 4, bias=False), (5, 2, 3)),
    "LSTMCell": (lambda: torch.nn.LSTMCell(3, 4), (2, 3)),
    "GRUCell": (lambda: torch.nn.GRUCell(3, 4), (2, 3)),
}


def tangents(name: str, dtype: torch.dtype, device: str) -> Any:
    """The results and their derivatives in a direction of the input and of all parameters."""
    make, shape = LAYERS[name]
    torch.manual_seed(0)
    module = make().to(dtype)
    x, direction = torch.randn(*shape, dtype=dtype), torch.randn(*shape, dtype=dtype)
    module, x, direction = module.to(device), x.to(device), direction.to(device)
    parameters = {key: value.detach() for key, value in module.named_parameters()}
    along = {key: torch.ones_like(value) for key, value in parameters.items()}
    call = lambda given, weights: functional_call(module, weights, (given,))  # noqa: E731
    return [leaf.cpu() for leaf in pytree.tree_leaves(jvp(call, (x, parameters), (direction, along)))]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("name", LAYERS)
def test_forward_mode_derivatives_are_the_cpus(name: str, dtype: torch.dtype) -> None:
    try:
        expected = tangents(name, dtype, "cpu")
    except NotImplementedError:  # stock CPU has no formula of oneDNN's float layers
        with pytest.raises(NotImplementedError, match="does not support it"):
            tangents(name, dtype, "tb")
        return
    torch.testing.assert_close(tangents(name, dtype, "tb"), expected)


def test_gradients_of_forward_mode_derivatives_are_the_cpus() -> None:
    def second(device: str) -> torch.Tensor:
        torch.manual_seed(0)
        cell = torch.nn.GRUCell(3, 4).double().to(device)
        x = torch.linspace(-1, 1, 6, dtype=torch.float64).view(2, 3).to(device).requires_grad_()
        along = jvp(lambda given: cell(given), (x,), (torch.ones_like(x),))[1]
        [gradient] = torch.autograd.grad(along.square().sum(), x)
        return gradient.cpu()

    torch.testing.assert_close(second("tb"), second("cpu"))


def test_the_fused_cells_keep_their_gradients() -> None:
    def first(device: str) -> list[torch.Tensor]:
        torch.manual_seed(0)
        cell = torch.nn.LSTMCell(3, 4).double().to(device)
        x = torch.linspace(-1, 1, 6, dtype=torch.float64).view(2, 3).to(device).requires_grad_()
        hidden, state = cell(x)
        return [g.cpu() for g in torch.autograd.grad((hidden * state).sum(), [x, *cell.parameters()])]

    torch.testing.assert_close(first("tb"), first("cpu"))
