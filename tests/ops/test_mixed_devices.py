"""Tensors on different devices are refused at the call, as on CUDA, and taken where CUDA takes them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

aten = torch.ops.aten
tb: Any = torch.tb  # type: ignore[attr-defined]

X = torch.tensor([[0.5, 1.0, 0.25], [0.75, 0.5, 0.125], [1.0, 0.0, 0.5]])
SPD = X @ X.T + torch.eye(3)
INT64, BOOL = torch.int64, torch.bool
ONE = torch.ones(1, dtype=INT64)

# The call with operands, and an out= that fits.
OUT: dict[str, tuple[Callable[[Tensor, Any], object], Any]] = {
    "nonzero": (lambda x, out: torch.nonzero(x, out=out), torch.empty(0, dtype=INT64)),
    "masked_select": (lambda x, out: torch.masked_select(x, x > 0.3, out=out), torch.empty(0)),
    "histc": (lambda x, out: torch.histc(x, 4, out=out), torch.empty(4)),
    "fft": (lambda x, out: torch.fft.fft(x, out=out), torch.empty(3, 3, dtype=torch.complex64)),
    "cholesky": (
        lambda x, out: torch.linalg.cholesky(x @ x.T + torch.eye(3, device=x.device), out=out),
        torch.empty(3, 3),
    ),
    "eigh": (lambda x, out: torch.linalg.eigh(x @ x.T, out=out), (torch.empty(3), torch.empty(3, 3))),
    "addbmm": (lambda x, out: torch.addbmm(x, x[None], x[None], out=out), torch.empty(3, 3)),
    "searchsorted": (lambda x, out: torch.searchsorted(x[0], x, out=out), torch.empty(3, 3, dtype=INT64)),
    "bucketize": (lambda x, out: torch.bucketize(x, x[0], out=out), torch.empty(3, 3, dtype=INT64)),
    "max": (lambda x, out: torch.max(x, out=out), torch.empty(())),
    "logsigmoid": (lambda x, out: aten.log_sigmoid(x, out=out), torch.empty(3, 3)),
    "normal": (lambda x, out: torch.normal(x, x, out=out), torch.empty(3, 3)),
    "add": (lambda x, out: torch.add(x, x, out=out), torch.empty(3, 3)),
    "cat": (lambda x, out: torch.cat([x, x], out=out), torch.empty(6, 3)),
    "isin": (lambda x, out: torch.isin(1.0, x, out=out), torch.empty((), dtype=BOOL)),
}


def moved(values: Any, device: str) -> Any:
    return tuple(value.to(device) for value in values) if isinstance(values, tuple) else values.to(device)


def shapes(values: Any) -> list[tuple[torch.Size, int]]:
    given = values if isinstance(values, tuple) else (values,)
    return [(value.shape, value.untyped_storage().nbytes()) for value in given]


@pytest.mark.parametrize(("operands", "place"), [("tb", "cpu"), ("cpu", "tb")])
@pytest.mark.parametrize("name", OUT)
def test_out_on_another_device_is_refused_at_each_call_and_left_as_it_is(name: str, operands: str, place: str) -> None:
    call, like = OUT[name]
    for _ in range(2):
        call(X.to("tb"), moved(like, "tb"))  # a good call of these types and shapes comes before
        out = moved(like, place)
        before = shapes(out)
        with pytest.raises(RuntimeError, match="device") as raised:
            call(X.to(operands), out)
        assert "INTERNAL ASSERT" not in str(raised.value)
        assert shapes(out) == before
        tb.synchronize()


BESIDE: dict[str, Callable[[Tensor, Tensor], object]] = {
    "bincount": lambda x, y: torch.bincount(x.flatten().long(), y.flatten()),
    "cdist": lambda x, y: aten._cdist_forward(x, y, 2.0, None),
    "grid_sample": lambda x, y: F.grid_sample(x[None, None], y[None, :, :2].reshape(1, 3, 1, 2), align_corners=False),
    "masked_select": lambda x, y: torch.masked_select(x, y > 0.3),
    "masked_select of a number": lambda x, y: torch.masked_select(x, y[0, 0] > 0.3),
    "searchsorted": lambda x, y: torch.searchsorted(x, y),
    "histogram": lambda x, y: torch.histogram(x, 4, range=(0.0, 1.0), weight=y),
    "solve_triangular": lambda x, y: torch.linalg.solve_triangular(x, y, upper=True),
    "max_unpool": lambda x, y: F.max_unpool1d(x[None], y[None].long().clamp(0, 2), [1]),
    "multi_margin_loss": lambda x, y: F.multi_margin_loss(x, y[:, 0].long()),
    "segment_reduce": lambda x, y: aten.segment_reduce(x, "sum", lengths=(y[:1, 0] * 0 + 3).long(), unsafe=True),
    "dropout, backward": lambda x, y: aten.native_dropout_backward(x, y > 0.3, 2.0),
    "dropout, backward, of numbers": lambda x, y: aten.native_dropout_backward(x[0, 0], y[0, 0] > 0.3, 2.0),
    "normal of numbers": lambda x, y: torch.normal(x[0, 0], y[0, 0]),
    "values to add": lambda x, y: x.clone().index_put_(((x[0] * 0).long(),), y, accumulate=True),
    "a list beside a list": lambda x, y: torch._foreach_add([x], [y]),
    "shifts": lambda x, y: x.long() << y.long(),
}  # fmt: skip


@pytest.mark.parametrize("name", BESIDE)
@pytest.mark.parametrize("host_first", [False, True])
def test_tensors_beside_those_of_the_host_are_refused_at_each_call(name: str, host_first: bool) -> None:
    call = BESIDE[name]
    x, y = X.to("tb"), X.flip(0).to("tb")
    for _ in range(2):
        call(x, y)
        with pytest.raises(RuntimeError, match="device"):
            call(x.cpu(), y) if host_first else call(x, y.cpu())
        tb.synchronize()


@pytest.mark.parametrize("name", ["aten::bincount", "aten::add.Tensor"])
def test_a_forced_fallback_refuses_them_too(name: str) -> None:
    x = torch.ones(3, device="tb", dtype=INT64)
    with tb.force_fallback(name), pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
        torch.bincount(x, torch.ones(3)) if name == "aten::bincount" else x + torch.ones(3)
    with tb.force_fallback("aten::add.Tensor"):
        assert (x + torch.tensor(2)).tolist() == [3, 3, 3]


TAKEN: dict[str, Callable[[Tensor], Tensor]] = {
    "a number beside a tensor": lambda x: x + torch.tensor(2.0),
    "a number first": lambda x: torch.tensor(2.0) / (x + 1),
    "a shift by a number": lambda x: x.long() << torch.tensor(2),
    "positions": lambda x: x[torch.tensor([2, 0])],
    "a mask": lambda x: x[X > 0.3],
    "positions to write to": lambda x: x.clone().index_put_((torch.tensor([2, 0]),), x[:2]),
    "positions to add to": lambda x: x.clone().index_put_((torch.tensor([2, 2]),), x[:2], accumulate=True),
    "a number to write": lambda x: x.clone().index_put_((torch.tensor([2]),), torch.tensor(4.0)),
    "a number to fill with": lambda x: x.clone().fill_(torch.tensor(3.0)),
    "a number to fill a mask with": lambda x: x.masked_fill(x > 0.3, torch.tensor(3.0)),
    "certain probabilities": lambda x: x.clone().bernoulli_(torch.ones(3, 3)),
    "lists on both": lambda x: torch._foreach_add([x, X], 1.0)[0],
    "a list and a number": lambda x: torch._foreach_mul([x], torch.tensor(3.0))[0],
    "a copy": lambda x: torch.zeros_like(x).copy_(X),
    "targets of ctc": lambda x: F.ctc_loss(x.log_softmax(1)[:, None], ONE[None], ONE * 3, ONE),
}  # fmt: skip


@pytest.mark.parametrize("name", TAKEN)
def test_tensors_of_the_host_are_taken_where_cuda_takes_them(name: str) -> None:
    for _ in range(2):
        result = TAKEN[name](X.to("tb"))
        assert result.device.type == "tb"
        torch.testing.assert_close(result.cpu(), TAKEN[name](X))


def test_a_tensor_of_the_host_is_filled_with_a_number_on_the_device() -> None:
    assert torch.zeros(2).fill_(torch.tensor(3.0, device="tb")).tolist() == [3.0, 3.0]


def run(code: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code],
        env=os.environ | {"TB_CPU_DEVICES": "2"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr


def test_positions_that_another_device_computes_are_waited_for() -> None:
    run("""
