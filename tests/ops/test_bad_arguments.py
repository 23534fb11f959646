"""tb refuses the arguments that stock CPU refuses, and accepts those that it accepts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch_backend._testing import held
from torch_backend.conformance.bits import bit_identical


def late(call: Callable[[], Any]) -> None:
    """Makes a call and waits for the work that it queued."""
    call()
    torch.accelerator.synchronize()


def waits_for_nothing(calls: Callable[[], Any]) -> bool:
    """Whether calls with known types return before earlier work is done."""
    calls()
    torch.accelerator.synchronize()
    with held() as gate:
        done = torch.accelerator.current_stream().record_event()
        gate.open_once_this_thread_waits()
        calls()
        return not done.query()


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


def test_bernoulli_refuses_wrong_shapes_at_the_call() -> None:
    for device in ("cpu", "tb"):
        x, p = torch.ones(4, 3, device=device), torch.full((4, 3), 0.5, device=device)
        x.bernoulli_(p)
        x.bernoulli_(p)
        with pytest.raises(RuntimeError):
            x.bernoulli_(p.unsqueeze(0))
        torch.accelerator.synchronize()


def test_bernoulli_accepts_empty_tensors_and_the_bounds() -> None:
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
    assert bit_identical(drawn.sort().values.cpu(), torch.arange(n).to(dtype).sort().values)


def test_overlapping_outputs_of_random_operators_get_the_last_number() -> None:
    out = torch.zeros(1, dtype=torch.int64, device="tb").expand(3)
    assert torch.randperm(3, out=out)[0] in (0, 1, 2)
    torch.multinomial(torch.tensor([0.0, 1.0], device="tb"), 3, True, out=out)
    assert out.tolist() == [1, 1, 1]


def test_multinomial_of_no_weights_is_refused() -> None:
    for device in ("cpu", "tb"):
        with pytest.raises(RuntimeError, match="invalid multinomial"):
            torch.multinomial(torch.empty(0, device=device), 3, True)


def test_known_dtypes_in_other_positions_are_refused() -> None:
    """The kernel accepts (int, int) with a float result, but not (int, float) with a float result."""
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


def test_a_convolution_without_a_bias_waits_for_nothing() -> None:
    x = torch.ones(1, 2, 8, 8, device="tb")
    layers = [torch.nn.Conv2d(2, 2, 3, bias=bias).to("tb") for bias in (False, True)]

    def calls() -> list[torch.Tensor]:
        return [layer(x) for layer in layers]

    assert waits_for_nothing(calls)


def test_usual_numbers_wait_for_nothing() -> None:
    """Infinity is a usual argument of operators with indices, since scores are masked with it."""
    x, index = torch.ones(2, 3, device="tb"), torch.tensor([[0, 1], [1, 2]], device="tb")

    def calls() -> list[torch.Tensor]:
        return [
            x.masked_fill(x > 0, float("-inf")),
            x.scatter(1, index, float("-inf")),
            x.clamp(-1e9, 1e9),
            index.clamp(max=1_000_000),
            torch.nn.functional.threshold(x, 0.5, 500.0),
        ]

    assert waits_for_nothing(calls)


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


BAGS = torch.tensor([0])

# Errors that depend on shapes and types only: a good call, which makes the types known, and a bad one.
AT_THE_CALL: dict[str, tuple[Callable[[str], Any], Callable[[str], Any]]] = {
    "addmm": (
        lambda d: torch.addmm(torch.ones(3, device=d), torch.ones(2, 4, device=d), torch.ones(4, 3, device=d)),
        lambda d: torch.addmm(torch.ones(1, 2, 3, device=d), torch.ones(2, 4, device=d), torch.ones(4, 3, device=d)),
    ),
    "linear": (
        lambda d: F.linear(torch.ones(2, 4, device=d), torch.ones(3, 4, device=d), torch.ones(3, device=d)),
        lambda d: F.linear(torch.ones(2, 4, device=d), torch.ones(3, 4, device=d), torch.ones(2, device=d)),
    ),
    "index_put_ with a mask": (
        lambda d: torch.ones(5, 5, device=d).index_put_(
            (torch.ones(5, dtype=torch.bool, device=d),), torch.ones(5, device=d), accumulate=True
        ),
        lambda d: torch.ones(4, 5, device=d).index_put_(
            (torch.ones(5, dtype=torch.bool, device=d),), torch.ones(5, device=d), accumulate=True
        ),
    ),
    "group_norm": (
        lambda d: torch.native_group_norm(torch.ones(1, 3, device=d), None, torch.ones(3, device=d), 1, 3, 1, 1, 0.1),
        lambda d: torch.native_group_norm(torch.ones(1, 3, device=d), None, torch.ones(2, device=d), 1, 3, 1, 1, 0.1),
    ),
    "group_norm without groups": (
        lambda d: torch.native_group_norm(torch.ones(1, 3, device=d), None, None, 1, 3, 1, 1, 0.1),
        lambda d: torch.native_group_norm(torch.ones(1, 3, device=d), None, None, 1, 3, 1, 0, 0.1),
    ),
    "batch_norm": (
        lambda d: F.batch_norm(torch.ones(3, 2, 4, device=d).mT, None, None, torch.ones(4, device=d), training=True),
        lambda d: F.batch_norm(torch.ones(3, 2, 4, device=d).mT, None, None, torch.ones(1, 4, device=d), training=True),
    ),
    "log_sigmoid_backward": (
        lambda d: torch.ops.aten.log_sigmoid_backward(*(torch.ones(4, 3, device=d) for _ in range(3))),
        lambda d: torch.ops.aten.log_sigmoid_backward(
            torch.ones(3, 3, device=d), torch.ones(4, 3, device=d), torch.ones(4, 3, device=d)
        ),
    ),
    "mode": (
        lambda d: torch.ones((), dtype=torch.complex64, device=d).mode(),
        lambda d: torch.ones(3, dtype=torch.complex64, device=d).mode(),
    ),
    "layer_norm": (
        lambda d: F.layer_norm(torch.ones(0, 1, device=d), (1,)),
        lambda d: F.layer_norm(torch.ones(0, 1, dtype=torch.bool, device=d), (1,)),
    ),
    "convolution with another type's bias": (
        lambda d: F.conv1d(torch.ones(1, 2, 4, device=d), torch.ones(1, 2, 3, device=d)),
        lambda d: F.conv1d(
            torch.ones(1, 2, 4, device=d), torch.ones(1, 2, 3, device=d), torch.ones(1, dtype=torch.int64, device=d)
        ),
    ),
    "convolution with another type's weight": (
        lambda d: F.conv3d(torch.ones(1, 2, 4, 4, 4, device=d), torch.ones(2, 2, 3, 3, 3, device=d)),
        lambda d: F.conv3d(torch.ones(1, 2, 4, 4, 4, device=d), torch.ones(2, 2, 3, 3, 3, dtype=torch.int64, device=d)),
    ),
    "linspace": (
        lambda d: torch.linspace(0, 255, 5, dtype=torch.uint8, device=d),
        lambda d: torch.linspace(0, 256, 5, dtype=torch.uint8, device=d),
    ),
    "logspace": (
        lambda d: torch.logspace(0, 2, 5, dtype=torch.uint8, device=d),
        lambda d: torch.logspace(256, 2, 5, dtype=torch.uint8, device=d),
    ),
    "norm in a narrower type": (
        lambda d: torch.ops.aten.norm(torch.ones(3, device=d), 2, [0], False, dtype=torch.float64),
        lambda d: torch.ops.aten.norm(torch.ones(3, device=d), 2, [0], False, dtype=torch.float16),
    ),
    "embedding_bag of masks": (
        lambda d: F.embedding_bag(torch.ones(3, dtype=torch.int64, device=d), torch.ones(3, 4, device=d), BAGS.to(d)),
        lambda d: F.embedding_bag(
            torch.ones(3, dtype=torch.bool, device=d), torch.ones(3, 4, device=d), BAGS.bool().to(d)
        ),
    ),
    "trace": (
        lambda d: torch.ones(3, 3, device=d).trace(),
        lambda d: torch.ones(1, 1, 3, 3, dtype=torch.bool, device=d).trace(),
    ),
    "kthvalue": (lambda d: torch.ones(3, device=d).kthvalue(1), lambda d: torch.ones(0, device=d).kthvalue(1)),
    "instance_norm": (
        lambda d: F.instance_norm(torch.ones(3, 2, 4, device=d), torch.zeros(2, device=d), torch.ones(2, device=d)),
        lambda d: F.instance_norm(
            torch.ones(3, 2, 4, dtype=torch.complex64, device=d), torch.zeros(2, device=d), torch.ones(2, device=d)
        ),
    ),
}


@pytest.mark.parametrize("name", AT_THE_CALL)
def test_shapes_and_types_are_refused_at_the_call_when_the_types_are_known(name: str) -> None:
    good, bad = AT_THE_CALL[name]
    with pytest.raises(Exception) as stock:  # noqa: PT011
        bad("cpu")
    for _ in range(2):
        good("tb")
    torch.accelerator.synchronize()
    with pytest.raises(stock.type):
        bad("tb")
    torch.accelerator.synchronize()


def test_the_weight_of_bags_is_a_matrix() -> None:
    for device in ("cpu", "tb"):
        bags = torch.zeros(2, 2, 2, device=device), torch.zeros(4, dtype=torch.int64, device=device), BAGS.to(device)
        with pytest.raises(RuntimeError, match="weight has to be a 2D Tensor, but got Tensor of dimension 3"):
            torch.embedding_bag(*bags)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int32])
def test_indices_of_bags_are_converted_as_on_the_cpu(dtype: torch.dtype) -> None:
    indices, weight = torch.tensor([1, 0, 1], dtype=dtype), torch.randn(3, 4)
    found = F.embedding_bag(indices.to("tb"), weight.to("tb"), BAGS.to("tb"))
    torch.testing.assert_close(found.cpu(), F.embedding_bag(indices, weight, BAGS))


def test_statistics_of_another_length_are_refused_and_not_read() -> None:
    x, one = torch.ones(2, 3, device="tb"), torch.ones(3, device="tb")
    for short in (torch.ones(0, device="tb"), torch.ones(2, device="tb")):
        with pytest.raises(RuntimeError, match="should contain 3 elements not"):
            torch.native_batch_norm(x, one, one, short, one, True, 0.1, 0.1)


@pytest.mark.parametrize("reduction", range(3))
@pytest.mark.parametrize("name", ["mse_loss", "smooth_l1_loss", "binary_cross_entropy"])
def test_losses_write_their_result_to_out(name: str, reduction: int) -> None:
    operator = getattr(torch.ops.aten, name)
    more = (None, reduction) if name == "binary_cross_entropy" else (reduction,)
    x, y = torch.rand(4, 3), torch.ones(4, 3)
    expected = operator(x, y, *more)
    for out in (torch.empty(0, device="tb"), torch.zeros_like(expected, device="tb")):
        operator.out(x.to("tb"), y.to("tb"), *more, out=out)
        torch.testing.assert_close(out.cpu(), expected)
    torch.testing.assert_close(operator(x.to("tb"), y.to("tb"), *more).cpu(), expected)


@pytest.mark.parametrize("periodic", [False, True])
def test_a_kaiser_window_is_the_cpu_s(periodic: bool) -> None:
    for arguments in ((9,), (9, periodic), (9, periodic, 7.5)):
        assert bit_identical(torch.kaiser_window(*arguments, device="tb").cpu(), torch.kaiser_window(*arguments))


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: x.normal_(float("nan"), 1),
        lambda x: x.normal_(float("inf"), 1),
        lambda x: x.log_normal_(float("inf"), 1),
        lambda x: x.exponential_(float("inf")),
        lambda x: x.cauchy_(float("-inf"), 1),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_infinite_and_nan_parameters_of_distributions_are_accepted(
    draw: Callable[[torch.Tensor], torch.Tensor], dtype: torch.dtype
) -> None:
    assert bit_identical(
        draw(torch.ones(99, dtype=dtype, device="tb")).cpu().nan_to_num(),
        draw(torch.ones(99, dtype=dtype)).nan_to_num(),
    )


@pytest.mark.parametrize(("size", "stride"), [((2,), ()), ((2, 3), (1,)), ((), (1,))])
def test_strides_for_other_dimensions_are_refused(size: tuple[int, ...], stride: tuple[int, ...]) -> None:
    for device in ("cpu", "tb"):
        with pytest.raises(RuntimeError, match="must match dimensionality of strides"):
            torch.empty_strided(size, stride, device=device)
        with pytest.raises(RuntimeError, match="must match dimensionality of strides"):
            torch.empty(0, device=device).new_empty_strided(size, stride)


@pytest.mark.parametrize("element", [0.5, 5])
@pytest.mark.parametrize("invert", [False, True])
def test_isin_takes_a_number_first(element: float, invert: bool) -> None:
    for tests in (torch.tensor([0.5, 1.0]), torch.tensor([[5, 2], [1, 0]]), torch.empty(0)):
        for _ in range(2):
            result = torch.isin(element, tests.to("tb"), invert=invert)
            assert bit_identical(result.cpu(), torch.isin(element, tests, invert=invert))
            out = torch.empty(0, dtype=torch.bool, device="tb")
            assert torch.isin(element, tests.to("tb"), invert=invert, out=out) is out
            assert bit_identical(out.cpu(), result.cpu())


@pytest.mark.parametrize("call", ["empty", "zeros", "strided", "converted"])
def test_new_complex32_tensors_warn_as_the_cpus(call: str) -> None:
    makes: dict[str, Callable[[str], torch.Tensor]] = {
        "empty": lambda device: torch.empty(2, dtype=torch.complex32, device=device),
        "zeros": lambda device: torch.zeros(2, 2, dtype=torch.complex32, device=device),
        "strided": lambda device: torch.empty_strided((2,), (1,), dtype=torch.complex32, device=device),
        "converted": lambda device: torch.ones(2, dtype=torch.complex64, device=device).to(torch.complex32),
    }
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)  # PyTorch warns once in a process
    try:
        for device in ("cpu", "tb"):
            with pytest.warns(UserWarning, match="ComplexHalf support is experimental"):
                makes[call](device)
    finally:
        torch.set_warn_always(before)
