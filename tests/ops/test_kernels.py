"""Hand-written kernels are bit-identical to stock CPU, with its types, shapes and strides, and use no fallback."""

from __future__ import annotations

from collections.abc import Callable

import ops.cases.bags
import ops.cases.layers
import ops.cases.lists
import ops.cases.operators
import ops.cases.results
import ops.cases.scaling  # noqa: F401
import pytest
import torch
import torch.nn.functional as F
from ops.cases.case import CASES, SPECIAL, Case, Source, SpecialSource, assert_same, backward, leaves
from torch import nn

aten = torch.ops.aten


# The number of threads changes the last bits of matrix products and sums.
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("name", CASES)
def test_the_kernel_gives_what_stock_cpu_gives(name: str, no_fallbacks: None) -> None:
    assert_same(CASES[name](Source("cpu")), CASES[name](Source("tb")))


@pytest.mark.parametrize("numbers", [SPECIAL, [0.0, -0.0]], ids=["special", "zeros"])
@pytest.mark.parametrize("name", CASES)
def test_special_numbers_give_the_results_of_stock_cpu_kernels(name: str, numbers: list[float]) -> None:
    results: list[object] = []
    for device in ("cpu", "tb"):
        try:
            results.append(CASES[name](SpecialSource(device, numbers)))
            torch.accelerator.synchronize()
        except (RuntimeError, ValueError, IndexError) as error:
            results.append(type(error).__name__)
    assert_same(*results)


def kthvalue_into_itself(x: torch.Tensor) -> None:
    torch.kthvalue(x, 2, out=(x, torch.empty(0, dtype=torch.int64, device=x.device)))


# ---- bad input -------------------------------------------------------------------------------------------------------

