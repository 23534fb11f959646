"""flex_attention on tb, eager, as a program and fused, gives the results of attention in plain operators."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest
import tb_compile
import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

pytestmark = [
    pytest.mark.usefixtures("fresh_compiler"),
    pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile"),
]
LENGTH, SLOPES = 40, (0.5, -0.2, 0.1, 0.0)
WAYS: dict[str, Callable[[Any], Any]] = {
    "eager": lambda function: function,
    "program": lambda function: torch.compile(function, backend="tb", fullgraph=True),
    "inductor": lambda function: torch.compile(function, fullgraph=True),
    "device graphs": lambda function: torch.compile(function, backend="tb", mode="reduce-overhead", fullgraph=True),
}


def heads(count: int = 4) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(count)
    shapes = ((2, 4, LENGTH, 16), (2, count, LENGTH, 16), (2, count, LENGTH, 16))
    return [torch.randn(shape, generator=generator).to("tb").requires_grad_() for shape in shapes]


def written_out(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, slopes: torch.Tensor) -> torch.Tensor:
    groups = query.shape[1] // key.shape[1]
    key, value = (one.repeat_interleave(groups, 1) for one in (key, value))
    at = torch.arange(LENGTH, device=query.device)
    distance = at[:, None] - at[None, :]
    scores = query @ key.transpose(-1, -2) / 4 + slopes[:, None, None] * distance
    return scores.masked_fill(distance < 0, -torch.inf).softmax(-1) @ value


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("way", WAYS)
def test_forward_and_backward(way: str, groups: int) -> None:
    slopes = torch.tensor(SLOPES, device="tb", requires_grad=True)
    mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, LENGTH, LENGTH, device="tb")

    def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, slopes: torch.Tensor) -> Any:
        def score(old: torch.Tensor, batch: Any, head: Any, row: Any, column: Any) -> torch.Tensor:
            moved: torch.Tensor = old + slopes[head] * (row - column)
            return moved

        return flex_attention(query, key, value, score_mod=score, block_mask=mask, enable_gqa=groups > 1)

    leaves = [*heads(4 // groups), slopes]
    call = WAYS[way](attention)
    for _ in range(4):
        found = call(*leaves)
        gradients = torch.autograd.grad(found.sin().sum(), leaves)
    expected = written_out(*leaves)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    for one, other in zip(gradients, torch.autograd.grad(expected.sin().sum(), leaves), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
    assert [graph.reason for graph in tb_compile.graphs() if graph.reason] == []


@pytest.mark.parametrize("way", WAYS)
def test_under_autocast(way: str) -> None:
    query, key, value = (head.detach() for head in heads())
    with torch.autocast("tb", dtype=torch.bfloat16):
        found = WAYS[way](flex_attention)(query, key, value)
    expected = torch.nn.functional.scaled_dot_product_attention(query, key, value)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.float(), expected, rtol=2e-2, atol=2e-2)


def test_sizes_that_change() -> None:
    call = torch.compile(flex_attention, backend="tb", dynamic=True, fullgraph=True)
    for length in (8, 13, 40):
        query, key, value = (head.detach()[:, :, :length] for head in heads())
        torch.testing.assert_close(
            call(query, key, value), torch.nn.functional.scaled_dot_product_attention(query, key, value)
        )


def test_other_devices_are_still_checked() -> None:
    query, key, value = (head.detach().to("meta") for head in heads())
    with pytest.raises(ValueError, match="only supported on"):
        flex_attention(query, key, value)
    query, key, value = (head.detach().cpu().requires_grad_() for head in heads())
    with pytest.raises(NotImplementedError, match="backward on CPU"):
        flex_attention(query, key, value)


def test_pytorchs_own_list_still_leaves_tb_out() -> None:
    """When this fails, tb_compile.flex_attention.allow() need not replace PyTorch's check any more."""
    ours: Any = importlib.import_module("torch.nn.attention.flex_attention")._validate_device
    [stock] = [cell.cell_contents for cell in ours.__closure__]
    with pytest.raises(ValueError, match="on tb device"):
        stock(*heads())
