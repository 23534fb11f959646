"""Device graphs in PyTorch: results of captured steps, calls that a capture refuses, and the memory of graphs."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest
import tb_stream
import torch
import torch.nn.functional as F
import torch_backend.device_module as tb
from torch import nn
from torch_backend.conformance.bits import bit_identical

pytestmark = pytest.mark.usefixtures("one_thread")

Step = Callable[[], torch.Tensor]


def mlp(dropout: float = 0.0) -> nn.Sequential:
    layers: list[nn.Module] = []
    for _ in range(3):
        layers += [nn.Linear(32, 32), nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*layers, nn.Linear(32, 4))


def block() -> nn.Module:
    return nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True)


class Training:
    """A model on tb with static inputs. Every instance has the same weights and inputs."""

    def __init__(self, model: Callable[[], nn.Module], optimizer: str) -> None:
        torch.manual_seed(3)
        self.model = model().to("tb").train()
        shape = (8, 6, 32) if isinstance(self.model, nn.TransformerEncoderLayer) else (8, 32)
        self.x = torch.randn(shape).to("tb")
        make = {
            "sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
            "adamw capturable": lambda p: torch.optim.AdamW(p, lr=1e-2, capturable=True),
            "adamw fused": lambda p: torch.optim.AdamW(p, lr=1e-2, fused=True, capturable=True),
        }
        self.optimizer = make[optimizer](self.model.parameters())  # type: ignore[no-untyped-call]
        self.loss = torch.empty((), device="tb")

    def step(self) -> None:
        self.optimizer.zero_grad(set_to_none=True)
        out = self.model(self.x)
        loss = F.mse_loss(out, torch.ones_like(out))
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.loss = loss.detach()

    def warmed_up(self) -> Training:
        """Runs three steps on another stream, as torch.cuda's documentation recommends."""
        aside = tb.Stream()
        aside.wait_stream(tb.current_stream())
        with tb.stream(aside):
            for _ in range(3):
                self.step()
        tb.current_stream().wait_stream(aside)
        return self

    def parameters(self) -> list[torch.Tensor]:
        return [parameter.detach().cpu() for parameter in self.model.parameters()]


def eager(training: Training, steps: int, batches: list[torch.Tensor] | None = None) -> list[float]:
    losses = []
    for number in range(steps):
        if batches:
            training.x.copy_(batches[number])
        training.step()
        losses.append(training.loss.item())
    return losses


def captured(training: Training) -> tb.Graph:
    graph = tb.Graph()
    with tb.graph(graph):
        training.step()
    return graph


def replayed(training: Training, graph: tb.Graph, steps: int, batches: list[torch.Tensor] | None = None) -> list[float]:
    losses = []
    for number in range(steps):
        if batches:
            training.x.copy_(batches[number])
        graph.replay()
        losses.append(training.loss.item())
    return losses


@pytest.mark.parametrize("optimizer", ["sgd", "adamw capturable", "adamw fused"])
@pytest.mark.parametrize("model", [mlp, lambda: mlp(0.3), block], ids=["mlp", "mlp with dropout", "transformer"])
def test_replays_compute_what_eager_steps_do(model: Callable[[], nn.Module], optimizer: str) -> None:
    batches = [torch.randn_like(Training(model, optimizer).x.cpu()) for _ in range(5)]
    one, other = Training(model, optimizer).warmed_up(), None
    torch.manual_seed(11)
    expected = eager(one, 5, batches)
    state = tb.get_rng_state()
    other = Training(model, optimizer).warmed_up()
    graph = captured(other)
    torch.manual_seed(11)
    assert replayed(other, graph, 5, batches) == expected
    for wanted, got in zip(one.parameters(), other.parameters(), strict=True):
        assert bit_identical(wanted, got)
    assert bit_identical(tb.get_rng_state(), state)


def test_dropout_differs_from_replay_to_replay_and_continues_the_sequence() -> None:
    x = torch.ones(64, device="tb")
    F.dropout(x, 0.5), torch.rand(8, device="tb")
    graph = tb.Graph()
    torch.manual_seed(5)
    with tb.graph(graph):
        y = F.dropout(x, 0.5)
        z = torch.rand(8, device="tb")
    got = []
    for _ in range(3):
        graph.replay()
        got.append((y.cpu(), z.cpu()))
    more = torch.rand(8, device="tb").cpu()
    torch.manual_seed(5)
    expected = [(F.dropout(x, 0.5).cpu(), torch.rand(8, device="tb").cpu()) for _ in range(3)]
    assert not bit_identical(got[0][0], got[1][0])
    for pair, wanted in zip(got, expected, strict=True):
        assert bit_identical(pair[0], wanted[0])
        assert bit_identical(pair[1], wanted[1])
    assert bit_identical(more, torch.rand(8, device="tb").cpu())


