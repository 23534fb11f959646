"""Float GEMM: the kernel's order of additions, results bit-identical to stock CPU, and the choice of the kernel."""

from __future__ import annotations

import numpy as np
import pytest
import tb_ops._testing
import torch
import torch.nn.functional as F
from torch_backend.conformance.bits import assert_bit_identical, bit_identical

LAYOUTS = ("rows", "columns")


def _matrix(rows: int, columns: int, layout: str, seed: int, apart: int = 0) -> torch.Tensor:
    """A random matrix. `apart`: the number of unused elements between two rows (or columns)."""
    generator = torch.Generator().manual_seed(seed)
    shape = (rows, columns) if layout == "rows" else (columns, rows)
    whole = torch.randn(shape[0], shape[1] + apart, generator=generator)[:, : shape[1]]
    return whole if layout == "rows" else whole.T


def _terms(inner: int) -> list[int]:
    """The sizes of the kernel's blocks of K."""
    if 192 < inner < 384:
        return [(inner + 1) // 2, inner // 2]
    return [192] * (inner // 192) + [inner % 192] * (inner % 192 > 0)


def _in_order(left: torch.Tensor, right: torch.Tensor, before: torch.Tensor | None) -> torch.Tensor:
    """The product with the kernel's order of additions. A long double holds each term and nearly every sum exactly."""
    a, b = left.numpy().astype(np.longdouble), right.numpy().astype(np.longdouble)
    out = None if before is None else before.numpy()
    first = 0
    for terms in _terms(a.shape[1]):
        total = np.zeros((a.shape[0], b.shape[1]), np.float32)
        for k in range(first, first + terms):
            total = (a[:, k, None] * b[None, k, :] + total).astype(np.float32)
        out = total if out is None else out + total
        first += terms
    assert out is not None
    assert out.dtype == np.float32
    return torch.from_numpy(out)


# Tiles are 14 x 32, panels have K = 192, blocks have 512 columns. Rows with a stride of 1024 are packed.
SIZES = (
    (1, 1, 1),
    (1, 33, 16),
    (2, 17, 3),
    (13, 31, 15),
    (14, 32, 17),
    (15, 33, 192),
    (29, 16, 193),
    (28, 65, 300),
    (7, 48, 383),
    (16, 40, 384),
    (43, 30, 401),
    (3, 513, 20),
    (18, 550, 37),
    (5, 9, 1024),
)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("layouts", [(a, b) for a in LAYOUTS for b in LAYOUTS])
def test_the_kernel_adds_up_in_its_order_and_writes_nothing_else(
    size: tuple[int, int, int], layouts: tuple[str, str]
) -> None:
    rows, columns, inner = size
    for add in (False, True):
        left, right = _matrix(rows, inner, layouts[0], 1, apart=3), _matrix(inner, columns, layouts[1], 2, apart=5)
        whole = torch.randn(rows + 1, columns + 2, generator=torch.Generator().manual_seed(3))
        before = whole.clone()
        out = whole[:rows, 1:-1]
        if not tb_ops._testing.sgemm(left, right, out, add):
            pytest.skip("this processor has no AVX-512: tb-ops has no kernel of its own for it")
        assert_bit_identical(_in_order(left, right, before[:rows, 1:-1] if add else None), out)
        out.copy_(before[:rows, 1:-1])
        assert_bit_identical(before, whole)


def test_infinities_and_nans_are_where_they_belong() -> None:
    left, right = _matrix(20, 50, "rows", 1), _matrix(50, 40, "rows", 2)
    left[3, 7], left[5, 9], right[11, 4] = float("inf"), float("nan"), float("-inf")
    out = torch.empty(20, 40)
    if not tb_ops._testing.sgemm(left, right, out, False):
        pytest.skip("this processor has no AVX-512: tb-ops has no kernel of its own for it")
    expected = left.double() @ right.double()
    assert bit_identical(out.isnan(), expected.isnan())
    assert bit_identical(out.isposinf(), expected.isposinf())
    assert bit_identical(out.isneginf(), expected.isneginf())


def test_invalid_operands_are_refused() -> None:
    good = torch.zeros(2, 2)
    for factors, text in (
        ((good.double(), good, good), "float matrices on the CPU"),
        ((good.to("tb"), good, good), "float matrices on the CPU"),
        ((good[0], good, good), "float matrices"),
        ((torch.zeros(2, 3), good, good), r"\[2, 3\] and \[2, 2\]"),
        ((torch.zeros(4, 4)[::2, ::2], good, good), "dense"),
        ((good, good, torch.zeros(4, 2).T[:, ::2]), "by rows"),
        ((good[None], good, good[None]), "or batches"),
        ((good[None, None], good[None, None], good[None, None]), "or batches"),
        ((good.expand(2, 2, 2), good.expand(3, 2, 2), torch.zeros(3, 2, 2)), r"\[2, 2, 2\] and \[3, 2, 2\]"),
        ((good[None], good[None], torch.zeros(1, 2, 3)[:, :, :2]), "without gaps"),
    ):
        with pytest.raises(RuntimeError, match=text):
            tb_ops._testing.sgemm(*factors, False)


def _products(device: str, rows: int, columns: int, inner: int) -> list[torch.Tensor]:
    x = _matrix(rows, inner, "rows", 1).to(device).requires_grad_()
    weight = _matrix(columns, inner, "rows", 2).to(device).requires_grad_()
    bias = _matrix(1, columns, "rows", 3)[0].to(device)
    out = F.linear(x, weight, bias)
    torch.autograd.backward(out, _matrix(rows, columns, "rows", 4).to(device))
    with torch.no_grad():
        found = [
            out,
            x.mm(weight.T),
            torch.addmm(bias, x, weight.T),
            torch.addmm(bias, x, weight.T, beta=2),
            torch.addmm(out, x, weight.T),
            torch.mm(x, weight.T, out=torch.empty(columns, rows, device=device).T),
        ]
    assert x.grad is not None
    assert weight.grad is not None
    return [tensor.detach().cpu() for tensor in (*found, x.grad, weight.grad)]


# No other test uses the size 17 x 23, so this test includes its trial. On one thread, because MKL divides sums among
# threads on some processors.
@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("size", [(17, 23, 67), (64, 48, 391), (32, 128, 128), (130, 257, 320), (48, 1030, 200)])
def test_products_are_bit_identical_to_stock_cpu_before_and_after_the_trial(size: tuple[int, int, int]) -> None:
    expected = _products("cpu", *size)
    for _ in range(6):
        for got, stock in zip(_products("tb", *size), expected, strict=True):
            assert_bit_identical(stock, got)
    if tb_ops._testing.sgemm(torch.ones(1, 1), torch.ones(1, 1), torch.empty(1, 1), False):
        rows, columns, inner = size
        assert (rows, columns, inner, False, True) in {
            tried[1:6] for tried in tb_ops._testing.tried_gemms() if tried[0] == 0
        }


def _batch(count: int, rows: int, columns: int, layout: str, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if layout == "columns":
        return torch.randn(count, columns, rows, generator=generator).transpose(1, 2)
    if layout == "one for all":
        return torch.randn(rows, columns, generator=generator).expand(count, rows, columns)
    if layout == "heads":  # as in attention, all heads' elements of a row are adjacent
        return torch.randn(rows, count, columns, generator=generator).transpose(0, 1)
    return torch.randn(count, rows, columns, generator=generator)


BATCH_LAYOUTS = [
    ("rows", "rows"),
    ("rows", "columns"),
    ("columns", "rows"),
    ("heads", "heads"),
    ("rows", "one for all"),
]


@pytest.mark.parametrize("layouts", BATCH_LAYOUTS)
def test_the_kernel_s_batches_are_its_products(layouts: tuple[str, str]) -> None:
    for count in (1, 5):
        left, right = _batch(count, 20, 37, layouts[0], 1), _batch(count, 37, 33, layouts[1], 2)
        for add in (False, True):
            batch = _batch(count, 20, 33, "rows", 3)
            apart = batch.clone()
            if not tb_ops._testing.sgemm(left, right, batch, add):
                pytest.skip("this processor has no AVX-512: tb-ops has no kernel of its own for it")
            for a, b, out in zip(left, right, apart, strict=True):
                tb_ops._testing.sgemm(a, b, out, add)
            assert_bit_identical(apart, batch)


def test_an_empty_batch_is_an_empty_batch() -> None:
    for _ in range(6):
        for device in ("cpu", "tb"):
            left, right = torch.ones(0, 66, 62, device=device), torch.ones(0, 62, 58, device=device)
            assert left.bmm(right).shape == (0, 66, 58)
            assert torch.baddbmm(torch.ones(58, device=device), left, right).shape == (0, 66, 58)
    assert (0, 66, 58, 62) not in {tried[:4] for tried in tb_ops._testing.tried_gemms()}


def _batches(device: str, size: tuple[int, int, int, int], layouts: tuple[str, str]) -> list[torch.Tensor]:
    count, rows, columns, inner = size
    left = _batch(count, rows, inner, layouts[0], 1).to(device).requires_grad_()
    right = _batch(count, inner, columns, layouts[1], 2).to(device).requires_grad_()
    added = _batch(count, rows, columns, "rows", 3).to(device)
    out = left.bmm(right)
    torch.autograd.backward(out, _batch(count, rows, columns, "rows", 4).to(device))
    with torch.no_grad():
        found = [
            out,
            torch.baddbmm(added, left, right),
            torch.baddbmm(added[:, :1], left, right),
            torch.baddbmm(added, left, right, beta=0.5, alpha=2),
            added.clone().baddbmm_(left, right),
            torch.bmm(left, right, out=torch.empty(count, columns, rows, device=device).transpose(1, 2)),
        ]
    assert left.grad is not None
    assert right.grad is not None
    return [tensor.detach().cpu() for tensor in (*found, left.grad, right.grad)]


# Batches of fewer and of more products than threads, with K below and above the kernel's block of 192.
@pytest.mark.parametrize("size", [(1, 130, 70, 33), (3, 21, 40, 50), (8, 64, 64, 16), (12, 65, 33, 200)])
@pytest.mark.parametrize("layouts", BATCH_LAYOUTS)
def test_batches_are_bit_identical_to_stock_cpu_before_and_after_the_trial(
    size: tuple[int, int, int, int], layouts: tuple[str, str]
) -> None:
    expected = _batches("cpu", size, layouts)
    for _ in range(6):
        for got, stock in zip(_batches("tb", size, layouts), expected, strict=True):
            assert_bit_identical(stock, got)
    if tb_ops._testing.sgemm(torch.ones(1, 1), torch.ones(1, 1), torch.empty(1, 1), False):
        assert size in {tried[:4] for tried in tb_ops._testing.tried_gemms()}
