"""Autograd nodes on tb: those of stock CPU, and each is reported to torch.autograd.graph.node_creation_hook."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

pytestmark = pytest.mark.usefixtures("no_fallbacks")

# None in versions of PyTorch without such hooks, where the tests look at the graphs alone.
Hook: Any = getattr(torch.autograd.graph, "node_creation_hook", None)
Case = Callable[[str], Any]


def leaf(device: str, *shape: int) -> Tensor:
    return torch.linspace(-1, 1, torch.Size(shape).numel()).view(shape).to(device).requires_grad_()


def lstm(device: str, **options: bool) -> tuple[Tensor, Tensor, Tensor]:
    output, (hidden, cell) = nn.LSTM(3, 4, 2, **options).to(device)(leaf(device, 5, 2, 3))
    return output, hidden, cell


# Without linear layers, which have nodes of their own on tb.
SAME: dict[str, Case] = {
    "lstm": lambda d: lstm(d),
    "lstm in both directions": lambda d: lstm(d, bidirectional=True),
    "lstm without biases": lambda d: lstm(d, bias=False),
    "structured": lambda d: ((leaf(d, 4, 4) * 2).relu() @ leaf(d, 4, 4)).softmax(0).sum(),
    "views": lambda d: leaf(d, 4, 6).view(2, 12).t()[1:3].clone(),
    "in place": lambda d: (leaf(d, 4) + 1).mul_(leaf(d, 4)).exp_(),
    "into a view": lambda d: torch.zeros(2, 3, device=d)[0].copy_(leaf(d, 3)),
    "layer norm": lambda d: F.layer_norm(leaf(d, 4, 4), (4,), leaf(d, 4)),
    "convolution": lambda d: F.conv2d(leaf(d, 1, 2, 5, 5), leaf(d, 3, 2, 3, 3), leaf(d, 3)),
    "pooling": lambda d: F.max_pool2d(leaf(d, 1, 1, 4, 4), 2),
    "batch norm": lambda d: F.batch_norm(leaf(d, 4, 3), None, None, training=True),
    "losses": lambda d: F.cross_entropy(leaf(d, 4, 4), torch.arange(4, device=d)),
    "embedding": lambda d: F.embedding(torch.arange(3, device=d), leaf(d, 5, 2)),
    "lists": lambda d: tuple(torch._foreach_mul([leaf(d, 3), leaf(d, 2)], 2.0)),
    "attention": lambda d: F.scaled_dot_product_attention(
        leaf(d, 1, 2, 4, 8), leaf(d, 1, 2, 4, 8), leaf(d, 1, 2, 4, 8)
    ),
}
OWN: dict[str, Case] = {
    "linear": lambda d: F.linear(leaf(d, 2, 3), leaf(d, 4, 3), leaf(d, 4)),
    "linear without a bias": lambda d: F.linear(leaf(d, 2, 5, 3), leaf(d, 4, 3)),
    "two layers": lambda d: nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).to(d)(leaf(d, 2, 3)),
    "lstm cell": lambda d: nn.LSTMCell(3, 4).to(d)(leaf(d, 2, 3)),
    "dropout": lambda d: F.dropout(leaf(d, 8), 0.5),
    "gradient of a gradient": lambda d: torch.autograd.grad(
        F.linear(leaf(d, 2, 3), (weight := leaf(d, 4, 3))).square().sum(), weight, create_graph=True
    ),
}


def results(made: Any) -> list[Tensor]:
    return [made] if isinstance(made, Tensor) else list(made)


def graph(made: Any) -> list[Any]:
    """The nodes behind results, each once."""
    nodes: list[Any] = []
    waiting = [result.grad_fn for result in results(made)]
    while waiting:
        node = waiting.pop()
        if node is not None and node not in nodes:
            nodes.append(node)
            waiting += [following for following, _ in node.next_functions]
    return nodes


def names(nodes: list[Any]) -> list[str]:
    return sorted(node.name() for node in nodes)


def reported(case: Case, device: str) -> tuple[list[Any], list[Any], Any]:
    """The nodes that a hook gets, what each of them led to then, and the results."""
    seen: list[Any] = []
    led_to: list[Any] = []

    def hook(node: Any) -> None:
        seen.append(node)
        led_to.append(node.next_functions)

    with Hook(hook):
        made = case(device)
    return seen, led_to, made


def names_for_a_hook(case: Case, device: str) -> list[str]:
    """The names that a hook gets, in order, without those of leaves: moving a module to a device uses its leaves."""
    return [name for name in (node.name() for node in reported(case, device)[0]) if not name.endswith("AccumulateGrad")]


@pytest.mark.parametrize("name", SAME)
def test_the_nodes_are_those_of_the_cpu(name: str) -> None:
    expected, made = SAME[name]("cpu"), SAME[name]("tb")
    assert names(graph(made)) == names(graph(expected))
    if Hook is not None:
        assert names_for_a_hook(SAME[name], "tb") == names_for_a_hook(SAME[name], "cpu")


@pytest.mark.parametrize("name", [*SAME, *OWN])
def test_every_node_is_reported_once_and_whole(name: str) -> None:
    case = SAME.get(name) or OWN[name]
    if Hook is None:
        assert graph(case("tb"))
        return
    seen, led_to, made = reported(case, "tb")
    nodes = graph(made)
    assert len(seen) == len({id(node) for node in seen})
    assert all(node in seen for node in nodes)
    assert all(node.next_functions == then for node, then in zip(seen, led_to, strict=True))


def test_a_layer_has_pytorchs_name_for_its_node() -> None:
    made = OWN["linear"]("tb")
    assert made.grad_fn.name() == "LinearBackward0"
    assert [following.name() for following, _ in made.grad_fn.next_functions] == ["torch::autograd::AccumulateGrad"] * 3


def test_hooks_that_are_registered_at_creation_run_in_the_backward_pass() -> None:
    for case in (OWN["linear"], SAME["lstm"]):
        ran: list[str] = []

        def watch(node: Any, ran: list[str] = ran) -> None:
            node.register_prehook(lambda *_: ran.append(node.name()))

        if Hook is None:
            made = case("tb")
            for node in graph(made):
                watch(node)
        else:
            with Hook(watch):
                made = case("tb")
        torch.autograd.backward([result.sum() for result in results(made)])
        assert sorted(ran) == names(graph(made))
