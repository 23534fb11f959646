"""Operators whose kernels check values on the host raise at every call, also with known types, and are listed."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import tb_ops
import torch
import torch.nn.functional as F
from torch import Tensor

tb: Any = torch.tb  # type: ignore[attr-defined]
linalg = torch.linalg


def matrix(device: str, *batch: int) -> Tensor:
    return (torch.eye(3) * torch.tensor([1.0, 2.0, 3.0])).expand(*batch, 3, 3).contiguous().to(device)


def spoiled(device: str, *batch: int) -> Tensor:
    return torch.full_like(matrix(device, *batch), float("nan"))


def singular(device: str, *batch: int) -> Tensor:
    return torch.zeros_like(matrix(device, *batch))


def with_out(function: Callable[..., Any]) -> Callable[..., Any]:
    """The call with out= of the right shape."""

    def call(x: Tensor) -> Any:
        with torch.no_grad():
            like = function(matrix(x.device.type, *x.shape[:-2]))
        leaves = tuple(torch.empty_like(t) for t in like) if isinstance(like, tuple) else torch.empty_like(like)
        return function(x, out=leaves)

    return call


Bad = Callable[..., Tensor]
OF_MATRICES: dict[str, tuple[Callable[..., Any], Bad]] = {
    "svd": (linalg.svd, spoiled),
    "torch.svd": (torch.svd, spoiled),
    "svdvals": (linalg.svdvals, spoiled),
    "eigh": (linalg.eigh, spoiled),
    "eigvalsh": (linalg.eigvalsh, spoiled),
    "eig": (linalg.eig, spoiled),
    "cholesky": (linalg.cholesky, singular),
    "cholesky_inverse": (torch.cholesky_inverse, singular),
    "inv": (linalg.inv, singular),
    "lu_factor": (linalg.lu_factor, singular),
    "matrix_rank": (linalg.matrix_rank, spoiled),
    "pinv": (linalg.pinv, spoiled),
    "cond": (linalg.cond, spoiled),
    "nuclear norm": (lambda x, **k: linalg.matrix_norm(x, "nuc", **k), spoiled),
    "inv_ex": (lambda x, **k: linalg.inv_ex(x, check_errors=True, **k), singular),
    "cholesky_ex": (lambda x, **k: linalg.cholesky_ex(x, check_errors=True, **k), singular),
    "lu_factor_ex": (lambda x, **k: linalg.lu_factor_ex(x, check_errors=True, **k), singular),
    "ldl_factor_ex": (lambda x, **k: linalg.ldl_factor_ex(x, check_errors=True, **k), singular),
}
# Not every supported version of PyTorch has these.
for _name in {"matrix_sqrth", "polar"} & set(dir(linalg)):
    OF_MATRICES[_name] = (getattr(linalg, _name), spoiled)
if hasattr(torch.ops.aten, "cholesky"):
    OF_MATRICES["torch.cholesky"] = (torch.cholesky, singular)


def others(device: str, good: bool) -> dict[str, Callable[[], Any]]:
    """Calls with good arguments, or with bad arguments of the same shapes and types."""

    def of(right: list[Any], wrong: list[Any]) -> Tensor:
        return torch.tensor(right if good else wrong, device=device)

    x = torch.arange(4.0, device=device)
    logits = torch.zeros(5, 2, 3, device=device).log_softmax(-1)
    labels = torch.ones(2, 2, dtype=torch.long, device=device)
    return {
        "solve": lambda: linalg.solve(matrix(device) if good else singular(device), matrix(device)),
        "solve_ex": lambda: linalg.solve_ex(
            matrix(device) if good else singular(device), matrix(device), check_errors=True
        ),
        "searchsorted": lambda: torch.searchsorted(x, x, sorter=of([0, 1, 2, 3], [0, 1, 2, 9])),
        "segment_reduce": lambda: torch.segment_reduce(x, "sum", lengths=of([2, 2], [5, -1])),
        "histc": lambda: torch.histc(of([1.0, 2.0], [1.0, float("nan")])),
        "normal": lambda: torch.normal(x, of([1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, -1.0])),
        "repeat_interleave": lambda: torch.repeat_interleave(x, of([1, 1, 1, 1], [1, 1, 1, -1])),
        "bincount": lambda: torch.bincount(of([1, 2], [1, -2])),
        "ctc_loss": lambda: F.ctc_loss(logits, labels, of([5, 5], [5, 9]), of([2, 2], [2, 2])),
        "fake_quantize": lambda: torch.fake_quantize_per_channel_affine(
            torch.ones(2, 2, device=device), torch.ones(2, device=device), of([0, 0], [0, 999]).int(), 0, 0, 255
        ),
    }


def raised(call: Callable[[], Any]) -> type[Exception] | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            call()
        except Exception as error:
            return type(error)
    return None


@pytest.mark.parametrize("batch", [(), (2,)], ids=["one", "a batch"])
@pytest.mark.parametrize("out", [False, True], ids=["plain", "out="])
# Without eigvals, because PyTorch's kernel ends the process if it gets NaN.
@pytest.mark.parametrize("name", OF_MATRICES)
def test_a_failure_that_depends_on_values_is_raised_at_every_call(name: str, out: bool, batch: tuple[int, ...]) -> None:
    function, bad = OF_MATRICES[name]
    call = with_out(function) if out else function
    expected = raised(lambda: call(bad("cpu", *batch)))
    for _ in range(3):
        assert raised(lambda: call(matrix("tb", *batch))) == raised(lambda: call(matrix("cpu", *batch)))
        assert raised(lambda: call(bad("tb", *batch))) == expected
        torch.accelerator.synchronize()
    assert expected is not None


@pytest.mark.parametrize("name", others("cpu", good=True))
def test_other_bad_values_raise_at_every_call(name: str) -> None:
    expected = raised(others("cpu", good=False)[name])
    assert expected is not None
    for _ in range(3):
        assert raised(others("tb", good=True)[name]) is None
        assert raised(others("tb", good=False)[name]) == expected
        torch.accelerator.synchronize()


def waits(call: Callable[[], Any]) -> bool:
    call()
    tb.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()
    finally:
        tb.set_sync_debug_mode("default")
    return any("waits for the device" in str(warning.message) for warning in caught)


def test_calls_in_which_nothing_is_checked_do_not_wait() -> None:
    x, a, order = torch.arange(3.0, device="tb"), matrix("tb"), torch.tensor([0, 1, 2], device="tb")
    lengths, factor = torch.tensor([1, 2], device="tb"), linalg.cholesky(matrix("tb"))
    quiet: list[Callable[[], Any]] = [
        lambda: linalg.inv_ex(a),
        lambda: linalg.cholesky_ex(a),
        lambda: linalg.lu_factor_ex(a),
        lambda: linalg.ldl_factor_ex(a),
        lambda: linalg.solve_ex(a, a),
        lambda: linalg.qr(a),
        lambda: linalg.det(a),
        lambda: torch.cholesky_solve(a, factor),
        lambda: torch.searchsorted(x, x),
        lambda: torch.histc(x, min=0, max=2),
        lambda: torch.segment_reduce(x, "sum", lengths=lengths, unsafe=True),
    ]
    assert [waits(call) for call in quiet] == [False] * len(quiet)
    checking: list[Callable[[], Any]] = [
        lambda: linalg.svd(a),
        lambda: linalg.inv_ex(a, check_errors=True),
        lambda: torch.searchsorted(x, x, sorter=order),
        lambda: torch.histc(x),
        lambda: torch.segment_reduce(x, "sum", lengths=lengths),
    ]
    assert [waits(call) for call in checking] == [True] * len(checking)


def test_a_capture_refuses_operators_that_check() -> None:
    x, a = torch.arange(3.0, device="tb"), matrix("tb")
    order = torch.tensor([0, 1, 2], device="tb")
    for call in (
        lambda: linalg.eigh(a),
        lambda: linalg.cholesky_ex(a, check_errors=True),
        lambda: torch.searchsorted(x, x, sorter=order),
    ):
        call()
        with pytest.raises(RuntimeError, match=r"inside a capture.*on the host"), tb.graph(tb.Graph()):
            call()
        torch.accelerator.synchronize()


def kernels_that_check() -> set[str]:
    """PyTorch's CPU kernels that check whether LAPACK succeeded, found by the calls above."""
    found: set[str] = set()
    for function, _ in OF_MATRICES.values():
        with torch.autograd.profiler.profile() as profile:
            function(matrix("cpu"))
        for event in profile.function_events:
            if event.name == "aten::_linalg_check_errors" and event.cpu_parent is not None:
                found.add(event.cpu_parent.name)
    return found


