"""torch.histc of integers, which PyTorch counts on CUDA and not on the CPU."""

from __future__ import annotations

import pytest
import torch

TYPES = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]


def reference(values: list[int], bins: int, low: int, high: int) -> list[int]:
    """Counted in exact arithmetic: each bin is half open, and the last one includes `high`."""
    if low == high and values:
        low, high = min(values), max(values)
    if low == high:
        low, high = low - 1, high + 1
    counts = [0] * bins
    for value in values:
        if low <= value <= high:
            counts[min((value - low) * bins // (high - low), bins - 1)] += 1
    return counts


@pytest.mark.parametrize("dtype", TYPES, ids=str)
@pytest.mark.parametrize(("bins", "low", "high"), [(7, 0, 100), (100, 0, 0), (3, 10, 20), (1, 5, 5), (256, 0, 127)])
def test_counts_are_those_of_exact_arithmetic(dtype: torch.dtype, bins: int, low: int, high: int) -> None:
    values = torch.randint(0, 128, (500,), generator=torch.Generator().manual_seed(0)).to(dtype)
    counts = torch.histc(values.to("tb"), bins, low, high)
    assert counts.dtype == dtype
    assert counts.shape == (bins,)
    expected = reference(values.tolist(), bins, low, high)
    assert counts.tolist() == torch.tensor(expected).to(dtype).tolist()  # a count may not fit into 8 bits


def test_the_widest_values_do_not_overflow() -> None:
    ends = torch.iinfo(torch.int64)
    values = [ends.min, ends.min + 1, -1, 0, ends.max - 1, ends.max]
    assert torch.histc(torch.tensor(values, device="tb"), 1000).tolist() == reference(values, 1000, 0, 0)


def test_an_output_of_another_layout_is_written_in_place() -> None:
    memory = torch.full((8,), -1, dtype=torch.int32, device="tb")
    torch.histc(torch.tensor([[1, 2], [2, 3]], dtype=torch.int32, device="tb").t(), 4, 0, 3, out=memory[::2])
    assert memory.tolist() == [0, -1, 1, -1, 2, -1, 1, -1]


def test_an_empty_tensor_has_no_counts_and_a_constant_is_counted_in_the_middle() -> None:
    assert torch.histc(torch.empty(0, dtype=torch.int32, device="tb"), 3).tolist() == [0, 0, 0]
    assert torch.histc(torch.full((5,), 9, device="tb"), 2).tolist() == [0, 5]
    for extreme in (torch.iinfo(torch.int64).min, torch.iinfo(torch.int64).max):
        assert torch.histc(torch.full((5,), extreme, device="tb"), 2).sum().item() == 5


@pytest.mark.parametrize(
    ("arguments", "said"),
    [((0, 0, 1), "bins must be > 0, but they are 0"), ((3, 2, 1), "max must be larger than min, but they are 1 and 2")],
)
def test_a_wrong_range_is_refused_at_the_call(arguments: tuple[int, int, int], said: str) -> None:
    with pytest.raises(RuntimeError, match=said):
        torch.histc(torch.arange(3, device="tb"), *arguments)


def test_an_output_of_another_type_is_refused_at_the_call() -> None:
    with pytest.raises(RuntimeError, match="they must have one type"):
        torch.histc(torch.arange(3, device="tb"), 3, out=torch.empty(3, device="tb"))
