"""The CPU microkernels alone, compared with float64 or with plain loops, so that a wrong kernel fails here.

In use, a trial compares a microkernel with PyTorch's kernel first. A wrong microkernel would only be rejected there.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from tb_ops import _testing
from torch import Tensor

testing: Any = _testing.microkernels

NO_AVX512 = "this processor has no AVX-512: tb-ops has no microkernel for it"


def randn(*shape: int, seed: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def check(found: Tensor, expected: Tensor, roundings: float) -> None:
    """Checks that no error exceeds `roundings` roundings of the float64 result's largest element, or of 1 if larger."""
    assert found.shape == expected.shape
    assert found.isfinite().all()
    error = (found.double() - expected).abs().max().item()
    assert error <= roundings * torch.finfo(torch.float32).eps * max(expected.abs().max().item(), 1)


# ---- GEMM ---------------------------------------------------------------------------------------------------------

# Tiles are 14 x 32, and blocks have 192 terms and 512 columns. Rows with a stride of 1024 elements are packed.
GEMMS = [(1, 1, 1), (2, 17, 3), (14, 32, 17), (15, 33, 192), (29, 16, 193), (7, 48, 383), (43, 30, 401), (3, 513, 1024)]


@pytest.mark.parametrize("transposed", list(itertools.product([False, True], repeat=2)))
@pytest.mark.parametrize("add", [False, True])
@pytest.mark.parametrize("size", GEMMS)
def test_gemm_has_the_error_of_its_additions(size: tuple[int, int, int], transposed: Any, add: bool) -> None:
    rows, columns, k = size
    left = randn(k, rows, seed=1).T if transposed[0] else randn(rows, k, seed=1)
    right = randn(columns, k, seed=2).T if transposed[1] else randn(k, columns, seed=2)
    out = randn(rows, columns, seed=3)
    expected = left.double() @ right.double() + (out.double() if add else 0)
    bound = left.double().abs() @ right.double().abs() + out.double().abs()
    if not testing.sgemm(left, right, out, add):
        pytest.skip(NO_AVX512)
    # Each addition rounds once. There are k of them, and one for each block of terms.
    allowed = (k + k / 192 + 2) * torch.finfo(torch.float32).eps / 2 * bound
    assert ((out.double() - expected).abs() <= allowed).all()


# ---- attention ----------------------------------------------------------------------------------------------------

# batch, heads, queries, keys, width
ATTENTIONS = [
    (1, 1, 1, 1, 16),
    (2, 3, 5, 7, 16),
    (1, 2, 33, 65, 32),
    (2, 2, 64, 64, 64),
    (1, 1, 76, 76, 48),
    (1, 1, 193, 193, 32),
    (1, 1, 257, 40, 16),
    (1, 2, 40, 513, 16),  # a second block of keys, of one key
    (1, 1, 70, 1100, 80),
]


def attention_in_float64(
    query: Tensor, key: Tensor, value: Tensor, causal: bool, scale: float
) -> tuple[Tensor, Tensor]:
    scores = query @ key.transpose(2, 3) * scale
    if causal:
        visible = torch.ones(scores.shape[2:], dtype=torch.bool).tril()
        scores = scores.masked_fill(~visible, -math.inf)
    return scores.softmax(-1) @ value, scores.logsumexp(-1)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("size", ATTENTIONS, ids=str)
def test_attention_and_its_gradients_are_those_of_float64(size: tuple[int, int, int, int, int], causal: bool) -> None:
    batch, heads, queries, keys, width = size
    scale = 0.3
    query, grad = (randn(batch, heads, queries, width, seed=seed) for seed in (1, 4))
    key, value = (randn(batch, heads, keys, width, seed=seed) for seed in (2, 3))
    exact = [tensor.double().requires_grad_() for tensor in (query, key, value)]
    expected_out, expected_sums = attention_in_float64(*exact, causal, scale)
    expected_grads = torch.autograd.grad(expected_out, exact, grad.double())

    found = testing.attention_forward(query, key, value, causal, scale)
    if found is None:
        pytest.skip(NO_AVX512)
    out, sums = found
    check(out, expected_out.detach(), 60)  # the exponential alone may have 20
    check(sums, expected_sums.detach(), 60)
    grads = testing.attention_backward(query, key, value, out, sums, grad, causal, scale)
    for one, expected in zip(grads, expected_grads, strict=True):
        check(one, expected, 200)


def test_attention_of_large_scores_neither_overflows_nor_loses_the_maximum() -> None:
    query, key, value = (randn(1, 2, 40, 32, seed=seed) * factor for seed, factor in ((1, 30), (2, 30), (3, 1)))
    found = testing.attention_forward(query, key, value, False, 1.0)
    if found is None:
        pytest.skip(NO_AVX512)
    # Scores reach some 5,000 and are rounded to about 5e-4 before the exponential.
    expected, sums = attention_in_float64(query.double(), key.double(), value.double(), False, 1.0)
    torch.testing.assert_close(found[0].double(), expected, rtol=0, atol=2e-2)
    torch.testing.assert_close(found[1].double(), sums, rtol=1e-5, atol=0)


def test_attention_leaves_nan_scores_to_pytorch() -> None:
    query, key, value = (randn(1, 1, 20, 16, seed=seed) for seed in (1, 2, 3))
    key[0, 0, 3, 5] = math.nan
    found = testing.attention_forward(query, key, value, False, 0.25)
    if found is None:
        pytest.skip(NO_AVX512)
    assert found == []


# ---- LSTM ---------------------------------------------------------------------------------------------------------