def test_the_list_has_every_kernel_of_pytorch_that_checks() -> None:
    listed = {name.partition(".")[0] for name, _ in tb_ops._core.checked_operators()}
    composed = {name for name in kernels_that_check() if name in _composed()}
    assert kernels_that_check() - composed <= listed
    assert {"aten::_linalg_svd", "aten::_linalg_eigh", "aten::linalg_eig"} <= kernels_that_check()


def _composed() -> set[str]:
    """Operators that PyTorch composes of others on every device. Those others wait themselves if they read values."""
    names = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::linalg_")]
    keys = ("CompositeImplicitAutograd", "CompositeExplicitAutograd")
    return {name for name in names if any(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in keys)}


def test_every_function_that_is_documented_to_synchronise_waits() -> None:
    a = matrix("tb")
    documented = [
        name for name in dir(linalg) if "synchronizes that device with the CPU" in (getattr(linalg, name).__doc__ or "")
    ]
    assert len(documented) >= 10
    given = {"solve": (a, a)}
    silent = [name for name in documented if not waits(partial(getattr(linalg, name), *given.get(name, (a,))))]
    assert silent == []


def test_the_coverage_listing_says_which_calls_check() -> None:
    from tb_ops import coverage

    listing = {operator.name: operator for operator in coverage.operators()}
    assert listing["aten::_linalg_svd"].kind == listing["aten::linalg_eig.out"].kind == "native-sync"
    assert "checks on the host" in listing["aten::_linalg_svd.U"].reason
    assert "waits with a sorter" in listing["aten::searchsorted.Tensor"].reason
    assert "waits with check_errors=True" in listing["aten::linalg_inv_ex"].reason
    assert listing["aten::linalg_inv_ex"].kind == "native-async"