import torch
for _ in range(500):
    x, ones = torch.zeros(5, 5, device="tb:0"), torch.ones(10, 10, 5, device="tb:0")
    positions = torch.randint(-20, 20, (10, 10)).to("tb:1").clamp(0, 4)
    x.index_put_((positions,), ones, accumulate=True)
    torch.tb.synchronize(0)
    assert x.sum().item() == 500
""")


def test_sparse_tensors_are_made_on_their_device_while_another_is_current() -> None:
    run("""
import torch
x = torch.eye(3)
for make in (lambda d: x.to(d).to_sparse(), lambda d: torch.sparse_coo_tensor([[0], [1]], [1.0], (3, 3), device=d),
             lambda d: torch.empty(3, layout=torch.sparse_coo, device=d), lambda d: x.to_sparse().to(d),
             lambda d: (x.to(d).to_sparse() + x.to(d).to_sparse()).coalesce(), lambda d: x.to(d).to_sparse_csr()):
    made = make("tb:1")
    assert made.device == torch.device("tb:1") and made.to_dense().device == torch.device("tb:1")
    assert torch.equal(made.to_dense().cpu(), make("cpu").to_dense())
    assert torch.tb.current_device() == 0
try:
    torch.sparse.mm(x.to("tb:1").to_sparse(), x.to("tb:0"))
except RuntimeError as error:
    assert "same device" in str(error), error
else:
    raise AssertionError("tensors of two devices are taken")
""")


def test_probabilities_and_numbers_of_another_device_are_taken_where_cuda_takes_them() -> None:
    run("""
import torch
x = torch.zeros(3, device="tb:0")
assert x.clone().bernoulli_(torch.ones(3, device="tb:1")).tolist() == [1.0] * 3
assert x.clone().fill_(torch.tensor(2.0, device="tb:1")).tolist() == [2.0] * 3
first, two = torch.tensor([0], device="tb:1"), torch.tensor(2.0, device="tb:1")
assert x.clone().index_put_((first,), two).tolist() == [2.0, 0.0, 0.0]
for call in (lambda: x + two, lambda: x[first], lambda: torch.bincount(x.long(), x.to("tb:1")),
             lambda: torch.add(x, x, out=torch.empty(3, device="tb:1"))):
    try:
        call()
    except RuntimeError as error:
        assert "device" in str(error), error
    else:
        raise AssertionError("tensors of two devices are taken")
""")
