"""Arguments that stock CPU refuses are refused, and those that it takes are taken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch


def late(call: Callable[[], Any]) -> None:
    """A call, and a wait for what it queued."""
    call()
    torch.accelerator.synchronize()


@pytest.mark.parametrize("bad", [2.0, -0.1, float("nan"), float("inf")])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_bernoulli_takes_probabilities_only(bad: float, dtype: torch.dtype) -> None:
    p = torch.full((3,), 0.5, dtype=dtype)
    torch.bernoulli(p.to("tb"))
    p[1] = bad
    for device in ("cpu", "tb"):
        given = p.to(device)
        with pytest.raises(RuntimeError):
            late(lambda given=given: torch.bernoulli(given))  # type: ignore[misc]
        with pytest.raises(RuntimeError):
            late(lambda given=given: torch.ones(3, device=given.device).bernoulli_(given))  # type: ignore[misc]


def test_bernoulli_tells_of_shapes_at_the_call() -> None:
    for device in ("cpu", "tb"):
        x, p = torch.ones(4, 3, device=device), torch.full((4, 3), 0.5, device=device)
        x.bernoulli_(p)
        x.bernoulli_(p)
        with pytest.raises(RuntimeError):
            x.bernoulli_(p.unsqueeze(0))
        torch.accelerator.synchronize()


def test_bernoulli_takes_nothing_and_the_bounds() -> None:
    assert torch.bernoulli(torch.tensor([0.0, 1.0], device="tb")).tolist() == [0, 1]
    assert torch.bernoulli(torch.empty(0, device="tb")).numel() == 0
    assert torch.ones(0, device="tb").bernoulli_(torch.full((1,), 2.0, device="tb")).numel() == 0


@pytest.mark.parametrize(
    ("n", "dtype"),
    [
        *((300, torch.uint8), (129, torch.int8), (2050, torch.float16), (32769, torch.int16)),
        *((3, torch.bool), (0, torch.bool), (3, torch.complex64), (3, torch.uint16), (-1, torch.int64)),
    ],
)
def test_randperm_refuses_what_its_dtype_cannot_hold(n: int, dtype: torch.dtype) -> None:
    kinds = []
    for device in ("cpu", "tb"):
        with pytest.raises(RuntimeError) as caught:
            torch.randperm(n, dtype=dtype, device=device)
        kinds.append(caught.type)
    assert kinds[0] is kinds[1]


@pytest.mark.parametrize(
    ("n", "dtype"),
    [(256, torch.uint8), (128, torch.int8), (2049, torch.float16), (300, torch.bfloat16), (0, torch.uint8)],
)
def test_randperm_takes_what_its_dtype_holds(n: int, dtype: torch.dtype) -> None:
    drawn = torch.randperm(n, dtype=dtype, device="tb")
    assert torch.equal(drawn.sort().values.cpu(), torch.arange(n).to(dtype).sort().values)


def test_outputs_whose_elements_are_one_get_the_last_number() -> None:
    out = torch.zeros(1, dtype=torch.int64, device="tb").expand(3)
    assert torch.randperm(3, out=out)[0] in (0, 1, 2)
    torch.multinomial(torch.tensor([0.0, 1.0], device="tb"), 3, True, out=out)
    assert out.tolist() == [1, 1, 1]


def test_multinomial_of_no_weights_is_refused() -> None:
    for device in ("cpu", "tb"):
        with pytest.raises(RuntimeError, match="invalid multinomial"):
            torch.multinomial(torch.empty(0, device=device), 3, True)


def test_known_dtypes_in_other_places_do_not_vouch() -> None:
    """(int, int) into float is taken, (int, float) into float is not."""
    whole, real = torch.ones(3, dtype=torch.int64, device="tb"), torch.ones(3, device="tb")
    for _ in range(2):
        torch.bitwise_left_shift(whole, whole, out=torch.zeros(3, device="tb"))
        torch.accelerator.synchronize()
        with pytest.raises(NotImplementedError):
            torch.bitwise_left_shift(whole, real, out=torch.zeros(3, device="tb"))
    torch.accelerator.synchronize()


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.clamp_(min=1e300),
        lambda x: x.half().masked_fill_(x > 0, 1e6),
        lambda x: x.to(torch.uint8).masked_fill_(x > 0, 1000),
        lambda x: torch.nn.functional.threshold(x, 0.5, 1e300),
        lambda x: torch.nn.functional.hardtanh_(x.clone(), -1.0, 1e300),
    ],
)
def test_numbers_that_the_dtype_cannot_hold_are_refused_at_the_call(call: Callable[[torch.Tensor], Any]) -> None:
    stock: Exception | None = None
    try:
        call(torch.ones(3))
    except RuntimeError as error:
        stock = error
    x = torch.ones(3, device="tb")
    for _ in range(2):
        x.clone().clamp_(min=0.5)
        torch.nn.functional.threshold(x, 0.5, 1.0)
    for _ in range(3):
        ours: Exception | None = None
        torch.accelerator.synchronize()
        try:
            call(x)
        except RuntimeError as error:
            ours = error
        torch.accelerator.synchronize()
        assert type(ours) is type(stock), (stock, ours)


def test_usual_numbers_wait_for_nothing() -> None:
    """Infinity beside indices is usual: it is what scores are masked with."""
    x, index = torch.ones(2, 3, device="tb"), torch.tensor([[0, 1], [1, 2]], device="tb")

    def calls() -> list[torch.Tensor]:
        return [
            x.masked_fill(x > 0, float("-inf")),
            x.scatter(1, index, float("-inf")),
            x.clamp(-1e9, 1e9),
            index.clamp(max=1_000_000),
            torch.nn.functional.threshold(x, 0.5, 500.0),
        ]

    calls()
    torch.accelerator.synchronize()
    slow = torch.ones(500, 500, device="tb")
    for _ in range(6):
        slow = slow @ slow * 1e-3
    done = torch.accelerator.current_stream().record_event()
    calls()
    assert not done.query()


def test_binary_cross_entropy_resizes_its_output_each_time_and_checks_shapes_at_the_call() -> None:
    loss = torch.ops.aten.binary_cross_entropy
    x, target = torch.full((4, 3), 0.5), torch.full((4, 3), 0.25)
    expected = loss(x, target, None, 1)
    out = torch.zeros((), device="tb")
    for _ in range(3):
        loss.out(x.to("tb"), target.to("tb"), None, 1, out=out)
        assert out.shape == ()
        torch.testing.assert_close(out.cpu(), expected)
    for device in ("cpu", "tb"):
        with pytest.raises(RuntimeError):
            loss(x.to(device), target[:, :2].to(device), None, 0)
        torch.accelerator.synchronize()
