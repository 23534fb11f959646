"""Cases of the layers of image networks: convolution, pooling, normalisation by channels, upsampling."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from tb_ops.device_kernels.case_inputs import HALVES, Call, Case, gradients, numbers

LAYOUTS = {3: torch.contiguous_format, 4: torch.channels_last, 5: torch.channels_last_3d}


def image(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Numbers from -1 to 1."""
    return numbers(*shape, dtype=dtype, low=-1, high=1)


def channels_last(x: Tensor) -> Tensor:
    """The tensor with its channels next to each other in memory."""
    return x.contiguous(memory_format=LAYOUTS[x.dim()])


CONVOLVE = {3: functional.conv1d, 4: functional.conv2d, 5: functional.conv3d}
TRANSPOSED = {3: functional.conv_transpose1d, 4: functional.conv_transpose2d, 5: functional.conv_transpose3d}

CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    # shape of the input, shape of the weight, how it is convolved
    "plain": ((2, 3, 9, 8), (16, 3, 3, 3), {}),
    "padded": ((2, 3, 9, 8), (9, 3, 3, 3), {"padding": (2, 1)}),
    "many channels": ((2, 17, 7, 6), (40, 17, 3, 2), {"padding": 1}),
    "to few channels": ((2, 17, 7, 6), (3, 17, 3, 3), {"padding": 1}),
    "of one place": ((3, 12, 5, 7), (20, 12, 1, 1), {}),
    "strided": ((2, 8, 11, 10), (10, 8, 3, 4), {"stride": (2, 3), "padding": 1}),
    "strided beyond the kernel": ((2, 9, 11, 10), (8, 9, 1, 2), {"stride": 3}),
    "dilated": ((2, 8, 12, 11), (8, 8, 3, 2), {"dilation": (2, 3), "padding": (2, 0)}),
    "in groups": ((2, 24, 8, 7), (27, 8, 3, 3), {"groups": 3, "padding": 1}),
    "in narrow groups": ((2, 6, 8, 7), (8, 3, 3, 3), {"groups": 2, "padding": 1}),
    "depthwise": ((2, 6, 9, 7), (6, 1, 3, 3), {"groups": 6, "padding": 1, "stride": 2}),
    "depthwise to more": ((2, 4, 9, 7), (12, 1, 3, 3), {"groups": 4, "dilation": 2}),
    "1d": ((2, 5, 33), (9, 5, 4), {"stride": 2, "padding": 1}),
    "3d": ((2, 4, 6, 5, 7), (8, 4, 2, 3, 3), {"stride": (1, 2, 1), "padding": (0, 1, 2), "dilation": (2, 1, 1)}),
    "without a batch": ((3, 9, 8), (8, 3, 3, 3), {}),
    "of an empty batch": ((0, 3, 9, 8), (8, 3, 3, 3), {}),
}
TRANSPOSED_CONVOLUTIONS: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "plain": ((2, 8, 5, 6), (8, 9, 3, 3), {}),
    "strided": ((2, 9, 5, 6), (9, 8, 4, 3), {"stride": 2, "padding": 1}),
    "with more output": ((2, 8, 5, 4), (8, 3, 3, 3), {"stride": (2, 3), "padding": 1, "output_padding": (1, 2)}),
    "dilated in groups": ((2, 16, 5, 6), (16, 8, 3, 2), {"groups": 2, "dilation": 2, "stride": 2}),
    "depthwise": ((2, 6, 5, 6), (6, 1, 3, 3), {"groups": 6, "stride": 2}),
    "1d": ((2, 8, 11), (8, 10, 4), {"stride": 3}),
    "3d": ((2, 8, 3, 4, 3), (8, 8, 2, 3, 2), {"stride": (1, 2, 2)}),
}


