"""Nested tensors on tb, strided and jagged: PyTorch's generic kernels over tb's memory, with the CPU's results."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from conftest import RunPython
from torch_backend.conformance.bits import assert_bit_identical

F = torch.nn.functional
untyped: Any = torch
PARTS = [torch.arange(12.0).reshape(3, 4).sin(), torch.arange(20.0).reshape(5, 4).cos()]

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")


def strided(device: str, parts: list[torch.Tensor] = PARTS, **options: Any) -> torch.Tensor:
    return torch.nested.nested_tensor([part.to(device) for part in parts], layout=torch.strided, **options)


def jagged(device: str, parts: list[torch.Tensor] = PARTS) -> Any:
    return torch.nested.as_nested_tensor([part.to(device) for part in parts], layout=torch.jagged)


def check(expected: Any, got: Any) -> None:
    """Equal bits of all parts, on tb."""
    if isinstance(expected, torch.Tensor) and expected.is_nested:
        assert got.device == torch.device("tb:0")
        for one, other in zip(expected.unbind(), got.unbind(), strict=True):
            assert_bit_identical(one, other)
    elif isinstance(expected, (list, tuple)):
        for one, other in zip(expected, got, strict=True):
            check(one, other)
    elif isinstance(expected, torch.Tensor):
        assert_bit_identical(expected, got)
    else:
        assert expected == got


WAYS: dict[str, Callable[[str], Any]] = {
    "of its device": strided,
    "of cpu": lambda d: torch.nested.nested_tensor(PARTS, device=d),
    "of lists": lambda d: torch.nested.nested_tensor([[1.0, 2.0], [3.0]], device=d),
    "as nested": lambda d: torch.nested.as_nested_tensor([part.to(d) for part in PARTS], layout=torch.strided),
    "as nested of cpu": lambda d: untyped.nested.as_nested_tensor(PARTS, device=d),
    "as nested of a tensor": lambda d: torch.nested.as_nested_tensor(PARTS[0].to(d), layout=torch.strided),
    "list": lambda d: torch._nested_tensor_from_tensor_list([part.to(d) for part in PARTS]),
    "mask": lambda d: torch._nested_tensor_from_mask(
        PARTS[0][None].to(d), torch.tensor([[True, True, False]], device=d)
    ),
    "padded": lambda d: torch._nested_from_padded(PARTS[0][None].to(d), torch.tensor([[2, 4]])),
    "moved": lambda d: strided("cpu").to(d),
    "moved and cast": lambda d: strided("cpu").to(d, torch.float64),
    "gradients": lambda d: strided(d, requires_grad=True).sin(),
    "jagged": jagged,
    "jagged, moved": lambda d: jagged("cpu").to(d),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_nested_tensor_is_made_as_on_the_cpu(way: str) -> None:
    check(WAYS[way]("cpu"), WAYS[way]("tb"))


USES: dict[str, Callable[[Any, Any], Any]] = {
    "to the cpu and back": lambda n, w: n.cpu().to(n.device),
    "clone": lambda n, w: n.clone(),
    "sin": lambda n, w: n.sin(),
    "relu": lambda n, w: torch.relu(n),
    "gelu": lambda n, w: F.gelu(n),
    "two": lambda n, w: n + n,
    "product": lambda n, w: n * n,
    "number": lambda n, w: n * 2.0,
    "negative": lambda n, w: -n,
    "linear": lambda n, w: F.linear(n, w),
    "layer_norm": lambda n, w: F.layer_norm(n, (4,), w[0], w[1]),
    "softmax": lambda n, w: n.softmax(-1),
    "padding": lambda n, w: torch.nested.to_padded_tensor(n, -1.0),
    "half": lambda n, w: n.to(torch.bfloat16),
    "dropout": lambda n, w: F.dropout(n, 0.5, training=False),
    "size": lambda n, w: (n.size(0), n.size(-1)),
    "numel": lambda n, w: n.numel(),
    "zeros_like": lambda n, w: torch.zeros_like(n),
    "detach": lambda n, w: n.detach(),
    "unbind": lambda n, w: list(n.unbind()),
}
STRIDED_USES: dict[str, Callable[[Any, Any], Any]] = {
    "matmul": lambda n, w: torch.matmul(n, n.transpose(1, 2)),
    "bmm": lambda n, w: torch.bmm(n, n.transpose(1, 2)),
    "transpose": lambda n, w: n.transpose(1, 2).contiguous(),
    "chunk": lambda n, w: list(n.chunk(2, -1)),
    "sum": lambda n, w: n.sum(-1, keepdim=True),
    "select": lambda n, w: n.select(0, 1),
    "cat": lambda n, w: torch.cat([n, n]),
    "fill_": lambda n, w: n.clone().fill_(3.0),
    "zero_": lambda n, w: n.clone().zero_(),
    "masked": lambda n, w: n.masked_fill(n > 0, -1.0),
    "embedding": lambda n, w: F.embedding(torch.nested.nested_tensor([n[0][:, 0].abs().long()] * 2), w),
    "view": lambda n, w: n.reshape(2, -1, 2, 2).transpose(1, 2),
}
CASES = [(layout, use) for layout in ("strided", "jagged") for use in USES]
CASES += [("strided", use) for use in STRIDED_USES]


@pytest.mark.parametrize(("layout", "use"), CASES)
def test_a_nested_tensor_is_used_as_on_the_cpu(layout: str, use: str) -> None:
    make = strided if layout == "strided" else jagged
    call = (USES | STRIDED_USES)[use]
    weights = torch.arange(16.0).reshape(4, 4).sin()
    check(call(make("cpu"), weights), call(make("tb"), weights.to("tb")))


@pytest.mark.parametrize("layout", ["strided", "jagged"])
def test_a_nested_tensor_is_printed(layout: str) -> None:
    made = (strided if layout == "strided" else jagged)("tb")
    assert "tb:0" in repr(made) or layout == "jagged"
    assert repr(made).startswith(("nested_tensor([", "NestedTensor("))


def gradients(device: str, layout: torch.layout) -> tuple[torch.Tensor, ...]:
    """Of attention over three sequences of two heads."""
    generator = torch.Generator().manual_seed(0)
    parts = [torch.randn(n, 2, 4, generator=generator).to(device).requires_grad_() for n in (3, 5, 2)]
    query = torch.nested.as_nested_tensor(parts, layout=layout).transpose(1, 2)
    if layout == torch.strided:
        query = query.contiguous()  # PyTorch refuses others on every device
    out = F.scaled_dot_product_attention(query, query, query)
    torch.nested.to_padded_tensor(out.transpose(1, 2).contiguous(), 0.0).sin().sum().backward()
    grads = [part.grad for part in parts]
    assert all(grad is not None for grad in grads)
    return tuple(grad for grad in grads if grad is not None)


@pytest.mark.parametrize("layout", [torch.jagged, torch.strided])
def test_attention_over_nested_tensors_and_its_gradients_equal_the_cpus(layout: torch.layout) -> None:
    for expected, got in zip(gradients("cpu", layout), gradients("tb", layout), strict=True):
        torch.testing.assert_close(got.cpu(), expected)


def test_members_that_need_gradients() -> None:
    grads = []
    for device in ("cpu", "tb"):
        part = PARTS[0].clone().to(device).requires_grad_()
        made = torch.nested.as_nested_tensor([part, part * 2], layout=torch.strided)
        torch.nested.to_padded_tensor(made * made, 0.0).sum().backward()
        grads.append(part.grad)
    check(*grads)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("norm_first", [False, True])
def test_an_encoder_takes_its_fast_path_with_a_padding_mask(norm_first: bool) -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=norm_first)
    encoder = torch.nn.TransformerEncoder(layer, 2).eval()
    x = torch.randn(3, 6, 32)
    mask = torch.arange(6) >= torch.tensor([[6], [4], [2]])
    with torch.no_grad():
        expected = encoder(x, src_key_padding_mask=mask)
        got = encoder.to("tb")(x.to("tb"), src_key_padding_mask=mask.to("tb"))
    torch.testing.assert_close(got.cpu(), expected)


def test_nested_tensors_on_memory_that_the_host_cannot_read(run_python: RunPython) -> None:
    code = """
        import torch
        parts = [torch.ones(2, 3, device="tb"), torch.full((1, 3), 2.0, device="tb")]
        made = torch.nested.nested_tensor(parts, layout=torch.strided)
        print(torch.nested.to_padded_tensor(made * 2 + made, 0.0).tolist())
    """
    lines = run_python(code, {"TB_DRIVER": "sim"}).stdout.splitlines()
    assert lines[-1] == str([[[3.0] * 3] * 2, [[6.0] * 3, [0.0] * 3]])


def test_nested_tensors_still_work_on_the_cpu() -> None:
    torch.ones(1, device="tb")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert strided("cpu").sin().unbind()[1].shape == (5, 4)
