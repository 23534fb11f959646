"""Linear layers are one launch forward and one backward, are bit-identical to stock CPU, and stay observable."""

from __future__ import annotations

import pytest
import tb_stream
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode
from torch_backend.conformance.bits import assert_bit_identical, bit_identical

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
SHAPES = ((5, 7), (1, 7), (3, 4, 7), (2, 3, 4, 7))


def _leaves(shape: tuple[int, ...], dtype: torch.dtype, device: str, bias: bool = True) -> list[torch.Tensor]:
    """The input, a weight with 6 outputs and a bias, with the same values on every device."""
    generator = torch.Generator().manual_seed(3)
    shapes = [shape, (6, shape[-1]), (6,)][: 3 if bias else 2]
    drawn = [torch.randn(s, generator=generator, dtype=torch.float64).to(dtype) for s in shapes]
    return [tensor.to(device).clone().requires_grad_() for tensor in drawn]


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_result_and_gradients_are_bit_identical_to_stock_cpu(
    dtype: torch.dtype, shape: tuple[int, ...], bias: bool
) -> None:
    found = []
    for device in ("cpu", "tb"):
        leaves = _leaves(shape, dtype, device, bias)
        out = F.linear(*leaves)
        torch.autograd.backward((out * torch.arange(6, dtype=dtype, device=device)).sum())
        found.append([out.detach().cpu(), *(leaf.grad.cpu() for leaf in leaves if leaf.grad is not None)])
    assert len(found[0]) == (4 if bias else 3)
    for expected, got in zip(*found, strict=True):
        assert_bit_identical(expected, got)


def test_gradient_of_an_expanded_scalar() -> None:
    found = []
    for device in ("cpu", "tb"):
        leaves = _leaves((3, 4, 7), torch.float32, device)
        torch.autograd.backward(F.linear(*leaves).sum())
        found.append([leaf.grad.cpu() for leaf in leaves if leaf.grad is not None])
    assert len(found[0]) == 3
    assert all(bit_identical(expected, got) for expected, got in zip(*found, strict=True))


def test_one_launch_forward_and_one_backward() -> None:
    leaves = _leaves((5, 7), torch.float32, "tb")
    out = F.linear(*leaves)
    torch.autograd.backward(out, torch.ones_like(out))
    del out  # drops the autograd graph that was recorded on this stream
    gradient = torch.ones(5, 6, device="tb")
    with tb_stream.capture() as forward:
        out = F.linear(*leaves)
    with tb_stream.capture() as backward:
        torch.autograd.grad(out, leaves, gradient)
    assert (forward.node_count, backward.node_count) == (1, 1)


@pytest.mark.parametrize("frozen", range(3))
def test_a_frozen_argument_gets_no_gradient_and_the_others_theirs(frozen: int) -> None:
    found = []
    for device in ("cpu", "tb"):
        leaves = _leaves((5, 7), torch.float32, device)
        leaves[frozen].requires_grad_(False)
        torch.autograd.backward(F.linear(*leaves).square().sum())
        assert leaves[frozen].grad is None
        found.append([leaf.grad.cpu() for leaf in leaves if leaf.grad is not None])
    assert len(found[0]) == 2
    assert all(bit_identical(expected, got) for expected, got in zip(*found, strict=True))


def test_gradients_of_gradients_and_forward_derivatives() -> None:
    leaves = _leaves((4, 7), torch.float64, "tb")
    assert torch.autograd.gradcheck(F.linear, leaves, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(F.linear, leaves)


def test_transforms_see_the_composition() -> None:
    x, weight, _ = (leaf.detach() for leaf in _leaves((4, 7), torch.float64, "tb"))

    def loss(row: torch.Tensor) -> torch.Tensor:
        return F.linear(row, weight).square().sum()

    got = torch.func.vmap(torch.func.grad(loss))(x)
    assert torch.allclose(got.cpu(), (2 * x @ weight.T @ weight).cpu())


def test_a_dispatch_mode_sees_the_composition() -> None:
    class Seen(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __init__(self) -> None:
            super().__init__()  # type: ignore[no-untyped-call]
            self.names: list[str] = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            self.names.append(str(func))
            return func(*args, **(kwargs or {}))

    leaves = _leaves((5, 7), torch.float32, "tb")
    with Seen() as seen:
        torch.autograd.backward(F.linear(*leaves).sum())
    assert "aten.addmm.default" in seen.names
    assert seen.names.count("aten.mm.default") == 2


def test_unusual_arguments_are_as_on_the_cpu() -> None:
    x, weight, bias = _leaves((5, 7), torch.float32, "cpu")
    calls: dict[str, tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]] = {
        "vector": (x[0], weight, bias),
        "no rows": (x[:0], weight, bias),
        "strided input": (x.T.contiguous().T, weight, bias),
        "strided weight": (x, weight.T.contiguous().T, bias),
        "scalar bias": (x, weight, bias[0]),
        "complex": (x.to(torch.complex64), weight.to(torch.complex64), bias.to(torch.complex64)),
        "conjugate": (x.to(torch.complex64).conj(), weight.to(torch.complex64), None),
        "integers": (x.long(), weight.long(), None),
    }
    for name, call in calls.items():
        with torch.no_grad():
            expected = F.linear(*call)
            got = F.linear(call[0].to("tb"), call[1].to("tb"), None if call[2] is None else call[2].to("tb"))
        assert bit_identical(expected, got), name
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        F.linear(x.to("tb"), weight[:, :3].to("tb"))
    with pytest.raises(RuntimeError, match="dtype"):
        F.linear(x.to("tb"), weight.double().to("tb"))


def test_a_weight_changed_in_place_before_backward_is_refused() -> None:
    x, weight, bias = _leaves((5, 7), torch.float32, "tb")
    out = F.linear(x, weight, bias)
    with torch.no_grad():
        weight.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        torch.autograd.backward(out.sum())


def test_hooks_on_saved_tensors_and_a_second_backward() -> None:
    leaves = _leaves((5, 7), torch.float32, "tb")
    packed: list[torch.Tensor] = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        packed.append(tensor)
        return tensor.cpu()

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor.to("tb")):
        out = F.linear(*leaves).sum()
    torch.autograd.backward(out)
    assert sorted(tuple(tensor.shape) for tensor in packed) == [(5, 7), (7, 6)]
    assert leaves[1].grad is not None
    again = F.linear(*leaves)
    torch.autograd.backward(again.sum())
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.backward(again.sum())