def convolutions() -> Iterator[Case]:
    for kind, calls, listed in (
        ("convolution", CONVOLVE, CONVOLUTIONS),
        ("transposed convolution", TRANSPOSED, TRANSPOSED_CONVOLUTIONS),
    ):
        for name, (shape, weight, how) in listed.items():
            function = calls[len(weight)]
            call = gradients(lambda x, w, b, f=function, how=how: f(x, w, b, **how))
            channels = weight[0] if kind == "convolution" else weight[1] * how.get("groups", 1)
            yield f"{kind} {name}", call, [image(*shape), image(*weight), numbers(channels)]
    for name in ("strided", "depthwise", "in groups", "3d"):
        shape, weight, how = CONVOLUTIONS[name]
        function = CONVOLVE[len(weight)]
        call = gradients(lambda x, w, f=function, how=how: f(x, w, **how))
        yield f"convolution {name} channels-last", call, [channels_last(image(*shape)), channels_last(image(*weight))]
    same = gradients(lambda x, w: functional.conv2d(x, w, padding="same"))
    yield "convolution of the same size", same, [image(2, 8, 9, 7), image(8, 8, 3, 5)]
    sliced = gradients(lambda x, w: functional.conv2d(x[:, ::2, :, 1:], w.transpose(2, 3)))
    yield "convolution of slices", sliced, [image(2, 16, 9, 8), image(8, 8, 3, 2)]
    last = gradients(lambda x, w: functional.conv_transpose2d(x, w, stride=2))
    yield "transposed convolution channels-last", last, [channels_last(image(2, 8, 5, 6)), image(8, 9, 3, 3)]
    yield "convolution by a wide window", gradients(functional.conv1d), [image(2, 3, 90), image(8, 3, 40)]
    for dtype in (torch.float32, torch.float64, *HALVES):  # sums of few digits are exact in any order
        inputs = [image(2, 3, 40, 40, dtype=dtype).mul(4).round(), image(8, 3, 3, 3, dtype=dtype).mul(4).round()]
        yield f"convolution at many places {dtype}", _weight_gradient, inputs
    yield "gradient of an expanded gradient", _of_sum, [image(2, 8, 9, 7), image(8, 8, 3, 3)]
    yield "second gradient of a convolution", _second_gradients, [image(2, 4, 5, 6), image(8, 2, 3, 3)]
    convolve = gradients(lambda x, w, b: functional.conv2d(x, w, b, stride=2))
    for dtype in (torch.float64, *HALVES):  # the CPU rounds parts of 16-bit gradients
        call = functional.conv2d if dtype in HALVES else convolve
        inputs = [image(2, 8, 9, 7, dtype=dtype), image(9, 8, 3, 3, dtype=dtype), image(9, dtype=dtype)]
        yield f"convolution {dtype}", call, inputs


def _weight_gradient(x: Tensor, w: Tensor) -> Tensor:
    w = w.clone().requires_grad_()
    out = functional.conv2d(x, w)
    signs = (torch.arange(out.numel(), device=x.device) % 5 - 2).view_as(out).to(x.dtype)
    (grad,) = torch.autograd.grad(out, [w], signs)
    return grad


