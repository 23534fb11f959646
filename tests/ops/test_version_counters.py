"""Operators on lists increment the version counters, by which autograd finds modifications, as on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

PLAIN_SGD: dict[str, Any] = {
    "weight_decay": 0,
    "momentum": 0,
    "lr": 1,
    "dampening": 0,
    "nesterov": False,
    "maximize": False,
}
CALLS: dict[str, Callable[[list[Tensor], list[Tensor]], object]] = {
    "one list": lambda x, _: torch._foreach_neg_(x),
    "a number": lambda x, _: torch._foreach_add_(x, 3),
    "a product": lambda x, _: torch._foreach_mul_(x, 3.0),
    "numbers": lambda x, _: torch._foreach_sub_(x, [1.0, 2.0, 3.0]),
    "lists": lambda x, y: torch._foreach_maximum_(x, y),
    "lists with a factor": lambda x, y: torch._foreach_add_(x, y, alpha=2),
    "a tensor": lambda x, y: torch._foreach_div_(x, torch.ones((), device=y[0].device)),
    "three lists": lambda x, y: torch._foreach_addcmul_(x, y, y, 2),
    "three lists and numbers": lambda x, y: torch._foreach_addcdiv_(x, y, y, [1.0, 2.0, 3.0]),
    "interpolation": lambda x, y: torch._foreach_lerp_(x, y, 0.5),
    "copies": lambda x, y: torch._foreach_copy_(x, y),
    "zeros": lambda x, _: torch._foreach_zero_(x),
    "powers": lambda x, _: torch._foreach_pow_(x, 2),
    "no modification": lambda x, y: torch._foreach_add(x, y),
    "one of another shape": lambda x, y: torch._foreach_add_(x, [y[0][:1], *y[1:]]),
    "a tensor twice": lambda x, y: torch._foreach_add_([x[0], x[0]], [y[0], y[0]]),
    "a fused step": lambda x, y: torch._fused_sgd_(
        *(x, y, []),
        **PLAIN_SGD,
        is_first_step=True,
    ),
}


def versions(call: Callable[[list[Tensor], list[Tensor]], object], device: str, dtype: torch.dtype) -> Any:
    """The versions of both lists and of a view after two calls, since the first call waits; None if a call raises."""
    x, y = ([torch.full((n,), n, dtype=dtype, device=device) for n in (2, 3, 4)] for _ in range(2))
    view = x[0][:1]
    try:
        for _ in range(2):
            call(x, y)
    except RuntimeError:  # such as the maximum of complex numbers
        return None
    torch.accelerator.synchronize()
    return [tensor._version for tensor in (*x, *y, view)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64], ids=str)
@pytest.mark.parametrize("name", CALLS)
def test_operators_on_lists_modify_as_the_cpus_do(name: str, dtype: torch.dtype) -> None:
    assert versions(CALLS[name], "tb", dtype) == versions(CALLS[name], "cpu", dtype)


LISTS = [
    *("_foreach_neg_", "_foreach_add_.Scalar", "_foreach_mul_.Scalar", "_foreach_sub_.ScalarList"),
    *("_foreach_maximum_.List", "_foreach_add_.List", "_foreach_div_.Tensor", "_foreach_addcmul_.Scalar"),
    *("_foreach_addcdiv_.ScalarList", "_foreach_lerp_.Scalar", "_foreach_copy_", "_foreach_zero_"),
]


@pytest.mark.parametrize("name", CALLS)
def test_forced_fallbacks_of_operators_on_lists_modify_as_the_cpus_kernels_do(name: str) -> None:
    with torch.tb.force_fallback(*(f"aten::{each}" for each in LISTS)):  # type: ignore[attr-defined]
        forced = versions(CALLS[name], "tb", torch.float32)
    assert forced == versions(CALLS[name], "cpu", torch.float32)


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop])
def test_a_backward_pass_over_parameters_that_a_step_changed_is_refused(
    optimizer: Callable[[list[torch.Tensor]], torch.optim.Optimizer],
) -> None:
    w, x = torch.ones(4, device="tb", requires_grad=True), torch.ones(4, device="tb", requires_grad=True)
    loss = (w * x).sum()
    loss.backward(retain_graph=True)  # type: ignore[no-untyped-call]
    optimizer([w]).step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("name", ["a number", "zeros", "copies", "powers"])
def test_tensors_of_inference_mode_have_no_versions(name: str) -> None:
    """They can be written to inside inference mode only."""
    for device in ("cpu", "tb"):
        with torch.inference_mode():
            made, other = [torch.ones(3, device=device)], [torch.ones(3, device=device)]
            CALLS[name](made, other)
        normal = [torch.ones(3, device=device)]
        with torch.inference_mode():
            CALLS[name](normal, other)
        assert normal[0]._version == 1
        with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
            CALLS[name](made, other)


def test_versions_do_not_change_below_the_key_adinplaceorview() -> None:
    counts = []
    for device in ("cpu", "tb"):
        x = [torch.ones(3, device=device)]
        with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(torch._C.DispatchKey.ADInplaceOrView)):
            torch._foreach_add_(x, 1)
            x[0].add_(1)
        counts.append(x[0]._version)
    assert counts == [0, 0]
