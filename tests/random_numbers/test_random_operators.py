"""Random operators on tb follow the seed, do not depend on thread count or layout, and have the right distributions."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch_backend.conformance.bits import bit_identical

pytestmark = pytest.mark.usefixtures("no_fallbacks")
COUNT = 20_000

FILLS: dict[str, Callable[[], Tensor]] = {
    "uniform_": lambda: torch.empty(COUNT, device="tb").uniform_(-2, 3),
    "normal_": lambda: torch.empty(COUNT, device="tb", dtype=torch.float64).normal_(1, 2),
    "bernoulli_": lambda: torch.empty(COUNT, device="tb").bernoulli_(0.3),
    "exponential_": lambda: torch.empty(COUNT, device="tb").exponential_(2),
    "random_": lambda: torch.empty(COUNT, device="tb", dtype=torch.int32).random_(10),
    "cauchy_": lambda: torch.empty(COUNT, device="tb").cauchy_(),
    "geometric_": lambda: torch.empty(COUNT, device="tb").geometric_(0.4),
    "log_normal_": lambda: torch.empty(COUNT, device="tb").log_normal_(),
    "rand": lambda: torch.rand(COUNT, device="tb"),
    "randn": lambda: torch.randn(COUNT, device="tb", dtype=torch.bfloat16),
    "randint": lambda: torch.randint(-5, 5, (COUNT,), device="tb"),
    "randperm": lambda: torch.randperm(COUNT, device="tb"),
    "bernoulli": lambda: torch.bernoulli(torch.full((COUNT,), 0.7, device="tb")),
    "normal": lambda: torch.normal(torch.zeros(COUNT, device="tb"), 2.0),
    "multinomial": lambda: torch.multinomial(torch.ones(COUNT, device="tb"), 100),
    "multinomial with replacement": lambda: torch.multinomial(torch.ones(50, device="tb"), COUNT, replacement=True),
    "dropout": lambda: F.dropout(torch.ones(COUNT, device="tb"), 0.3),
}


@pytest.mark.parametrize("name", FILLS)
def test_a_seed_gives_the_same_numbers_and_the_next_call_others(name: str) -> None:
    torch.manual_seed(5)
    first, second = FILLS[name](), FILLS[name]()
    torch.manual_seed(5)
    assert bit_identical(FILLS[name](), first)
    assert not bit_identical(first, second)


@pytest.mark.parametrize("name", FILLS)
def test_the_thread_count_does_not_matter(name: str) -> None:
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 4):
            torch.set_num_threads(threads)
            torch.manual_seed(5)
            results.append(FILLS[name]().cpu())
    finally:
        torch.set_num_threads(before)
    assert bit_identical(*results)


def test_the_distributions_are_right() -> None:
    torch.manual_seed(0)
    uniform, normal, bernoulli = (FILLS[name]().cpu().double() for name in ("uniform_", "normal_", "bernoulli_"))
    assert -2 <= uniform.min() < -1.99
    assert 2.99 < uniform.max() < 3
    assert abs(uniform.mean() - 0.5) < 0.05
    assert abs(normal.mean() - 1) < 0.06
    assert abs(normal.std() - 2) < 0.05
    assert set(bernoulli.tolist()) == {0.0, 1.0}
    assert abs(bernoulli.mean() - 0.3) < 0.02
    assert abs(FILLS["exponential_"]().cpu().mean() - 0.5) < 0.02
    assert set(FILLS["random_"]().tolist()) == set(range(10))
    assert abs(FILLS["cauchy_"]().cpu().median()) < 0.05
    geometric = FILLS["geometric_"]().cpu()
    assert geometric.min() == 1
    assert abs(geometric.mean() - 2.5) < 0.1
    assert abs(FILLS["log_normal_"]().cpu().log().mean() - 1) < 0.06
    assert set(FILLS["randint"]().tolist()) == set(range(-5, 5))


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.bool])
def test_unbounded_integers_cover_the_types_non_negative_range(dtype: torch.dtype) -> None:
    drawn = torch.empty(5000, device="tb", dtype=dtype).random_().cpu().double()
    top = 1.0 if dtype == torch.bool else float(torch.iinfo(dtype).max)
    assert drawn.min() >= 0
    assert drawn.max() <= top
    assert abs(drawn.mean() / top - 0.5) < 0.05


def test_all_64_bits_are_drawn_when_asked() -> None:
    drawn = torch.empty(2000, device="tb", dtype=torch.int64).random_(-(2**63), None).cpu()
    assert (drawn < 0).any()
    assert (drawn > 0).any()
    assert (drawn.abs() > 2**62).any()


def test_layouts_get_the_same_numbers_in_the_same_order() -> None:
    torch.manual_seed(1)
    plain = torch.empty(30, 40, device="tb").normal_()
    torch.manual_seed(1)
    transposed = torch.empty(40, 30, device="tb").t().normal_()
    torch.manual_seed(1)
    part = torch.zeros(30, 80, device="tb")[:, ::2].normal_()
    assert bit_identical(plain, transposed)
    assert bit_identical(plain, part)


def test_a_permutation_has_every_number_once() -> None:
    for dtype in (torch.int64, torch.int32, torch.float32):
        drawn = torch.randperm(1000, device="tb", dtype=dtype)
        assert drawn.dtype == dtype
        assert drawn.sort().values.tolist() == list(range(1000))


@pytest.mark.parametrize("count", [1, 2, 3, 100, 4097, 70_001, 200_000])
def test_a_permutation_is_the_stable_order_of_random_numbers_of_64_bits(count: int) -> None:
    torch.manual_seed(5)
    keys = torch.empty(count, dtype=torch.int64, device="tb").random_(-(2**63), None)
    torch.manual_seed(5)
    permutation = torch.randperm(count, device="tb")
    assert torch.equal(permutation.cpu(), keys.cpu().argsort(stable=True))


def test_samples_follow_their_weights() -> None:
    torch.manual_seed(0)
    weights = torch.tensor([[1.0, 0.0, 3.0], [5.0, 5.0, 0.0]], device="tb")
    drawn = torch.multinomial(weights, 4000, replacement=True).cpu()
    assert drawn.shape == (2, 4000)
    assert drawn.dtype == torch.int64
    assert drawn[0].bincount(minlength=3)[1] == 0
    assert abs((drawn[0] == 2).double().mean() - 0.75) < 0.03
    assert drawn[1].bincount(minlength=3)[2] == 0
    assert abs((drawn[1] == 0).double().mean() - 0.5) < 0.03
    once = torch.stack([torch.multinomial(weights[0], 1) for _ in range(200)]).flatten().tolist()
    assert set(once) == {0, 2}
    assert sorted(torch.multinomial(weights[1], 2).tolist()) == [0, 1]


def test_a_generator_may_be_given_and_must_be_of_the_device() -> None:
    generator = torch.Generator("tb").manual_seed(3)
    first = torch.rand(10, device="tb", generator=generator)
    assert bit_identical(torch.rand(10, device="tb", generator=generator.manual_seed(3)), first)
    with pytest.raises(RuntimeError, match="generator"):
        torch.rand(10, device="tb", generator=torch.Generator())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_dropout_keeps_scales_and_zeroes(dtype: torch.dtype) -> None:
    x = torch.randn(100, 200, device="tb").to(dtype).requires_grad_()
    out, mask = torch.native_dropout(x, 0.25, True)
    assert mask.dtype == torch.bool
    assert abs(mask.float().mean().item() - 0.75) < 0.02
    expected = x.detach().cpu().mul(mask.cpu()).mul_(1 / 0.75)
    assert out.dtype == dtype
    assert bit_identical(out.detach().cpu(), expected)
    (gradient,) = torch.autograd.grad(out, x, torch.ones_like(out))
    assert bit_identical(gradient.cpu(), torch.ones_like(expected).mul(mask.cpu()).mul(1 / 0.75))


def test_dropout_of_a_transposed_tensor_keeps_its_strides() -> None:
    x = torch.randn(20, 30, device="tb").t()
    out, mask = torch.native_dropout(x, 0.5, True)
    assert out.stride() == mask.stride() == x.stride()
    assert bit_identical(out.cpu(), x.cpu() * mask.cpu() * 2)


def test_dropout_with_probability_0_and_1() -> None:
    x = torch.randn(50, device="tb")
    assert bit_identical(F.dropout(x, 0.0), x)
    assert bit_identical(F.dropout(x, 1.0), x * 0)  # zeros keep the sign, as on the CPU
    assert bit_identical(F.dropout(x, 0.5, training=False), x)
    out, mask = torch.native_dropout(x, 0.5, False)
    assert bit_identical(out, x)
    assert bool(mask.all())
