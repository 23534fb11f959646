"""Float attention. Every call is bit-identical to stock CPU, before and after a trial selects our own kernel."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import tb_ops._testing
import torch
from torch_backend.conformance.bits import assert_bit_identical, bit_identical

pytestmark = pytest.mark.usefixtures("two_threads")

CALLS = 8  # more than the calls after which a size is tried

# batch, heads, queries, keys, size of a head, causal
SIZES = (
    (8, 4, 64, 64, 16, True),
    (2, 4, 64, 64, 32, True),
    (2, 4, 64, 64, 64, False),
    (4, 2, 100, 100, 48, True),
    (4, 3, 65, 65, 64, False),
    (4, 4, 64, 40, 16, True),
    (4, 4, 40, 64, 16, True),
    (2, 2, 192, 192, 80, True),
    (1, 4, 76, 76, 64, False),  # the number of keys is not a multiple of a vector
    (2, 2, 111, 111, 32, True),
    (1, 2, 193, 193, 32, True),  # the last block has one row
    (1, 2, 257, 257, 64, False),
    (1, 2, 833, 833, 32, True),
    (1, 2, 384, 384, 64, True),
    (1, 2, 600, 600, 32, True),  # several blocks of keys
    (2, 4, 97, 1490, 32, False),
    (1, 2, 1024, 1024, 64, True),
)


@pytest.fixture
def two_threads() -> Iterator[None]:
    """Sets two threads: with more threads than heads the forward pass would stay PyTorch's."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def _both_ways(factors: list[torch.Tensor], grad: torch.Tensor, causal: bool, scale: float) -> list[torch.Tensor]:
    """The output, the logarithms of the sums, and three gradients."""
    aten = torch.ops.aten
    heads = [factor.transpose(1, 2) for factor in (*factors, grad)]
    out, sums = aten._scaled_dot_product_flash_attention_for_cpu(*heads[:3], 0.0, causal, scale=scale)
    backward = aten._scaled_dot_product_flash_attention_for_cpu_backward
    return [out, sums, *backward(heads[3], *heads[:3], out, sums, 0.0, causal, scale=scale)]


def _numbers(size: tuple[int, int, int, int, int, bool], seed: int) -> tuple[list[torch.Tensor], torch.Tensor]:
    batch, heads, queries, keys, width, _ = size
    generator = torch.Generator().manual_seed(seed)
    query, key, value, grad = (
        torch.randn(batch, positions, heads, width, generator=generator) for positions in (queries, keys, keys, queries)
    )
    return [query, key, value], grad


def _stock(*arguments: Any) -> list[list[torch.Tensor]]:
    """Stock's results with two threads and with one, since on some processors products in parallel regions differ."""
    found = [_both_ways(*arguments)]
    torch.set_num_threads(1)
    found.append(_both_ways(*arguments))
    torch.set_num_threads(2)
    return found


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_every_call_is_bit_identical_to_stock_cpu(size: tuple[int, int, int, int, int, bool]) -> None:
    for call in range(CALLS):
        factors, grad = _numbers(size, call)
        scale = size[4] ** -0.5 if call % 2 else 0.3
        shared, alone = _stock(factors, grad, size[5], scale)
        found = _both_ways([factor.to("tb") for factor in factors], grad.to("tb"), size[5], scale)
        for one, *expected in zip(found, shared, alone, strict=True):
            assert any(bit_identical(other, one) for other in expected), call
    if torch.backends.cpu.get_cpu_capability() == "AVX512":
        tried = {attention[:7] for attention in tb_ops._testing.tried_attention()}
        assert {(*size, False), (*size, True)} <= tried


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("number", [float("inf"), float("-inf"), float("nan"), 1e38, 0.0])
def test_special_numbers_give_the_results_of_stock_cpu(number: float, causal: bool) -> None:
    size = (8, 4, 64, 64, 16, causal)
    for call in range(CALLS):
        factors, grad = _numbers(size, call)
        if call == CALLS - 1:
            for factor in factors:
                factor[0, 3, 1] = factor[1, :, 2, 5] = number
            factors[1][2] = number
        expected = _both_ways(factors, grad, causal, 0.25)
        found = _both_ways([factor.to("tb") for factor in factors], grad.to("tb"), causal, 0.25)
    _assert_bit_identical(found, expected)


@pytest.mark.parametrize("number", [float("inf"), float("nan"), 1e38])
@pytest.mark.parametrize("which", range(4), ids=["query", "key", "value", "grad"])
def test_masked_special_numbers_reach_the_result_as_in_stock_cpu(which: int, number: float) -> None:
    """PyTorch multiplies masked values by zero, so infinity and NaN still reach the result."""
    size = (8, 4, 64, 64, 16, True)
    for call in range(CALLS):
        factors, grad = _numbers(size, call)
        if call == CALLS - 1:
            (*factors, grad)[which][0, 50] = number
            (*factors, grad)[which][3, 63, 2, 5] = number
            if number == 1e38:
                grad[3] = 1e20
        expected = _both_ways(factors, grad, True, 0.25)
        found = _both_ways([factor.to("tb") for factor in factors], grad.to("tb"), True, 0.25)
    _assert_bit_identical(found, expected)


@pytest.mark.parametrize("scale", [-0.25, 0.0])
@pytest.mark.parametrize("causal", [False, True])
def test_scales_that_are_not_positive(scale: float, causal: bool) -> None:
    for call in range(CALLS):
        factors, grad = _numbers((8, 4, 64, 64, 16, causal), call)
        expected = _both_ways(factors, grad, causal, scale)
        found = _both_ways([factor.to("tb") for factor in factors], grad.to("tb"), causal, scale)
        _assert_bit_identical(found, expected)


def _assert_bit_identical(found: list[torch.Tensor], expected: list[torch.Tensor]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert_bit_identical(other, one)


def test_masks_other_types_and_odd_heads_are_left_to_pytorch() -> None:
    before = tb_ops._testing.tried_attention()
    attend = torch.nn.functional.scaled_dot_product_attention
    query = torch.randn(2, 4, 64, 24)
    for _ in range(CALLS):
        found = attend(query.to("tb"), query.to("tb"), query.to("tb"))
        assert_bit_identical(attend(query, query, query), found)
    mask = torch.randn(64, 64)
    heads = torch.randn(2, 4, 64, 32)
    for _ in range(CALLS):
        found = attend(heads.to("tb"), heads.to("tb"), heads.to("tb"), mask.to("tb"))
        assert_bit_identical(attend(heads, heads, heads, mask), found)
    assert tb_ops._testing.tried_attention() == before
