"""Fake convolutions of tb predict the strides of real ones, which compiled code relies on."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

pytestmark = pytest.mark.usefixtures("fresh_compiler")
FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}


def convolve(x: torch.Tensor, weight: torch.Tensor, transposed: bool) -> list[torch.Tensor]:
    """The result, and the gradients of `x` and `weight`."""
    ones, spatial = [1] * (x.dim() - 2), [1, 1] if x.dim() == 4 else [1] * (x.dim() - 2)
    arguments: list[Any] = [ones, spatial, ones, transposed, [0] * (x.dim() - 2), 1]
    out = torch.ops.aten.convolution(x, weight, None, *arguments)
    gradients = torch.ops.aten.convolution_backward(out, x, weight, None, *arguments, [True, True, False])
    return [out, *gradients[:2]]


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_strides_are_those_of_the_real_results(dimensions: int, transposed: bool) -> None:
    x = torch.randn([2, 6, *[5] * dimensions]).to("tb")
    weight = torch.randn([6, 6, *[3] * dimensions]).to("tb")
    for chosen in itertools.product([False, True], repeat=2):
        given = [
            tensor.contiguous(memory_format=FORMATS[tensor.dim()]) if last and tensor.dim() in FORMATS else tensor
            for tensor, last in zip((x, weight), chosen, strict=True)
        ]
        real = convolve(given[0], given[1], transposed)
        with FakeTensorMode() as mode:
            fake = convolve(mode.from_tensor(given[0]), mode.from_tensor(given[1]), transposed)
        assert [one.stride() for one in fake] == [one.stride() for one in real], chosen
        assert {one.device for one in fake} == {x.device}


@pytest.mark.parametrize("options", [{"backend": "tb"}, {}, {"backend": "tb", "mode": "reduce-overhead"}], ids=str)
def test_compiled_models_with_channels_last(options: dict[str, Any]) -> None:
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 3), nn.Flatten()]
    model = nn.Sequential(*layers).to("tb").eval()
    call = torch.compile(model, fullgraph=True, **options)
    for to in (torch.contiguous_format, torch.channels_last):
        model.to(memory_format=to)  # type: ignore[call-overload]
        for given in (torch.contiguous_format, torch.channels_last):
            x = torch.randn(2, 3, 8, 8).to("tb").contiguous(memory_format=given)
            for _ in range(4):
                found = call(x)
            torch.testing.assert_close(found, model(x), rtol=1e-4, atol=1e-5)


def test_pytorch_still_predicts_contiguous_results_for_names_that_it_does_not_know() -> None:
    """When this fails, torch_backend._fake_convolutions is no longer needed."""
    from torch._subclasses import fake_impls

    ours: Any = fake_impls.op_implementations_dict[torch.ops.aten.convolution.default]
    [stock] = [cell.cell_contents for cell in ours.__closure__ if getattr(cell.cell_contents, "__name__", "") == "conv"]
    x = torch.randn(2, 6, 5, 5).to("tb").contiguous(memory_format=torch.channels_last)
    with FakeTensorMode() as mode:
        given = [mode.from_tensor(x), mode.from_tensor(torch.randn(6, 6, 3, 3).to("tb"))]
        arguments = [None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1]
        assert stock(mode, torch.ops.aten.convolution.default, *given, *arguments).is_contiguous()
