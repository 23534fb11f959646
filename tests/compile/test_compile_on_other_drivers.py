"""All front ends on drivers whose memory is not the host's: the losses and results are stock CPU's.

Tested on the simulation only.
"""

from __future__ import annotations

import pytest
from conftest import RunPython
from sim_vendor import simulated

PROGRAM = """
    import copy, warnings
    warnings.simplefilter("ignore")
    import torch, tb_compile
    from tb_compile import jit
    from torch import nn

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
            self.head = nn.Linear(16, 4)

        def forward(self, x):
            return self.head(self.layer(x).mean(1))

    def train(net, device, wrap):
        net = net.to(device)
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
        call = wrap(net)
        generator = torch.Generator().manual_seed(1)
        losses = []
        for _ in range(5):
            x = torch.randn(4, 6, 16, generator=generator).to(device)
            y = torch.randint(4, (4,), generator=generator).to(device)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(call(x), y)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    torch.manual_seed(0)
    net = Encoder()
    stock = train(copy.deepcopy(net), "cpu", lambda net: net)
    compiled = train(net, "tb", lambda net: torch.compile(net, backend="tb", fullgraph=True))
    assert max(abs(a - b) for a, b in zip(stock, compiled)) <= 1e-4, (stock, compiled)
    assert {(graph.which, graph.reason) for graph in tb_compile.graphs()} == {("forward", ""), ("backward", "")}
    assert [graph.runs for graph in tb_compile.graphs()] == [5, 5]

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 3)

        def forward(self, x):
            return self.b(torch.relu(self.a(x)) + x)

    x = torch.randn(2, 8)
    scripted = torch.jit.trace(Net().eval(), x)
    torch.testing.assert_close(jit.to_backend(scripted, {"forward": {}})(x.to("tb")).cpu(), scripted(x))

    step = tb_compile.step(lambda x: x @ x + 1)
    x = torch.randn(4, 4)
    for _ in range(6):
        torch.testing.assert_close(step(x.to("tb")).cpu(), x @ x + 1)
    print("captured" if step.replays else f"refused: {step.refusal}")
"""

LAZY = """
    import warnings
    warnings.simplefilter("ignore")
    import torch
    from torch import nn
    from tb_compile import lazy
    lazy.init()

    def train(device):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4)).to(device)
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
        generator = torch.Generator().manual_seed(1)
        losses = []
        for _ in range(5):
            x = torch.randn(4, 8, generator=generator).to(device)
            y = torch.randint(4, (4,), generator=generator).to(device)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            loss.backward()
            optimizer.step()
            if device == "lazy":
                lazy.mark_step()
            losses.append(loss)
        return [loss.item() for loss in losses]

    stock, found = train("cpu"), train("lazy")
    assert max(abs(a - b) for a, b in zip(stock, found)) <= 1e-4, (stock, found)
    print(lazy.counts()["compilations"])
"""


def variables(driver: str) -> dict[str, str]:
    found = {"TB_DRIVER": "sim"} if driver == "sim" else simulated.variables(driver)
    return {**found, "TB_FALLBACK": "allow"}


@pytest.mark.parametrize("driver", ["sim", "cuda", "npu"])
def test_lazy_losses_are_those_of_stock_cpu(driver: str, run_python: RunPython) -> None:
    assert run_python(LAZY, env=variables(driver), timeout=300).stdout == "2\n"


@pytest.mark.parametrize("driver", ["sim", "cuda", "npu"])
def test_losses_and_results_are_those_of_stock_cpu(driver: str, run_python: RunPython) -> None:
    done = run_python(PROGRAM, env=variables(driver), timeout=300)
    if driver == "cuda":
        assert done.stdout == "captured\n"
    else:
        assert "the driver cannot capture work (it has no extension tb.graph)" in done.stdout