def _of_sum(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    leaves = [x.clone().requires_grad_(), w.clone().requires_grad_()]
    return torch.autograd.grad(functional.conv2d(leaves[0], leaves[1]).sum(), leaves)


def _second_gradients(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    leaves = [x.clone().requires_grad_(), w.clone().requires_grad_()]
    out = functional.conv2d(leaves[0], leaves[1], stride=2, padding=1, groups=2)
    first = torch.autograd.grad(out.square().mean(), leaves, create_graph=True)
    return torch.autograd.grad(sum((g.square().mean() for g in first), start=out.mean()), leaves)


def pooling() -> Iterator[Case]:
    x, odd = numbers(2, 3, 9, 8), numbers(2, 5, 7, 11)
    windows: dict[str, dict[str, Any]] = {
        "plain": {"kernel_size": 2},
        "overlapping": {"kernel_size": 3, "stride": 2, "padding": 1},
        "uneven": {"kernel_size": (3, 2), "stride": (1, 3), "padding": (1, 0), "ceil_mode": True},
    }
    for name, how in windows.items():
        for layout, given in (("", x), (" channels-last", channels_last(odd)), (" without a batch", odd[0])):
            yield f"max_pool2d {name}{layout}", gradients(lambda x, how=how: functional.max_pool2d(x, **how)), [given]
            yield f"avg_pool2d {name}{layout}", gradients(lambda x, how=how: functional.avg_pool2d(x, **how)), [given]
    indices = lambda x: functional.max_pool2d(x, 3, 2, 1, return_indices=True)  # noqa: E731
    yield "max_pool2d indices", indices, [x]
    yield "max_pool2d indices channels-last", indices, [channels_last(odd)]
    yield "max_pool2d nan", indices, [torch.where(x > 2, torch.nan, x)]
    yield "max_pool2d ties", gradients(lambda x: functional.max_pool2d(x.round(), 3, 1)), [x]
    yield "max_pool2d of -inf", indices, [torch.full((1, 2, 5, 5), -torch.inf)]
    yield "max_pool2d of an empty batch", gradients(lambda x: functional.max_pool2d(x, 2)), [x[:0]]
    yield "max_pool2d of a slice", gradients(lambda x: functional.max_pool2d(x[:, 1:, ::2], 2)), [x]
    yield "max_pool2d dilated", gradients(lambda x: functional.max_pool2d(x, 3, 2, 1, dilation=2)), [odd]
    yield "max_pool1d", gradients(lambda x: functional.max_pool1d(x, 3, 2)), [numbers(2, 3, 17)]
    yield "avg_pool1d", gradients(lambda x: functional.avg_pool1d(x, 3, 2, 1)), [numbers(2, 3, 17)]
    unpadded = gradients(lambda x: functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False))
    yield "avg_pool2d without padding", unpadded, [x]
    yield "avg_pool2d divisor", gradients(lambda x: functional.avg_pool2d(x, 3, divisor_override=5)), [odd]
    volume = numbers(2, 3, 5, 6, 7)
    for layout, given in (("", volume), (" channels-last", channels_last(volume)), (" without a batch", volume[0])):
        largest = gradients(lambda x: functional.max_pool3d(x, (2, 3, 2), 2, (1, 1, 0), ceil_mode=True))
        yield f"max_pool3d{layout}", largest, [given]
        yield f"avg_pool3d{layout}", gradients(lambda x: functional.avg_pool3d(x, (2, 3, 2), 2, (1, 1, 0))), [given]
    for size in ((1, 1), (3, 2), (4, None), (9, 12)):
        for layout, given in (("", x), (" channels-last", channels_last(odd))):
            adaptive = gradients(lambda x, size=size: functional.adaptive_avg_pool2d(x, size))
            yield f"adaptive_avg_pool2d {size}{layout}", adaptive, [given]
    yield "adaptive_avg_pool1d", gradients(lambda x: functional.adaptive_avg_pool1d(x, 5)), [numbers(2, 3, 17)]
    yield "adaptive_avg_pool3d", gradients(lambda x: functional.adaptive_avg_pool3d(x, (2, 4, 3))), [volume]
    for dtype in (torch.float64, *HALVES):
        pool = gradients(lambda x: functional.avg_pool2d(functional.max_pool2d(x, 2), 2))
        yield f"pooling {dtype}", pool, [numbers(2, 3, 12, 10, dtype=dtype)]


def channel_norms() -> Iterator[Case]:
    layouts = {
        "2 dimensions": numbers(12, 8),
        "3 dimensions": numbers(4, 8, 7),
        "plain": numbers(3, 8, 5, 6),
        "channels-last": channels_last(numbers(3, 8, 5, 6)),
        "sliced": numbers(3, 8, 5, 12)[..., ::2].transpose(2, 3),
        "5 dimensions": numbers(2, 8, 2, 3, 4),
        "long": numbers(2, 8, 20, 30),
    }
    weight, bias = numbers(8, low=0.5, high=2), numbers(8)
    mean, variance = numbers(8, low=-0.5, high=0.5), numbers(8, low=0.5, high=2)
    for name, x in layouts.items():
        for training in (True, False):
            yield f"batch_norm {name} {training}", _batch_norm(training), [x, weight, bias, mean, variance]
        if x.dim() > 2:
            grouped = gradients(lambda x, w, b: functional.group_norm(x, 4, w, b))
            yield f"group_norm {name}", grouped, [x, weight, bias]
    x = layouts["plain"]
    yield "batch_norm alone", gradients(lambda x: functional.batch_norm(x, None, None, training=True)), [x]
    yield "instance_norm", gradients(lambda x, w, b: functional.instance_norm(x, None, None, w, b)), [x, weight, bias]
    yield "group_norm alone", gradients(lambda x: functional.group_norm(x, 2)), [x]
    yield "group_norm of one group", gradients(lambda x, w, b: functional.group_norm(x, 1, w, b)), [x, weight, bias]
    yield "second gradient of batch_norm", _second_norm_gradients, [x, weight]
    grouped = gradients(lambda x, w, b: functional.group_norm(x, 2, w, b))
    for dtype in (torch.float64, *HALVES):  # of 16-bit parameters and statistics the CPU rounds more
        parameters = dtype if dtype == torch.float64 else torch.float32
        vectors = [each.to(parameters) for each in (weight, bias, mean, variance)]
        yield f"batch_norm {dtype}", _batch_norm(True), [x.to(dtype), *vectors]
        yield f"group_norm {dtype}", grouped, [x.to(dtype), *vectors[:2]]


def _batch_norm(training: bool) -> Call:
    """A call that returns the result, the gradients and the running statistics."""

    def run(x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, variance: Tensor) -> tuple[Tensor, ...]:
        means, variances = mean.clone(), variance.clone()
        norm = gradients(lambda x, w, b: functional.batch_norm(x, means, variances, w, b, training, 0.3))
        return (*norm(x, weight, bias), means, variances)

    return run


def _second_norm_gradients(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    leaves = [x.clone().requires_grad_(), w.clone().requires_grad_()]
    out = functional.batch_norm(leaves[0], None, None, leaves[1], training=True)
    (first,) = torch.autograd.grad(out.sigmoid().sum(), leaves[:1], create_graph=True)
    return torch.autograd.grad(first.square().sum(), leaves)


def upsampling() -> Iterator[Case]:
    shapes = {1: (2, 3, 7), 2: (2, 3, 5, 7), 3: (2, 3, 3, 4, 5)}
    for spatial, shape in shapes.items():
        linear = {1: "linear", 2: "bilinear", 3: "trilinear"}[spatial]
        modes: list[dict[str, Any]] = [{"mode": "nearest"}, {"mode": "nearest-exact"}]
        modes += [{"mode": linear, "align_corners": align} for align in (False, True)]
        for how in modes:
            for scale in (2, 2.6, 0.6):
                resize = gradients(lambda x, how=how, s=scale: functional.interpolate(x, scale_factor=s, **how))
                yield f"interpolate {how} {spatial}d by {scale}", resize, [numbers(*shape)]
            if spatial == 2:
                for size in ((9, 6), (1, 14), (5, 7)):
                    resize = gradients(lambda x, how=how, size=size: functional.interpolate(x, size, **how))
                    yield f"interpolate {how} to {size}", resize, [numbers(*shape)]
                resize = gradients(lambda x, how=how: functional.interpolate(x, scale_factor=2, **how))
                yield f"interpolate {how} channels-last", resize, [channels_last(numbers(*shape))]
    beyond = gradients(lambda x: torch.ops.aten.upsample_nearest1d(x, [20], 1.3))
    yield "interpolate beyond the end", beyond, [numbers(2, 3, 7)]
    bilinear = gradients(lambda x: functional.interpolate(x, (4, 5), mode="bilinear"))
    yield "interpolate an empty batch", bilinear, [numbers(0, 3, 5, 7)]
    yield "interpolate a single place", bilinear, [numbers(2, 3, 1, 1)]
    for dtype in (torch.float64, *HALVES):
        for mode in ("nearest", "bilinear"):
            resize = gradients(lambda x, mode=mode: functional.interpolate(x, scale_factor=1.7, mode=mode))
            yield f"interpolate {mode} {dtype}", resize, [image(2, 3, 5, 7, dtype=dtype)]
    yield "pad", gradients(lambda x: functional.pad(x, (1, 2, 0, 3))), [numbers(2, 3, 5, 7)]


GROUPS: dict[str, Callable[[], Iterator[Case]]] = {
    "convolutions": convolutions,
    "pooling": pooling,
    "channel_norms": channel_norms,
    "upsampling": upsampling,
}
