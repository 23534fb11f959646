"""Quantized and mkldnn tensors are refused when they are made, with a remedy."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch

EYE = torch.eye(4)
untyped: Any = torch  # torch's type annotations lack some accepted arguments


def loaded(tensor: torch.Tensor) -> Any:
    file = io.BytesIO()
    torch.save(tensor, file)
    file.seek(0)
    return torch.load(file, map_location="tb")


def quantized() -> dict[str, Callable[[], Any]]:
    x = EYE.to("tb")
    scales, zeros = torch.ones(4), torch.zeros(4, dtype=torch.int64)
    plain = torch.quantize_per_tensor(EYE, 0.1, 0, torch.qint8)
    rows = torch.quantize_per_channel(EYE, scales, zeros, 0, torch.qint8)
    small = torch.ones(4, dtype=torch.int8, device="tb")
    return {
        "per tensor": lambda: torch.quantize_per_tensor(x, 0.1, 0, torch.quint8),
        "per tensor of tensors": lambda: torch.quantize_per_tensor(x, scales[0], zeros[0], torch.qint8),
        "per tensor of a list": lambda: torch.quantize_per_tensor([x], scales[:1], zeros[:1], torch.qint8),
        "per channel": lambda: torch.quantize_per_channel(x, scales, zeros, 0, torch.qint8),
        "dynamic": lambda: torch.quantize_per_tensor_dynamic(x, torch.qint8, False),
        "made of integers": lambda: torch._make_per_tensor_quantized_tensor(small, 0.1, 0),
        "channels of integers": lambda: torch._make_per_channel_quantized_tensor(small, scales, zeros, 0),
        "moved": lambda: plain.to("tb"),
        "channels moved": lambda: rows.to("tb"),
        "loaded": lambda: loaded(plain),
        "channels loaded": lambda: loaded(rows),
        "empty": lambda: torch.empty(2, dtype=torch.qint8, device="tb"),
        "zeros": lambda: torch.zeros(2, dtype=torch.quint8, device="tb"),
        "full": lambda: torch.full((2,), 1, dtype=torch.qint32, device="tb"),
        "empty_strided": lambda: torch.empty_strided((2,), (1,), dtype=torch.qint8, device="tb"),
        "empty_like": lambda: torch.empty_like(plain, device="tb"),
        "empty_quantized": lambda: torch.empty_quantized([2], plain, device="tb"),
        "affine": lambda: torch._empty_affine_quantized([2], scale=0.1, zero_point=0, dtype=torch.qint8, device="tb"),
        "cast": lambda: x.to(torch.qint8),
    }


def mkldnn() -> dict[str, Callable[[], Any]]:
    return {
        "of dense": lambda: EYE.to("tb").to_mkldnn(),
        "of dense and cast": lambda: EYE.to("tb").to_mkldnn(torch.bfloat16),
    }


CALLS = {
    f"{kind}: {way}": call
    for kind, ways in (("quantized", quantized()), ("mkldnn", mkldnn()))
    for way, call in ways.items()
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_an_unsupported_kind_of_tensor_is_refused_when_it_is_made(name: str) -> None:
    with pytest.raises(NotImplementedError, match=r"tb has no|tb tensors cannot be|tb tensors are strided") as caught:
        CALLS[name]()
    assert "the CPU" in str(caught.value)


@pytest.mark.parametrize(
    "make", [lambda: torch.empty(2, layout=untyped._mkldnn, device="tb"), lambda: EYE.to_mkldnn().to("tb")]
)
def test_a_layout_that_pytorch_ties_to_other_devices_is_refused_by_pytorch(make: Callable[[], Any]) -> None:
    with pytest.raises(NotImplementedError, match="Unsupported device type for mkldnn layout: tb"):
        make()
