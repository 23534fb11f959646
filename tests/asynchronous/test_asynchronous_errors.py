"""Errors that depend on types are raised at the call. Errors that depend on values come later and name the launch."""

from __future__ import annotations

import inspect

import pytest
import tb_ops
import torch
from torch.nn import functional


@pytest.fixture(autouse=True)
def _nothing_is_left_over() -> None:
    torch.accelerator.synchronize()


def out_of_range() -> torch.Tensor:
    table = torch.zeros(4, 2, device="tb")
    return functional.embedding(torch.tensor([1, 9], device="tb"), table)  # the launch that fails


def line_of_the_launch() -> str:
    lines, first = inspect.getsourcelines(out_of_range)
    [offset] = [number for number, line in enumerate(lines) if "the launch that fails" in line]
    return f"{__file__}:{first + offset} in out_of_range"


@pytest.mark.parametrize("repeat", [0, 1], ids=["first", "again"])
def test_a_dtype_that_the_kernel_lacks_raises_at_the_call(repeat: int) -> None:
    x = torch.ones(3, device="tb").to(torch.complex32)
    with pytest.raises(NotImplementedError, match="'ComplexHalf'"):
        torch.sinc(x)


def test_a_dtype_without_a_kernel_raises_after_a_call_with_another_dtype() -> None:
    whole = torch.tensor([4, 6], device="tb")
    assert torch.gcd(whole, whole).tolist() == [4, 6]
    with pytest.raises(NotImplementedError, match="not implemented for 'Float'"):
        torch.gcd(whole.float(), whole.float())


def test_an_unknown_option_text_raises_at_every_call() -> None:
    x = torch.ones(3, device="tb", requires_grad=True)
    for _ in range(2):
        functional.gelu(x, approximate="tanh")
        with pytest.raises(RuntimeError, match="approximate"):
            functional.gelu(x, approximate="asdf")
        with pytest.raises(RuntimeError, match="approximate"):
            torch.ops.aten.gelu_backward(x, x, approximate="asdf")
    torch.accelerator.synchronize()


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_lists_of_a_dtype_without_order_raise_what_the_cpu_raises(dtype: torch.dtype) -> None:
    kinds = []
    for device in ("cpu", "tb"):
        x = [torch.ones(2, dtype=dtype, device=device)]
        try:
            torch._foreach_maximum_(x, x)
            torch.accelerator.synchronize()
            kinds.append("nothing")
        except RuntimeError as error:
            kinds.append(type(error).__name__)
    assert kinds[0] == kinds[1] == ("nothing" if dtype is torch.float32 else "NotImplementedError")


def test_a_dtype_without_a_kernel_raises_after_a_call_with_empty_tensors() -> None:
    empty, full = (torch.ones(2, n, dtype=torch.bool, device="tb") for n in (0, 3))
    assert torch.mm(empty, empty.T).shape == (2, 2)
    with pytest.raises(NotImplementedError, match="'Bool'"):
        torch.mm(full, full.T)


def test_writing_to_overlapping_memory_raises_at_the_call() -> None:
    dense = torch.ones(3, 3, device="tb")
    dense.cumsum_(0)
    with pytest.raises(RuntimeError, match="more than one element"):
        torch.ones(1, 3, device="tb").expand(3, 3).cumsum_(0)


def test_an_index_out_of_range_is_reported_late_with_its_type_its_operator_its_tensors_and_its_line() -> None:
    table, index = torch.zeros(4, 2, device="tb"), torch.tensor([1, 2], device="tb")
    functional.embedding(index, table)
    result = out_of_range()
    with pytest.raises(IndexError) as caught:
        torch.accelerator.synchronize()
    text = str(caught.value)
    assert line_of_the_launch() in text
    assert "aten::index_select" in text or "aten::embedding" in text
    assert "[4, 2]" in text
    assert result.shape == (2, 2)
    torch.accelerator.synchronize()  # reported once


def test_an_overflow_is_the_exception_of_the_cpu() -> None:
    """PyTorch's kernel throws a plain C++ exception, which becomes a RuntimeError."""
    for device in ("cpu", "tb"):
        mask = torch.ones(3, dtype=torch.bool, device=device)
        torch.zeros(3, dtype=torch.uint8, device=device).masked_fill(mask, 7)
        with pytest.raises(RuntimeError, match="overflow") as caught:
            torch.zeros(3, dtype=torch.uint8, device=device).masked_fill(mask, 1000).cpu()
        assert type(caught.value) is RuntimeError


def test_the_line_is_also_reported_by_a_stream_without_torch() -> None:
    import tb_device
    import tb_stream

    out_of_range()
    with pytest.raises(tb_device.Error, match="out of range") as caught:
        tb_stream.current_stream(0).synchronize()
    assert line_of_the_launch() in str(caught.value)


def test_the_layout_of_this_pythons_frames_is_found() -> None:
    from tb_ops import _frames

    assert _frames.find() is not None, "late errors name no line on this Python: _frames.py does not know its layout"
    assert tb_ops._offsets == _frames.find()
