"""Our maximum pooling is bit-identical to PyTorch's kernel and gives the same index among equal elements."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch_backend.conformance.bits import bit_identical

ODD = (math.nan, -math.inf, math.inf, 0.0, -0.0)


def pool(image: torch.Tensor, *settings: object) -> tuple[torch.Tensor, torch.Tensor]:
    """Values and indices. The settings are kernel, stride, padding, dilation and ceil_mode."""
    values, places = torch.ops.aten.max_pool2d_with_indices(image, *settings)
    return values, places


def check(image: torch.Tensor, *settings: object) -> None:
    for wanted, got in zip(pool(image, *settings), pool(image.to("tb"), *settings), strict=True):
        assert bit_identical(wanted, got.cpu()), (image.shape, settings)
        assert got.stride() == wanted.stride()


def drawn(generator: random.Random, dtype: torch.dtype) -> tuple[torch.Tensor, list[object]]:
    """An image with equal and with special values, and settings that fit it."""
    while True:
        kernel, stride = ([generator.randint(1, 5), generator.randint(1, 5)] for _ in range(2))
        padding = [generator.randint(0, side // 2) for side in kernel]
        dilation = [generator.randint(1, 3), generator.randint(1, 3)]
        settings: list[object] = [kernel, stride, padding, dilation, generator.random() < 0.5]
        shape = [generator.randint(1, 4) for _ in range(generator.randint(1, 2))]
        image = torch.randint(-3, 4, [*shape, generator.randint(1, 40), generator.randint(1, 70)]).to(dtype)
        for value in ODD:
            image[torch.rand(image.shape) < generator.choice((0, 0.02, 0.3))] = value
        try:
            pool(image, *settings)
        except RuntimeError:  # the windows do not fit
            continue
        return image, settings


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_windows_of_all_kinds(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    generator = random.Random(0)
    for _ in range(150):
        image, settings = drawn(generator, dtype)
        check(image, *settings)


@pytest.mark.parametrize("value", ODD)
def test_an_image_of_one_value(value: float) -> None:
    check(torch.full((2, 3, 9, 35), value), 3, 2, 1)


def test_strides_far_beyond_the_window() -> None:
    torch.manual_seed(0)
    check(torch.randn(1, 1, 40, 50), [2, 3], [10**9, 10**9], 1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int32, torch.uint8])
def test_other_types(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    check(torch.randint(0, 9, (2, 3, 16, 18)).to(dtype), 2)


@pytest.mark.parametrize(
    "arranged",
    [
        lambda image: image.to(memory_format=torch.channels_last),
        lambda image: image.transpose(2, 3),
        lambda image: image[:, ::2, 1:, 2:],
        lambda image: image[:, :1],
    ],
    ids=["channels last", "transposed", "cut out", "one channel"],
)
def test_other_layouts(arranged: Callable[[torch.Tensor], torch.Tensor]) -> None:
    torch.manual_seed(0)
    check(arranged(torch.randn(2, 4, 17, 33)), 3, 2, 1)


def test_outputs_that_are_given() -> None:
    torch.manual_seed(0)
    image = torch.randn(2, 3, 8, 10)
    wanted = pool(image, 2)
    out = torch.empty(2, 3, 5, 4, device="tb").transpose(2, 3), torch.empty(0, dtype=torch.int64, device="tb")
    torch.ops.aten.max_pool2d_with_indices.out(image.to("tb"), 2, out=out[0], indices=out[1])
    for expected, found in zip(wanted, out, strict=True):
        assert bit_identical(expected, found.cpu())


def test_gradients() -> None:
    torch.manual_seed(0)
    image, above = torch.randn(2, 3, 16, 16), torch.randn(2, 3, 8, 8)
    found = []
    for device in ("cpu", "tb"):
        leaf = image.to(device).requires_grad_()
        found.append(torch.autograd.grad(F.max_pool2d(leaf, 3, 2, 1), leaf, above.to(device))[0].cpu())
    assert bit_identical(*found)
