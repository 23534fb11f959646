"""Layers and losses: the forward pass alone, and with the backward pass to all parameters and inputs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.interleave import Call
from benchmarks.sweep.operator import Inputs, Make, Operator, operators

WIDTH = 64  # features of a row
CLASSES = 64
STEPS = 16  # of a recurrent layer
HEADS, HEAD = 4, 32  # attention heads, and the width of one

Layer = Callable[[Inputs], tuple[Callable[[], Tensor], list[Tensor]]]
"""Makes the inputs; returns the forward pass and the tensors whose gradients are wanted."""


def of(function: Callable[..., Tensor], *data: Callable[[Inputs], Tensor]) -> Layer:
    """A function of tensors; gradients are wanted for those of floating point."""

    def make(inputs: Inputs) -> tuple[Callable[[], Tensor], list[Tensor]]:
        tensors = [one(inputs) for one in data]
        return partial(function, *tensors), [tensor for tensor in tensors if tensor.is_floating_point()]

    return make


def module(
    build: Callable[[Inputs], nn.Module], data: Callable[[Inputs], Tensor], first_of_results: bool = False
) -> Layer:
    """A module, made on the CPU so that its parameters are the same on every device."""

    def make(inputs: Inputs) -> tuple[Callable[[], Tensor], list[Tensor]]:
        x, layer = data(inputs), build(inputs).to(inputs.device).requires_grad_(False)
        wanted = [tensor for tensor in (x, *layer.parameters()) if tensor.is_floating_point()]
        return (lambda: layer(x)[0]) if first_of_results else partial(layer, x), wanted

    return make


def rows(inputs: Inputs) -> Tensor:
    return inputs.normal(inputs.rows(WIDTH), WIDTH)


def sequences(inputs: Inputs) -> Tensor:
    """(batch, steps, width)"""
    return inputs.normal(inputs.rows(WIDTH * STEPS), STEPS, WIDTH)


def heads(inputs: Inputs) -> Tensor:
    """(batch, heads, positions, width of a head)"""
    return inputs.normal(inputs.batch, HEADS, inputs.rows(HEADS * HEAD * inputs.batch), HEAD)


def series(inputs: Inputs) -> Tensor:
    """(batch, channels, positions)"""
    return inputs.normal(inputs.batch, 16, inputs.rows(16 * inputs.batch))


def labels(inputs: Inputs) -> Tensor:
    return inputs.integers(CLASSES, inputs.rows(CLASSES))


LAYERS: dict[str, Layer] = {
    "linear": module(lambda inputs: nn.Linear(inputs.side, inputs.side), Inputs.matrix),
    "linear narrow": module(lambda _: nn.Linear(WIDTH, WIDTH), rows),
    "linear bfloat16": module(lambda _: nn.Linear(WIDTH, WIDTH).bfloat16(), lambda inputs: rows(inputs).bfloat16()),
    "conv2d 3x3": module(lambda _: nn.Conv2d(16, 16, 3, padding=1), Inputs.images),
    "conv2d 1x1": module(lambda _: nn.Conv2d(16, 16, 1), Inputs.images),
    "conv2d depthwise": module(lambda _: nn.Conv2d(16, 16, 3, padding=1, groups=16), Inputs.images),
    "conv1d": module(lambda _: nn.Conv1d(16, 16, 3, padding=1), series),
    "conv_transpose2d": module(lambda _: nn.ConvTranspose2d(16, 16, 2, stride=2), Inputs.images),
    "layer_norm": module(lambda _: nn.LayerNorm(WIDTH), rows),
    "rms_norm": module(lambda _: nn.RMSNorm(WIDTH), rows),
    "batch_norm": module(lambda _: nn.BatchNorm2d(16), Inputs.images),
    "group_norm": module(lambda _: nn.GroupNorm(4, 16), Inputs.images),
    "embedding": module(lambda _: nn.Embedding(1000, WIDTH), lambda inputs: inputs.integers(1000, inputs.rows(WIDTH))),
    "attention": of(functional.scaled_dot_product_attention, heads, heads, heads),
    "max_pool2d": of(lambda x: functional.max_pool2d(x, 2), lambda inputs: inputs.images()),
    "avg_pool2d": of(lambda x: functional.avg_pool2d(x, 2), lambda inputs: inputs.images()),
    "adaptive_avg_pool2d": of(lambda x: functional.adaptive_avg_pool2d(x, 1), lambda inputs: inputs.images()),
    "softmax": of(lambda x: functional.softmax(x, 1), rows),
    "log_softmax": of(lambda x: functional.log_softmax(x, 1), rows),
    "rnn cell": module(lambda _: nn.RNNCell(WIDTH, WIDTH), rows),
    "lstm cell": module(lambda _: nn.LSTMCell(WIDTH, WIDTH), rows, first_of_results=True),
    "gru cell": module(lambda _: nn.GRUCell(WIDTH, WIDTH), rows),
    "lstm": module(lambda _: nn.LSTM(WIDTH, WIDTH, batch_first=True), sequences, first_of_results=True),
}
LOSSES: dict[str, Layer] = {
    "cross_entropy": of(functional.cross_entropy, rows, labels),
    "mse_loss": of(functional.mse_loss, rows, rows),
    "smooth_l1_loss": of(functional.smooth_l1_loss, rows, rows),
    "bce_with_logits": of(
        lambda x, y: functional.binary_cross_entropy_with_logits(x, y.to(x.dtype)),
        rows,
        lambda inputs: inputs.flags(inputs.rows(WIDTH), WIDTH),
    ),
}


def _forward(layer: Layer) -> Make:
    return lambda inputs: layer(inputs)[0]


def _with_backward(layer: Layer) -> Make:
    def make(inputs: Inputs) -> Call:
        forward, wanted = layer(inputs)
        for tensor in wanted:
            tensor.requires_grad_()
        gradient = torch.ones_like(forward())
        return lambda: torch.autograd.grad(forward(), wanted, gradient)

    return make


def _both(family: str, layers: dict[str, Layer]) -> list[Operator]:
    forward = {name: _forward(layer) for name, layer in layers.items()}
    backward = {f"{name} backward": _with_backward(layer) for name, layer in layers.items()}
    return operators(family, forward) + operators(f"{family} backward", backward)


OPERATORS = [*_both("layers", LAYERS), *_both("losses", LOSSES)]
