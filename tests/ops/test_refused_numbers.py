"""Numbers and types that the tensors of a call cannot hold are refused at the call, the first one and later ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from ops.test_bad_arguments import waits_for_nothing

COMPLEX: dict[str, Callable[[torch.Tensor], Any]] = {
    "add, out=": lambda x: torch.add(x, x, alpha=1j, out=torch.empty_like(x)),
    "addmm": lambda x: torch.addmm(x, x, x, alpha=1j),
    "addcmul": lambda x: torch.addcmul(x, x, x, value=1j),
    "addcdiv in place": lambda x: x.clone().addcdiv_(x, x, value=1j),
    "lerp": lambda x: torch.lerp(x, x, 1j),
    "elu": lambda x: torch.ops.aten.elu(x, 1j),
    "leaky_relu": lambda x: torch.ops.aten.leaky_relu(x, 1j),
    "hardtanh": lambda x: torch.ops.aten.hardtanh(x, -1, 1j),
    "softplus": lambda x: torch.ops.aten.softplus(x, 1j),
    "softshrink": lambda x: torch.ops.aten.softshrink(x, 1j),
    "threshold": lambda x: torch.ops.aten.threshold(x, 0.1, 1j),
    "a comparison in place": lambda x: x.clone().lt_(1j),
    "lists and a factor": lambda x: torch._foreach_add([x, x], [x, x], alpha=1j),
    "lists in place and a factor": lambda x: torch._foreach_sub_([x.clone()], [x], alpha=1j),
    "three lists and a number": lambda x: torch._foreach_addcmul([x], [x], [x], 1j),
    "three lists and numbers": lambda x: torch._foreach_addcdiv([x, x], [x, x], [x, x], [1.0, 1j]),
    "lists and a weight": lambda x: torch._foreach_lerp([x], [x], 1j),
    "lists and a number in place": lambda x: torch._foreach_lerp_([x.clone()], [x], 1j),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", COMPLEX)
def test_a_complex_number_for_real_tensors_is_refused_at_each_call(name: str, dtype: torch.dtype) -> None:
    call, x = COMPLEX[name], torch.full((3, 3), 0.5, dtype=dtype)
    with pytest.raises(RuntimeError) as expected:
        call(x)
    for _ in range(3):
        with pytest.raises(RuntimeError) as raised:
            call(x.to("tb"))
        assert raised.type is expected.type
        torch.accelerator.synchronize()  # raises nothing


def test_a_complex_number_for_complex_tensors_waits_for_nothing() -> None:
    x = torch.ones(3, dtype=torch.complex64, device="tb")
    assert waits_for_nothing(lambda: torch.addcmul(x, x, x, value=1j))


@pytest.mark.parametrize("call", [F.mse_loss, F.smooth_l1_loss], ids=["mse", "smooth l1"])
def test_an_unknown_reduction_is_refused_at_each_call(call: Callable[..., Any]) -> None:
    operator = getattr(torch.ops.aten, call.__name__)
    x = torch.ones(3, device="tb")
    for _ in range(2):
        operator(x, x, 1)
        with pytest.raises(RuntimeError):
            operator(x, x, 100)
        torch.accelerator.synchronize()


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_refuses_half_weights_beside_float_statistics_at_each_call(training: bool) -> None:
    def call(device: str) -> None:
        half, single = (torch.ones(3, dtype=dtype, device=device) for dtype in (torch.float16, torch.float32))
        x = torch.ones(2, 3, dtype=torch.float16, device=device)
        F.batch_norm(x, single.clone(), single.clone(), half, half, training=training)

    with pytest.raises(RuntimeError) as expected:
        call("cpu")
    for _ in range(2):
        with pytest.raises(RuntimeError) as raised:
            call("tb")
        assert str(raised.value).splitlines()[0] == str(expected.value).splitlines()[0]
        torch.accelerator.synchronize()