def test_each_queued_replay_draws_its_own_random_numbers() -> None:
    x = torch.empty(16, device="tb")
    kept = torch.empty(4, 16, device="tb")
    x.uniform_()
    graph = tb.Graph()
    with tb.graph(graph):
        x.uniform_()
    torch.manual_seed(9)
    for row in kept:  # the replays and copies are queued without a wait
        graph.replay()
        row.copy_(x)
    torch.manual_seed(9)
    expected = [torch.empty(16, device="tb").uniform_().cpu() for _ in range(4)]
    assert bit_identical(kept.cpu(), torch.stack(expected))


def test_explicit_generators_and_random_operators_with_cached_layouts() -> None:
    generator = torch.Generator("tb").manual_seed(1)
    rates = torch.full((32,), 4.0, device="tb")
    x = torch.empty(32, device="tb")

    def draw() -> torch.Tensor:
        x.normal_(generator=generator)
        return torch.poisson(rates, generator=generator)

    draw(), draw()
    state = generator.get_state()
    expected = [(draw().cpu(), x.cpu()) for _ in range(3)]
    generator.set_state(state)
    graph = tb.Graph()
    with tb.graph(graph):
        y = draw()
    assert bit_identical(generator.get_state(), state)
    for wanted_y, wanted_x in expected:
        graph.replay()
        assert bit_identical(y.cpu(), wanted_y)
        assert bit_identical(x.cpu(), wanted_x)


def test_checkpoints_recompute_the_same_dropout() -> None:
    from torch.utils.checkpoint import checkpoint

    layer = nn.Linear(16, 16).to("tb")
    x = torch.randn(4, 16).to("tb")

    def step() -> torch.Tensor:
        layer.zero_grad(set_to_none=True)
        out = x
        for _ in range(2):
            out = checkpoint(lambda value: F.dropout(layer(value), 0.5), out, use_reentrant=False)
        out.sum().backward()  # type: ignore[no-untyped-call]
        assert layer.weight.grad is not None
        return layer.weight.grad

    for _ in range(2):
        step()
    torch.manual_seed(2)
    expected = [step().cpu() for _ in range(3)]
    graph = tb.Graph()
    with tb.graph(graph):
        gradient = step()
    torch.manual_seed(2)
    for wanted in expected:
        graph.replay()
        assert bit_identical(gradient.cpu(), wanted)


# ---- what a capture refuses ------------------------------------------------------------------------------------------


def refused(body: Callable[[], object], match: str) -> None:
    graph = tb.Graph()
    with pytest.raises(RuntimeError, match=match), tb.graph(graph):
        body()
    with pytest.raises(RuntimeError, match="holds no captured work"):
        graph.replay()
    assert (torch.ones(3, device="tb") + 1).sum().item() == 6


def test_waiting_inside_names_operator_line_and_remedy() -> None:
    x = torch.ones(3, device="tb")
    refused(lambda: x.sum().item(), r"_local_scalar_dense.* at .*test_graphs.py:\d+.* read results after replay")
    refused(lambda: x.nonzero(), r"aten::nonzero at .*test_graphs.py:\d+ .*would wait")
    refused(lambda: x.cpu(), r"aten::copy_ at .*test_graphs.py:\d+ .*would wait")
    refused(lambda: torch.equal(x, x), "aten::equal at .* would wait")
    refused(tb.synchronize, "captures, so its work has not begun")
    refused(lambda: tb.empty_cache(), "capture is in progress")


def test_a_first_use_inside_asks_for_a_warm_up() -> None:
    x = torch.ones(3, device="tb", dtype=torch.complex128)
    refused(lambda: x.mul_(x).addcdiv_(x, x), "at .*test_graphs.py.* meets these types for the first time.*warm-up")
    y = torch.ones(13, 17, 17, device="tb")  # a shape that no other test uses
    refused(lambda: torch.linalg.matrix_exp(y), "meets these shapes for the first time|meets these types")


def test_pageable_memory_is_refused_and_pinned_memory_read_at_each_replay() -> None:
    x = torch.zeros(4, device="tb")
    refused(lambda: x.copy_(torch.ones(4)), "host memory that is not pinned")
    source = torch.ones(4).pin_memory()
    x.copy_(source, non_blocking=True)
    graph = tb.Graph()
    with tb.graph(graph):
        x.copy_(source, non_blocking=True)
    for value in (2.0, 3.0):
        source.fill_(value)
        graph.replay()
        assert x.tolist() == [value] * 4


def test_optimizers_that_count_on_the_host_are_refused() -> None:
    weight = torch.ones(3, device="tb", requires_grad=True)
    weight.grad = torch.ones_like(weight)
    optimizer = torch.optim.Adam([weight])
    optimizer.step()
    refused(optimizer.step, "Adam.step.* inside a capture: it counts its steps on the host")


