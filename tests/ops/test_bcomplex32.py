"""torch.bcomplex32, complex numbers of bfloat16: tb offers what stock CPU does, and refuses the rest at the call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch_backend.conformance.bits import bit_identical

pytestmark = pytest.mark.usefixtures("no_fallbacks")

# None in versions of PyTorch without the type, where the tests assert just that.
BCOMPLEX32: Any = getattr(torch, "bcomplex32", None)
VALUES = torch.tensor([1 + 2j, 3 - 1j, -0.5 + 0j, 2j])
Case = Callable[[str], torch.Tensor]


def given(device: str) -> torch.Tensor:
    return VALUES.to(BCOMPLEX32).to(device)


def index(device: str) -> torch.Tensor:
    return torch.tensor([0, 2], device=device)


OFFERED: dict[str, Case] = {
    "zeros": lambda d: torch.zeros(3, dtype=BCOMPLEX32, device=d),
    "zeros_like": lambda d: torch.zeros_like(given(d)),
    "zero_": lambda d: given(d).zero_(),
    "tensor": lambda d: torch.tensor([1 + 2j], dtype=BCOMPLEX32, device=d),
    "to": lambda d: VALUES.to(d).to(BCOMPLEX32),
    "to complex64": lambda d: given(d).to(torch.complex64),
    "to complex32": lambda d: given(d).to(torch.complex32),
    "to bool": lambda d: given(d).to(torch.bool),
    "from bfloat16": lambda d: VALUES.real.to(torch.bfloat16).to(d).to(BCOMPLEX32),
    "from integers": lambda d: torch.arange(4, device=d).to(BCOMPLEX32),
    "copy": lambda d: torch.zeros(4, dtype=BCOMPLEX32, device=d).copy_(given(d)),
    "copy from complex64": lambda d: torch.zeros(4, dtype=BCOMPLEX32, device=d).copy_(VALUES.to(d)),
    "copy from the host": lambda d: torch.zeros(4, dtype=BCOMPLEX32, device=d).copy_(VALUES),
    "clone of a part": lambda d: given(d)[::2].clone(),
    "transposed": lambda d: given(d).view(2, 2).t().contiguous(),
    "real": lambda d: given(d).real,
    "cat": lambda d: torch.cat([given(d), given(d)]),
    "index": lambda d: given(d)[index(d)],
    "where": lambda d: torch.where(given(d).to(torch.bool), given(d), given(d)[:1]),
    "masked fill": lambda d: given(d).masked_fill(given(d).to(torch.bool), 3),
    "equal": lambda d: given(d) == given(d),
}

REFUSED: dict[str, Case] = {
    "ones": lambda d: torch.ones(3, dtype=BCOMPLEX32, device=d),
    "full": lambda d: torch.full((3,), 2j, dtype=BCOMPLEX32, device=d),
    "fill": lambda d: given(d).fill_(2),
    "linspace": lambda d: torch.linspace(0, 1, 3, dtype=BCOMPLEX32, device=d),
    "arange": lambda d: torch.arange(3, dtype=BCOMPLEX32, device=d),
    "product": lambda d: given(d) * given(d),
    "product with a number": lambda d: given(d) * 2,
    "product of bfloat16 and 1j": lambda d: torch.zeros(3, dtype=torch.bfloat16, device=d) * 1j,
    "sum of two": lambda d: given(d) + given(d),
    "sum": lambda d: given(d).sum(),
    "matrix product": lambda d: given(d).view(2, 2) @ given(d).view(2, 2),
}


@pytest.mark.parametrize("name", OFFERED)
def test_what_stock_cpu_offers_is_the_same_on_tb(name: str) -> None:
    if BCOMPLEX32 is None:
        assert not hasattr(torch, "bcomplex32")
        return
    expected, actual = OFFERED[name]("cpu"), OFFERED[name]("tb")
    assert actual.device.type == "tb"
    if expected.dtype == BCOMPLEX32:
        expected, actual = torch.view_as_real(expected), torch.view_as_real(actual.cpu())
    assert bit_identical(actual.cpu(), expected)


@pytest.mark.parametrize("name", REFUSED)
def test_what_stock_cpu_lacks_is_refused_at_the_call(name: str) -> None:
    if BCOMPLEX32 is None:
        assert not hasattr(torch, "bcomplex32")
        return
    with pytest.raises(NotImplementedError) as expected:
        REFUSED[name]("cpu")
    text = str(expected.value).splitlines()[0]
    for _ in range(2):
        with pytest.raises(NotImplementedError) as actual:
            REFUSED[name]("tb")
        assert text in str(actual.value)
    torch.accelerator.synchronize()


def test_it_is_printed_as_on_the_cpu() -> None:
    if BCOMPLEX32 is None:
        assert not hasattr(torch, "bcomplex32")
        return
    assert repr(given("tb")).replace(", device='tb:0'", "").split() == repr(given("cpu")).split()
    assert given("tb").tolist() == VALUES.tolist()
    assert given("tb")[0].item() == 1 + 2j