REFUSED: dict[str, Case] = {
    "layer norm of another shape": lambda s: F.layer_norm(s.randn(2, 3), (4,)),
    "layer norm with a double weight": lambda s: F.layer_norm(s.randn(2, 3), (3,), s.randn(3, dtype=torch.float64)),
    "batch norm without statistics": lambda s: F.batch_norm(s.randn(2, 3), None, None),
    "batch norm with a short weight": lambda s: F.batch_norm(s.randn(2, 3), s.randn(3), s.randn(3), s.randn(2)),
    "convolution of other channels": lambda s: F.conv2d(s.randn(1, 3, 5, 5), s.randn(4, 2, 3, 3)),
    "convolution kernel beyond input": lambda s: F.conv2d(s.randn(1, 2, 2, 2), s.randn(4, 2, 3, 3)),
    "index_select by floats": lambda s: s.randn(3, 3).index_select(0, s.randn(2)),
    "index_select by a matrix": lambda s: s.randn(3, 3).index_select(0, s.integers(2, 2, 2)),
    "index_select beyond dimensions": lambda s: s.randn(3, 3).index_select(2, s.integers(2, 2)),
    "fill by a vector": lambda s: s.randn(3).fill_(s.randn(3)),
    "fill beyond the type": lambda s: s.integers(5, 3, dtype=torch.uint8).fill_(1000),
    "masked fill by numbers": lambda s: s.randn(3).masked_fill_(s.randn(3), 1),
    "masked fill with a vector": lambda s: s.randn(3).masked_fill_(s.mask(3), s.randn(3)),
    "masked fill of another shape": lambda s: s.randn(3).masked_fill_(s.mask(4), 1),
    "where without a condition": lambda s: torch.where(s.randn(3), s.randn(3), s.randn(3)),
    "where of other shapes": lambda s: torch.where(s.mask(3), s.randn(4), s.randn(3)),
    "relu of booleans": lambda s: F.relu(s.mask(3)),
    "relu of booleans in place": lambda s: s.mask(3).relu_(),
    "difference of booleans": lambda s: s.mask(3) - s.mask(3),
    "difference of numbers and booleans": lambda s: s.integers(3, 4) - s.mask(3),
    "difference of booleans in place": lambda s: s.mask(3).sub_(s.mask(3)),
    "difference of booleans and True": lambda s: s.mask(3) - True,
    "rsub of booleans": lambda s: torch.rsub(s.mask(3), s.mask(3)),
    "negative booleans": lambda s: -s.mask(3),
    "dot of matrices": lambda s: s.randn(2, 2).dot(s.randn(2, 2)),
    "dot of other lengths": lambda s: s.randn(2).dot(s.randn(3)),
    "var of integers": lambda s: s.integers(3, 4).var(),
    "var of booleans": lambda s: s.mask(4).var(0),
    "std of integers into floats": lambda s: torch.std(s.integers(3, 4), 0, out=s.randn(1)),
    "var and mean of integers": lambda s: torch.var_mean(s.integers(3, 4)),
    "std and mean of integers": lambda s: torch.std_mean(s.integers(3, 4)),
    "max of nothing": lambda s: s.randn(0).max(),
    "kthvalue into itself": lambda s: kthvalue_into_itself(s.randn(5)),
    "logcumsumexp beyond dimensions": lambda s: s.randn(2, 3).logcumsumexp(2),
    "kthvalue beyond the size": lambda s: s.randn(3).kthvalue(4),
    "trace of a vector": lambda s: s.randn(3).trace(),
    "flip twice": lambda s: s.randn(2, 2).flip(0, 0),
    "arange without an end": lambda s: torch.arange(0, float("inf"), device=s.device),
    "negative eye": lambda s: torch.eye(-1, device=s.device),
    "complex of integers": lambda s: torch.complex(s.integers(3, 2), s.integers(3, 2)),
    "foreach of other lengths": lambda s: torch._foreach_add([s.randn(2)], [s.randn(2), s.randn(2)]),
    "reflection beyond the size": lambda s: F.pad(s.randn(1, 1, 3, 3), (3, 0, 0, 0), mode="reflect"),
    "adaptive pooling of a vector": lambda s: aten._adaptive_avg_pool2d(s.randn(3), [2, 2]),
    "normal with a negative deviation": lambda s: s.randn(3).normal_(0, -1),
    "normal integers": lambda s: s.integers(3, 4).normal_(),
    "log-normal integers": lambda s: s.integers(3, 4).log_normal_(),
    "geometric booleans": lambda s: s.mask(3).geometric_(0.5),
    "exponential integers": lambda s: s.integers(3, 4).exponential_(),
    "cauchy integers": lambda s: s.integers(3, 4).cauchy_(),
    "bernoulli of complex numbers": lambda s: torch.view_as_complex(s.randn(3, 2)).bernoulli_(0.5),
    "uniform from above": lambda s: s.randn(3).uniform_(2, 1),
    "random_ from above": lambda s: s.randn(3).random_(2, 1),
    "bernoulli beyond 1": lambda s: s.randn(3).bernoulli_(1.5),
    "exponential of no rate": lambda s: s.randn(3).exponential_(0),
    "multinomial of too many": lambda s: torch.multinomial(s.randn(3).abs(), 4),
    "bags without a vector of offsets": lambda s: F.embedding_bag(s.integers(3, 4), s.randn(3, 2)),
    "weighted means of bags": lambda s: F.embedding_bag(
        s.integers(3, 2, 2), s.randn(3, 2), mode="mean", per_sample_weights=s.randn(2, 2)
    ),
    "bags of a cube": lambda s: aten._embedding_bag(s.randn(3, 2), s.integers(3, 1, 1, 1), s.integers(1, 1)),
    "negative randperm": lambda s: torch.randperm(-1, device=s.device),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_input_raises_at_the_call_with_pytorchs_text(name: str, no_fallbacks: None) -> None:
    with pytest.raises(Exception) as expected:  # noqa: PT011 - whatever stock CPU raises
        REFUSED[name](Source("cpu"))
    with pytest.raises(type(expected.value)) as actual:
        REFUSED[name](Source("tb"))
    torch.tb.synchronize()  # type: ignore[attr-defined]  # nothing was queued that fails later
    assert str(actual.value).splitlines()[0] == str(expected.value).splitlines()[0]


def test_weights_that_are_no_probabilities_are_refused_at_the_next_synchronise() -> None:
    torch.multinomial(torch.tensor([1.0, 2.0], device="tb"), 1)  # the first use of a kernel waits
    torch.multinomial(torch.tensor([-1.0, 2.0], device="tb"), 1)
    with pytest.raises(RuntimeError, match="probability tensor contains either"):
        torch.tb.synchronize()  # type: ignore[attr-defined]
    torch.tb.synchronize()  # type: ignore[attr-defined]  # once


@pytest.mark.parametrize("weights", [[1.0, -1.0, 2.0], [1.0, float("inf")], [float("nan"), 1.0], [0.0, 0.0]])
def test_weights_that_are_no_probabilities_are_refused_with_replacement(weights: list[float]) -> None:
    for device in ("cpu", "tb"):
        with pytest.raises(RuntimeError, match="invalid multinomial distribution"):
            torch.multinomial(torch.tensor(weights, device=device), 2, replacement=True).cpu()


def test_a_tensor_copied_to_itself_may_overlap_itself() -> None:
    """PyTorch's in-place baddbmm makes such a copy."""
    x = torch.ones(1, device="tb").expand(3)
    assert x.copy_(x) is x
    with pytest.raises(RuntimeError, match="more than one element"):
        x.copy_(torch.ones(3, device="tb"))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_networks_agree_with_stock_cpu(kind: Callable[..., nn.Module], no_fallbacks: None) -> None:
    results = []
    for device in ("cpu", "tb"):
        torch.manual_seed(1)
        network = kind(5, 7, num_layers=2, bidirectional=True).to(device)
        x = Source(device).randn(6, 3, 5, grad=True)
        out, state = network(x)
        results.append([*leaves((out, state)), *backward(out, x, *network.parameters())])
    for expected, actual in zip(*results, strict=True):
        torch.testing.assert_close(actual.cpu(), expected, rtol=1e-5, atol=1e-6)