# ---- memory ----------------------------------------------------------------------------------------------------------


def test_memory_of_a_graph_is_not_given_to_other_tensors() -> None:
    x = torch.ones(1000, device="tb")
    (x * 2 + 1).sum()
    graph = tb.Graph()
    with tb.graph(graph):
        y = (x * 2 + 1) * 3  # intermediate results are freed inside the capture
    others = [torch.full((1000,), -1.0, device="tb") for _ in range(50)]
    graph.replay()
    assert y.eq(9).all().item()
    assert all(other.eq(-1).all().item() for other in others)


def test_memory_of_a_graph_is_freed_with_the_graph() -> None:
    x = torch.ones(3, device="tb")
    x = x + x  # the first use of these types would be refused in a capture
    del x
    gc.collect()
    tb.synchronize()
    tb.empty_cache()
    allocated, reserved = tb.memory_allocated(), tb.memory_reserved()
    for _ in range(5):
        x = torch.ones(1 << 20, device="tb")
        graph = tb.Graph()
        with tb.graph(graph):
            y = x + x
        assert tb.memory_reserved() >= reserved + y.nbytes
        graph.replay()
        del x, y, graph
    gc.collect()
    tb.empty_cache()
    assert (tb.memory_allocated(), tb.memory_reserved()) == (allocated, reserved)


def test_blocks_that_several_streams_use_can_be_freed_inside() -> None:
    side = tb.Stream()
    x = torch.ones(1 << 12, device="tb")
    (x + 1).sum()
    graph = tb.Graph()
    with tb.graph(graph):
        here = tb.current_stream()
        y = x + 1
        side.wait_stream(here)
        with tb.stream(side):
            z = y + 1
        y.record_stream(side)
        here.wait_stream(side)
        del y
        total = z.sum()
    for _ in range(3):
        graph.replay()
    assert total.item() == 3 * (1 << 12)
    assert (torch.ones(1 << 12, device="tb") + 1).sum().item() == 2 * (1 << 12)


# ---- other interfaces of captures ------------------------------------------------------------------------------------


def test_accelerator_graph() -> None:
    x = torch.zeros(5, device="tb")
    x += 1
    x -= 1
    x *= 1
    x += 1
    graph = torch.accelerator.Graph()
    with torch.Stream("tb"), graph:
        x += 1
    for _ in range(3):
        graph.replay()
    assert x.tolist() == [4.0] * 5
    graph.reset()
    with torch.Stream("tb"), graph:
        x -= 1
    graph.replay()
    assert x.tolist() == [3.0] * 5
    kept = torch.accelerator.Graph(keep_graph=True, pool=graph.pool())
    with torch.Stream("tb"), kept:
        x *= 2
    kept.instantiate()
    kept.replay()
    assert x.tolist() == [6.0] * 5
    assert kept.pool() == graph.pool()


def test_torch_work_in_a_tb_stream_capture_can_be_updated() -> None:
    x = torch.ones(4, device="tb")
    x * 2 + 1

    def capture(factor: float) -> tuple[tb_stream.Graph, torch.Tensor]:
        with tb_stream.capture() as graph:
            assert tb.is_current_stream_capturing()
            y = x * factor
        return graph, y

    graph, y = capture(2.0)
    other, z = capture(3.0)
    assert not tb.is_current_stream_capturing()
    graph.replay()
    graph.update(other)
    graph.replay()
    tb.synchronize()
    assert (y.tolist(), z.tolist()) == ([2.0] * 4, [3.0] * 4)


def test_graphs_share_a_pool() -> None:
    x = torch.ones(1 << 16, device="tb")
    (x * 2).sum()
    pool = tb.graph_pool_handle()
    first, second = tb.Graph(), tb.Graph()
    with tb.graph(first, pool=pool):
        y = x * 2
    before = tb.memory_reserved()
    with tb.graph(second, pool=pool):
        z = (x * 2 + y).sum()
    assert first.pool() == second.pool() == pool
    assert tb.memory_reserved() - before <= 4 << 20
    first.replay()
    second.replay()
    assert z.item() == 4 * (1 << 16)


def test_replays_leak_nothing() -> None:
    training = Training(lambda: mlp(0.3), "adamw capturable").warmed_up()
    graph = captured(training)

    def run(count: int) -> tuple[int, int, int]:
        for _ in range(count):
            graph.replay()
        tb.synchronize()
        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[1])
        return tb.memory_allocated(), tb.memory_reserved(), pages

    allocated, reserved, pages = run(1000)  # the stream's queue grows until it was full once
    after = run(1000)
    assert after[:2] == (allocated, reserved)
    assert after[2] - pages < 512  # pages, 2 MiB