def lstm_in_float64(given: list[Tensor], bias: Tensor, reversed_: bool) -> tuple[Tensor, Tensor, Tensor]:
    x, input_weight, hidden_weight, hidden, cell = given
    outputs: list[Tensor] = []
    for i in reversed(range(len(x))) if reversed_ else range(len(x)):
        gates = x[i] @ input_weight.T + hidden @ hidden_weight.T + bias
        into, forget, fresh, out = gates.chunk(4, 1)
        cell = forget.sigmoid() * cell + into.sigmoid() * fresh.tanh()
        hidden = out.sigmoid() * cell.tanh()
        outputs.append(hidden)
    return torch.stack(outputs[::-1] if reversed_ else outputs), hidden, cell


# steps, batch, inputs, hidden
LSTMS = [(1, 1, 1, 1), (4, 3, 5, 7), (2, 14, 32, 16), (3, 15, 33, 17), (6, 5, 200, 48), (9, 2, 3, 97)]


@pytest.mark.parametrize("reversed_", [False, True])
@pytest.mark.parametrize("size", LSTMS, ids=str)
def test_an_lstm_layer_and_its_gradients_are_those_of_float64(size: tuple[int, int, int, int], reversed_: bool) -> None:
    steps, batch, inputs, hidden = size
    shapes = [(steps, batch, inputs), (4 * hidden, inputs), (4 * hidden, hidden), (batch, hidden), (batch, hidden)]
    given = [randn(*shape, seed=seed) for seed, shape in enumerate(shapes)]
    for weight in given[1:3]:
        weight /= math.sqrt(inputs + hidden)
    biases = [randn(4 * hidden, seed=seed) for seed in (7, 8)]
    grads = [randn(*shape, seed=20 + i) for i, shape in enumerate([(steps, batch, hidden), *shapes[3:]])]
    exact = [tensor.double().requires_grad_() for tensor in given]
    exact_bias = sum(bias.double() for bias in biases).requires_grad_()  # type: ignore[union-attr]
    expected = lstm_in_float64(exact, exact_bias, reversed_)
    expected_grads = torch.autograd.grad(expected, [*exact, exact_bias], [grad.double() for grad in grads])

    made = testing.lstm_forward(given, *biases, reversed_)
    if made is None:
        pytest.skip(NO_AVX512)
    for one, other in zip(made[:3], expected, strict=True):
        check(one, other.detach(), 30)
    for one, other in zip(testing.lstm_backward(given, made, *grads, reversed_), expected_grads, strict=True):
        check(one, other, 100)


def test_saturated_gates_are_exact_and_nan_stays_in_its_sequence() -> None:
    given = [
        randn(2, 3, 4, seed=1),
        randn(72, 4, seed=2),
        randn(72, 18, seed=3),
        randn(3, 18, seed=4),
        randn(3, 18, seed=5),
    ]
    given[0][:, 1] *= 1e6
    given[0][0, 2, 0] = math.nan
    bias = torch.zeros(72)
    made = testing.lstm_forward(given, bias, bias, False)
    if made is None:
        pytest.skip(NO_AVX512)
    gates = made[3][:, 1].double()
    expected = (given[0][:, 1].double() @ given[1].double().T)[0]
    saturated = torch.cat([expected[:36].sigmoid(), expected[36:54].tanh(), expected[54:].sigmoid()])
    torch.testing.assert_close(gates[0], saturated, rtol=1e-6, atol=1e-30)
    assert made[0].isnan().any(2).tolist() == [[False, False, True], [False, False, True]]


# ---- maximum pooling ----------------------------------------------------------------------------------------------


def pooled(image: Tensor, output: tuple[int, int], *settings: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Finds the first of the largest elements of each window, or its last NaN, with plain loops."""
    kernel, stride, padding, dilation = settings
    planes, rows, columns = image.shape
    values = torch.empty(planes, *output, dtype=image.dtype)
    indices = torch.empty(planes, *output, dtype=torch.int64)
    for p, i, j in itertools.product(range(planes), range(output[0]), range(output[1])):
        best, place = -math.inf, -1
        for y, x in itertools.product(range(kernel[0]), range(kernel[1])):
            row, column = i * stride[0] - padding[0] + y * dilation[0], j * stride[1] - padding[1] + x * dilation[1]
            if not (0 <= row < rows and 0 <= column < columns):
                continue
            element = image[p, row, column].item()
            if place < 0 or element > best or math.isnan(element):
                best, place = element, row * columns + column
        values[p, i, j], indices[p, i, j] = best, place
    return values, indices


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "settings",
    [
        ((2, 2), (2, 2), (0, 0), (1, 1)),
        ((3, 3), (2, 2), (1, 1), (1, 1)),
        ((3, 2), (1, 3), (1, 0), (2, 1)),
        ((1, 5), (4, 1), (0, 2), (1, 3)),
        ((5, 1), (1, 2), (2, 0), (1, 1)),
    ],
)
def test_max_pooling_finds_the_first_of_the_largest_elements(settings: Any, dtype: torch.dtype) -> None:
    kernel, stride, padding, dilation = settings
    image = torch.randint(-3, 4, (2, 13, 37), generator=torch.Generator().manual_seed(1)).to(dtype)
    image[0, 2, 5], image[1, 7, 7], image[1, 0, 0] = math.nan, math.inf, -math.inf
    image[0, 9:] = -math.inf
    sizes = [
        (extent + 2 * p - d * (k - 1) - 1) // s + 1
        for extent, k, s, p, d in zip(image.shape[1:], kernel, stride, padding, dilation, strict=True)
    ]
    expected = pooled(image, (sizes[0], sizes[1]), *settings)
    values, indices = testing.max_pool(image, sizes, *settings)
    assert torch.equal(values.isnan(), expected[0].isnan())
    assert torch.equal(values.nan_to_num(nan=0.5), expected[0].nan_to_num(nan=0.5))
    assert torch.equal(indices, expected[1])
