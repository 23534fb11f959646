"""Operators with a layout cache: the first call waits, later calls do not, and all are bit-identical to stock CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from fallback.example_operators import mode
from ops.cases.case import Source, assert_same, backward
from torch import Tensor
from torch_backend._testing import held
from torch_backend.conformance.bits import bit_identical

aten = torch.ops.aten
tb: Any = torch.tb  # type: ignore[attr-defined]

pytestmark = pytest.mark.usefixtures("one_thread", "no_fallbacks")


def with_gradients(function: Callable[..., Tensor], *inputs: Tensor) -> Any:
    given = [x.requires_grad_() for x in inputs]
    y = function(*given)
    return y, backward(y, *given)


def positive(source: Source, size: int) -> Tensor:
    x = source.randn(2, size, size)
    return x @ x.mT + torch.eye(size, device=source.device)


def out_of(function: Callable[..., Any], x: Tensor, shape: tuple[int, ...], **how: Any) -> Tensor:
    out = torch.zeros(shape, device=x.device, dtype=how.pop("dtype", x.dtype))
    function(x, out=out, **how)
    return out


CASES: dict[str, Callable[[Source], Any]] = {
    "unfold": lambda s: with_gradients(lambda x: F.unfold(x, 3, padding=1, stride=2), s.randn(2, 3, 7, 7)),
    "fold": lambda s: with_gradients(lambda x: F.fold(x, (6, 6), 2, stride=2), s.randn(2, 12, 9)),
    "cdist": lambda s: with_gradients(lambda x, y: torch.cdist(x, y, 1.0), s.randn(2, 5, 3), s.randn(2, 4, 3)),
    "pdist": lambda s: with_gradients(torch.pdist, s.randn(6, 3)),
    "searchsorted": lambda s: torch.searchsorted(s.randn(2, 9).sort().values, s.randn(2, 4), right=True),
    "bucketize": lambda s: torch.bucketize(s.randn(3, 4), torch.linspace(-1, 1, 5, device=s.device), out_int32=True),
    "grid_sample": lambda s: with_gradients(
        lambda x, y: F.grid_sample(x, y, align_corners=False), s.randn(2, 3, 5, 6), s.randn(2, 4, 4, 2).tanh()
    ),
    "grid_sample of volumes": lambda s: with_gradients(
        lambda x, y: F.grid_sample(x, y, align_corners=True), s.randn(1, 2, 4, 4, 4), s.randn(1, 3, 3, 3, 3).tanh()
    ),
    "histc": lambda s: (s.randn(40).histc(8, -2, 2), s.randn(40).histc(5)),
    "histogram": lambda s: torch.ops.aten.histogram.bin_ct(s.randn(40), 6),
    "mode": lambda s: s.integers(4, 5, 9).float().mode(1),
    "mode into out=": lambda s: torch.mode(
        s.integers(4, 5, 9).float(),
        1,
        out=(s.randn(5), s.integers(2, 5)),
    ),
    "nansum": lambda s: (s.randn(4, 5).log().nansum(), s.randn(4, 5).log().nansum(0), s.randn(3, 3).nansum(1, True)),
    "triangles": lambda s: (torch.tril_indices(4, 5, 1, device=s.device), torch.triu_indices(3, 3, device=s.device)),
    "adaptive_avg_pool3d": lambda s: with_gradients(lambda x: F.adaptive_avg_pool3d(x, 3), s.randn(2, 3, 5, 6, 7)),
    "max_pool3d": lambda s: with_gradients(lambda x: F.max_pool3d(x, 2), s.randn(2, 3, 4, 6, 6)),
    "max_unpool2d": lambda s: F.max_unpool2d(*F.max_pool2d(s.randn(2, 3, 6, 6), 2, return_indices=True), [2, 2]),
    "replication pads": lambda s: with_gradients(
        lambda x: F.pad(x, (1, 2, 3, 1), mode="replicate"), s.randn(2, 3, 4, 4)
    ),
    "addbmm": lambda s: torch.addbmm(s.randn(3, 5), s.randn(4, 3, 2), s.randn(4, 2, 5), beta=0.5),
    "channel_shuffle": lambda s: F.channel_shuffle(s.randn(2, 6, 3, 3), 3),
    "fft": lambda s: with_gradients(lambda x: torch.fft.irfft2(torch.fft.rfft2(x) * 2, x.shape[-2:]), s.randn(2, 6, 7)),
    "complex fft": lambda s: torch.fft.fftn(torch.complex(s.randn(4, 5), s.randn(4, 5)), norm="ortho"),
    "linear solver": lambda s: with_gradients(torch.linalg.solve, positive(s, 4), s.randn(2, 4, 3)),
    "triangular solver": lambda s: with_gradients(
        lambda a, b: torch.linalg.solve_triangular(a, b, upper=True), s.randn(4, 4) + 4, s.randn(4, 2)
    ),
    "cholesky": lambda s: with_gradients(torch.linalg.cholesky, positive(s, 4)),
    "inverse": lambda s: with_gradients(torch.linalg.inv, positive(s, 4)),
    "determinant": lambda s: with_gradients(torch.linalg.det, positive(s, 3)),
    "qr": lambda s: torch.linalg.qr(s.randn(2, 5, 3)),
    "svd": lambda s: torch.linalg.svd(s.randn(4, 3), full_matrices=False),
    "eigenvalues": lambda s: (torch.linalg.eigh(positive(s, 4)), torch.linalg.eig(s.randn(3, 3))),
    "matrix exponential": lambda s: with_gradients(torch.linalg.matrix_exp, s.randn(3, 3)),
    "householder": lambda s: torch.linalg.householder_product(s.randn(4, 3), s.randn(3)),
    "weight norm": lambda s: with_gradients(
        lambda v, g: torch._weight_norm(v, g, 0), s.randn(4, 3, 2), s.randn(4, 1, 1)
    ),
    "multi margin": lambda s: with_gradients(
        lambda x: F.multi_margin_loss(x, torch.tensor([1, 0, 2], device=x.device)), s.randn(3, 4)
    ),
    "renorm": lambda s: (s.randn(3, 4).renorm(2, 0, 1.0), s.randn(3, 4).renorm_(1, 1, 0.5)),
    "into out=": lambda s: out_of(torch.nansum, s.randn(3, 4), (3,), dim=1),
    "into columns": lambda s: out_of(lambda x, out: torch.nansum(x, 0, out=out.t()), s.randn(3, 4, 2), (2, 4)),
    "of conjugates": lambda s: torch.linalg.householder_product(
        torch.complex(s.randn(3, 3), s.randn(3, 3)).conj(), torch.complex(s.randn(3), s.randn(3)).conj()
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_every_call_gives_what_stock_cpu_gives(name: str) -> None:
    on_cpu, on_tb = Source("cpu"), Source("tb")
    for _ in range(3):  # the first call fills the layout cache, the others use it
        assert_same(CASES[name](on_cpu), CASES[name](on_tb))


RANDOM: dict[str, Callable[[Tensor], Tensor]] = {
    "poisson": lambda x: torch.poisson(5 * x),
    "binomial": lambda x: torch.binomial(9 * torch.ones_like(x), x),
    "gamma": lambda x: torch._standard_gamma(x + 1),
    "dirichlet": lambda x: torch._sample_dirichlet(x + 1),
    "rrelu": lambda x: F.rrelu(-x, training=True),
    "rrelu in place": lambda x: F.rrelu(-x, training=True, inplace=True),
}


@pytest.mark.parametrize("name", RANDOM)
def test_random_numbers_follow_the_seed_and_continue_the_sequence(name: str) -> None:
    x = torch.full((50, 4), 0.5, device="tb")

    def three() -> list[Tensor]:
        torch.manual_seed(3)
        return [RANDOM[name](x).cpu() for _ in range(3)]

    first, again = three(), three()
    assert_same(first, again)
    assert not bit_identical(first[0], first[1])
    assert not bit_identical(first[1], first[2])
    torch.testing.assert_close(first[2].mean(), RANDOM[name](x.cpu()).mean(), rtol=0.2, atol=0)


# ---- waiting ---------------------------------------------------------------------------------------------------------


def returns_before_its_work_is_done(call: Callable[[Tensor], object]) -> bool:
    stream, x = torch.accelerator.current_stream(), torch.ones(8, 4, device="tb")
    call(x)
    with held() as gate:
        gate.open_once_this_thread_waits()
        call(x)
        done = stream.query()
    stream.synchronize()
    return not done


def test_a_call_with_known_shapes_does_not_wait() -> None:
    assert returns_before_its_work_is_done(torch.mode)
    assert returns_before_its_work_is_done(lambda x: F.unfold(x.view(1, 1, 8, 4), 2))


def test_a_fallback_would_wait() -> None:
    before = tb.fallbacks()
    try:
        assert not returns_before_its_work_is_done(mode)
    finally:
        assert tb.fallbacks() != before
        tb.reset_fallbacks()


def test_a_size_that_depends_on_data_waits_each_time_and_is_no_fallback() -> None:
    x = torch.ones(8, 4, device="tb")
    for row in range(3):
        x[row] = 0
        assert torch.nonzero(x).shape[0] == 28 - 4 * row


# ---- what is part of a call's layout ---------------------------------------------------------------------------------


def test_shapes_types_strides_and_numbers_are_distinguished() -> None:
    on_cpu, on_tb = Source("cpu"), Source("tb")

    def calls(source: Source) -> list[Any]:
        x = source.randn(2, 3, 6, 6)
        return [
            aten.im2col(x, [2, 2], [1, 1], [0, 0], [1, 1]),
            aten.im2col(x, [3, 2], [1, 1], [0, 0], [1, 1]),
            aten.im2col(x.double(), [2, 2], [1, 1], [0, 0], [1, 1]),
            aten.im2col(x[:1], [2, 2], [1, 1], [0, 0], [1, 1]),
            aten.nansum(x[0, 0], [0], True),
            aten.nansum(x[0, 0], [0], False),
            aten.nansum(x[0, 0], [0], False, dtype=torch.float64),
            torch.tril_indices(3, 3, device=source.device),
            torch.tril_indices(3, 3, device=source.device, dtype=torch.int32),
        ]

    for _ in range(2):
        assert_same(calls(on_cpu), calls(on_tb))


def test_an_out_tensor_that_has_to_grow_grows_each_time() -> None:
    x = torch.ones(3, 4, device="tb")
    for _ in range(3):
        out = torch.empty(0, device="tb")
        assert torch.nansum(x, 0, out=out) is out
        assert out.tolist() == [3, 3, 3, 3]


def test_errors_in_arguments_appear_at_every_call() -> None:
    x = torch.ones(1, 1, 3, 3, device="tb")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="shape of the array"):
            F.unfold(x, 5)
    torch.accelerator.synchronize()


def test_overlapping_memory_is_refused_also_with_a_cached_layout() -> None:
    x = torch.ones(5, device="tb")
    aten._add_relu.out(x[:4], x[:4], out=torch.empty(4, device="tb"))
    for out in (x[1:], torch.empty(1, device="tb").expand(4)):
        for _ in range(2):
            with pytest.raises(RuntimeError, match="single memory location"):
                aten._add_relu.out(x[:4], x[:4], out=out)


def captures(step: Callable[[], object]) -> bool:
    """Whether a capture accepts the step, because it does not wait."""
    graph = tb.Graph()
    try:
        with tb.graph(graph):
            step()
    except RuntimeError as error:
        if "for the first time" not in str(error):
            raise
        return False
    return True


def test_a_warmed_up_call_is_captured_after_any_number_of_others() -> None:
    warm = torch.randn(2, 3, device="tb")
    assert not captures(lambda: torch.nansum(warm))
    for _ in range(2):
        torch.nansum(warm)
    once = torch.randn(3, 2, device="tb")
    torch.nansum(once)
    rows = torch.randn(1, 60_000, device="tb")
    for length in range(1, 2000):
        torch.nansum(rows[:, :length])
    assert captures(lambda: torch.nansum(warm))
    assert captures(lambda: torch.nansum(once))
    for length in range(2000, 60_000):
        torch.nansum(rows.as_strided((1, 1), (length, 1)))
    assert captures(lambda: torch.nansum(warm))
    assert not captures(lambda: torch.nansum(rows[:, :1])), "what came once leaves where there is much of it"
