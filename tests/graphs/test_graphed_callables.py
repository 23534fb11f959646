"""torch.tb.make_graphed_callables: parts of a step that run as graphs give the same results as before."""

from __future__ import annotations

import pytest
import torch
import torch_backend.device_module as tb
from torch import nn
from torch_backend.conformance.bits import bit_identical

pytestmark = pytest.mark.usefixtures("one_thread")


def test_graphed_callables_train_as_the_originals() -> None:
    def trained(graphed: bool) -> list[torch.Tensor]:
        torch.manual_seed(1)
        first, second = nn.Sequential(nn.Linear(32, 8), nn.ReLU(), nn.Linear(8, 4)).to("tb"), nn.Linear(4, 2).to("tb")
        x = torch.randn(6, 32).to("tb")
        optimizer = torch.optim.SGD([*first.parameters(), *second.parameters()], lr=0.1)
        if graphed:
            hidden = torch.randn(6, 4, device="tb", requires_grad=True)
            first, second = tb.make_graphed_callables((first, second), ((x.clone(),), (hidden,)))
        for number in range(4):
            optimizer.zero_grad(set_to_none=True)
            for part in (0.5, 1.0):  # the gradients of two passes accumulate
                second(first(x * part + number)).square().mean().backward()
            optimizer.step()
        return [p.detach().cpu() for p in (*first.parameters(), *second.parameters())]

    for wanted, got in zip(trained(False), trained(True), strict=True):
        assert bit_identical(wanted, got)


def test_a_graphed_function_takes_and_gives_tensors() -> None:
    def function(a: torch.Tensor, b: tuple[torch.Tensor, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {"sum": a + b[0], "order": b[1].argsort()}

    a = torch.randn(5, device="tb", requires_grad=True)
    b = (torch.randn(5, device="tb"), torch.randn(5, device="tb"))
    graphed = tb.make_graphed_callables(function, (a, b))
    for _ in range(2):
        a = torch.randn(5, device="tb", requires_grad=True)
        b = (torch.randn(5, device="tb"), torch.randn(5, device="tb"))
        got, wanted = graphed(a, b), function(a, b)
        assert bit_identical(got["sum"], wanted["sum"])
        assert bit_identical(got["order"], wanted["order"])
        (gradient,) = torch.autograd.grad(got["sum"].sum(), a)
        assert gradient.tolist() == [1.0] * 5
    with pytest.raises(TypeError, match="nothing but tensors"):
        tb.make_graphed_callables(lambda x: 1, (a,))
    with pytest.raises(TypeError, match="nested in another way"):
        graphed(a, b[0])
