"""Sparse, quantized, mkldnn and strided nested tensors are refused when they are made, with a remedy."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch_backend.conformance.bits import bit_identical

ROWS, COLUMNS = torch.tensor([0, 1, 2]), torch.tensor([0, 1])
LAYOUTS = {name: getattr(torch, f"sparse_{name}") for name in ("csr", "csc", "bsr", "bsc")}
EYE = torch.eye(4)
aten = torch.ops.aten
untyped: Any = torch  # torch's type annotations lack some accepted arguments


def values(layout: str) -> torch.Tensor:
    return torch.ones(2, 1, 1) if layout[0] == "b" else torch.ones(2)


def loaded(tensor: torch.Tensor) -> Any:
    file = io.BytesIO()
    torch.save(tensor, file)
    file.seek(0)
    return torch.load(file, map_location="tb")


def of_cpu(layout: str) -> torch.Tensor:
    if layout == "coo":
        return EYE.to_sparse()
    return EYE.to_sparse(layout=LAYOUTS[layout], blocksize=(2, 2) if layout[0] == "b" else None)


Calls = dict[str, Callable[[], Any]]


def compressed(name: str, layout: torch.layout) -> Calls:
    """All ways to make a compressed tensor on tb: with members on tb, with members on the CPU, and without members."""
    make = getattr(torch, f"sparse_{name}_tensor")
    on_cpu = (ROWS, COLUMNS, values(name))
    on_tb = [member.to("tb") for member in on_cpu]
    unsafe = getattr(aten, f"_sparse_{name}_tensor_unsafe")
    x = EYE.to("tb")
    block = (2, 2) if name[0] == "b" else None
    return {
        "of tb": lambda: make(*on_tb, (2, 2)),
        "of tb without size": lambda: make(*on_tb),
        "of tb, checked": lambda: make(*on_tb, (2, 2), check_invariants=True),
        "of tb, device": lambda: make(*on_tb, (2, 2), device="tb"),
        "of tb, gradient": lambda: make(*on_tb, (2, 2), requires_grad=True),
        "of cpu": lambda: make(*on_cpu, (2, 2), device="tb"),
        "of lists": lambda: make([0, 1, 2], [0, 1], values(name).tolist(), (2, 2), device="tb"),
        "any layout": lambda: untyped.sparse_compressed_tensor(*on_tb, (2, 2), layout=layout),
        "any layout without size": lambda: untyped.sparse_compressed_tensor(*on_tb, layout=layout),
        "any layout of cpu": lambda: untyped.sparse_compressed_tensor(*on_cpu, (2, 2), layout=layout, device="tb"),
        "unsafe": lambda: unsafe(*on_tb, [2, 2], layout=layout, device="tb"),
        "any layout, unsafe": lambda: aten._sparse_compressed_tensor_unsafe(*on_tb, [2, 2], layout=layout, device="tb"),
        "dimensions": lambda: aten._sparse_compressed_tensor_with_dims(
            0, 0, [2, 2], [1, 1] if block else [], torch.int64, layout=layout, device="tb"
        ),
        "of dense": lambda: x.to_sparse(layout=layout, blocksize=block),
        "of dense by name": lambda: getattr(x, f"to_sparse_{name}")(*([block] if block else [])),
        "zeros": lambda: torch.zeros(2, 2, layout=layout, device="tb") if not block else x.new_empty(2, layout=layout),
        "zeros_like of cpu": lambda: torch.zeros_like(of_cpu(name), device="tb"),
    }


def of_layout(name: str, layout: torch.layout) -> Calls:
    x = EYE.to("tb")
    return {
        "empty": lambda: torch.empty(2, 2, layout=layout, device="tb"),
        "rand": lambda: torch.rand(2, 2, layout=layout, device="tb"),
        "new_empty": lambda: x.new_empty((2, 2), layout=layout),
        "empty_strided": lambda: torch.empty_strided((2, 2), (2, 1), layout=layout, device="tb"),
        "empty_like": lambda: torch.empty_like(x, layout=layout),
        "moved": lambda: of_cpu(name).to("tb"),
        "moved and cast": lambda: of_cpu(name).to("tb", torch.float64),
        "tb()": lambda: of_cpu(name).tb(),  # type: ignore[attr-defined]
        "as_tensor": lambda: torch.as_tensor(of_cpu(name), device="tb"),
        "module": lambda: torch.nn.ParameterList([torch.nn.Parameter(of_cpu(name))]).to("tb"),
        "loaded": lambda: loaded(of_cpu(name)),
    }


def coo() -> Calls:
    indices, ones = torch.zeros(1, 1, dtype=torch.int64), torch.ones(1)
    there = indices.to("tb"), ones.to("tb")
    x: Any = EYE.to("tb")
    table = x.clone().requires_grad_()
    return {
        "of tb": lambda: untyped.sparse_coo_tensor(*there, (2,)),
        "of tb without size": lambda: untyped.sparse_coo_tensor(*there),
        "of tb, checked": lambda: untyped.sparse_coo_tensor(*there, (2,), check_invariants=True),
        "of cpu": lambda: untyped.sparse_coo_tensor(indices, ones, (2,), device="tb"),
        "of lists": lambda: untyped.sparse_coo_tensor([[0]], [1.0], (2,), device="tb"),
        "of nothing": lambda: untyped.sparse_coo_tensor((2, 2), device="tb"),
        "unsafe": lambda: aten._sparse_coo_tensor_unsafe(*there, [2], layout=torch.sparse_coo, device="tb"),
        "zeros": lambda: torch.zeros(2, 2, layout=torch.sparse_coo, device="tb"),
        "zeros_like": lambda: torch.zeros_like(EYE.to_sparse(), device="tb"),
        "of dense": lambda: x.to_sparse(),
        "of dense, dimensions": lambda: x.to_sparse(1),
        "of dense by name": lambda: x.to_sparse_coo(),
        "mask": lambda: x.sparse_mask(EYE.to_sparse()),
        "spdiags": lambda: torch.sparse.spdiags(x, torch.arange(4), (4, 4)),
        "gradient": lambda: untyped.nn.functional.embedding(there[0], table, sparse=True).sum().backward(),
    }


def quantized() -> Calls:
    x = EYE.to("tb")
    scales, zeros = torch.ones(4), torch.zeros(4, dtype=torch.int64)
    plain = torch.quantize_per_tensor(EYE, 0.1, 0, torch.qint8)
    rows = torch.quantize_per_channel(EYE, scales, zeros, 0, torch.qint8)
    small = torch.ones(4, dtype=torch.int8, device="tb")
    return {
        "per tensor": lambda: torch.quantize_per_tensor(x, 0.1, 0, torch.quint8),
        "per tensor of tensors": lambda: torch.quantize_per_tensor(x, scales[0], zeros[0], torch.qint8),
        "per tensor of a list": lambda: torch.quantize_per_tensor([x], scales[:1], zeros[:1], torch.qint8),
        "per channel": lambda: torch.quantize_per_channel(x, scales, zeros, 0, torch.qint8),
        "dynamic": lambda: torch.quantize_per_tensor_dynamic(x, torch.qint8, False),
        "made of integers": lambda: torch._make_per_tensor_quantized_tensor(small, 0.1, 0),
        "channels of integers": lambda: torch._make_per_channel_quantized_tensor(small, scales, zeros, 0),
        "moved": lambda: plain.to("tb"),
        "channels moved": lambda: rows.to("tb"),
        "loaded": lambda: loaded(plain),
        "channels loaded": lambda: loaded(rows),
        "empty": lambda: torch.empty(2, dtype=torch.qint8, device="tb"),
        "zeros": lambda: torch.zeros(2, dtype=torch.quint8, device="tb"),
        "full": lambda: torch.full((2,), 1, dtype=torch.qint32, device="tb"),
        "empty_strided": lambda: torch.empty_strided((2,), (1,), dtype=torch.qint8, device="tb"),
        "empty_like": lambda: torch.empty_like(plain, device="tb"),
        "empty_quantized": lambda: torch.empty_quantized([2], plain, device="tb"),
        "affine": lambda: torch._empty_affine_quantized([2], scale=0.1, zero_point=0, dtype=torch.qint8, device="tb"),
        "cast": lambda: x.to(torch.qint8),
    }


def nested() -> Calls:
    x = EYE.to("tb")
    on_cpu = torch.nested.nested_tensor([EYE, EYE[:2]])
    return {
        "of tb": lambda: torch.nested.nested_tensor([x, x[:2]], layout=torch.strided),
        "of cpu": lambda: torch.nested.nested_tensor([EYE, EYE[:2]], device="tb"),
        "of lists": lambda: torch.nested.nested_tensor([[1.0, 2.0], [3.0]], device="tb"),
        "as nested": lambda: torch.nested.as_nested_tensor([x, x[:2]], layout=torch.strided),
        "as nested of cpu": lambda: untyped.nested.as_nested_tensor([EYE, EYE[:2]], device="tb"),
        "as nested of a tensor": lambda: torch.nested.as_nested_tensor(x, layout=torch.strided),
        "narrow": lambda: torch.nested.narrow(x, 1, 0, 2, layout=torch.strided),
        "list": lambda: torch._nested_tensor_from_tensor_list([x, x]),
        "mask": lambda: torch._nested_tensor_from_mask(x[None], torch.ones(1, 4, dtype=torch.bool, device="tb")),
        "padded": lambda: torch._nested_from_padded(x[None], torch.tensor([[2, 4]])),
        "moved": lambda: on_cpu.to("tb"),
    }


def all_calls() -> dict[str, Callable[[], Any]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns that these are prototypes
        kinds = {"coo": coo(), "quantized": quantized(), "nested": nested()}
        kinds["coo of a layout"] = of_layout("coo", torch.sparse_coo)
        for name, layout in LAYOUTS.items():
            kinds[name] = {**compressed(name, layout), **of_layout(name, layout)}
    kinds["mkldnn"] = {
        "of dense": lambda: EYE.to("tb").to_mkldnn(),
        "of dense and cast": lambda: EYE.to("tb").to_mkldnn(torch.bfloat16),
    }
    return {f"{kind}: {way}": call for kind, ways in kinds.items() for way, call in ways.items()}


CALLS = all_calls()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_an_unsupported_kind_of_tensor_is_refused_when_it_is_made(name: str) -> None:
    with pytest.raises(NotImplementedError, match=r"tb has no|tb tensors cannot be|tb tensors are strided") as caught:
        CALLS[name]()
    assert "the CPU" in str(caught.value)


@pytest.mark.parametrize(
    "make", [lambda: torch.empty(2, layout=untyped._mkldnn, device="tb"), lambda: EYE.to_mkldnn().to("tb")]
)
def test_a_layout_that_pytorch_ties_to_other_devices_is_refused_by_pytorch(make: Callable[[], Any]) -> None:
    with pytest.raises(NotImplementedError, match="Unsupported device type for mkldnn layout: tb"):
        make()


USES = ["print", "repr", "torch.Tensor.cpu", "torch.Tensor.clone", "torch.Tensor.values", "torch.Tensor.crow_indices",
        "torch.Tensor.to_dense", "torch.Tensor.sum", "torch.Tensor.tolist", "torch.Tensor.half"]  # fmt: skip


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("use", USES)
def test_a_compressed_tensor_that_pytorch_made_itself_is_refused_at_its_use(use: str) -> None:
    made = torch.empty_like(EYE.to_sparse_csr(), device="tb")
    with pytest.raises(NotImplementedError, match=r"no sparse .compressed. tensors\. Keep the tensor on the CPU"):
        eval(use)(made)


def test_these_kinds_of_tensors_still_work_on_the_cpu() -> None:
    torch.ones(1, device="tb")
    assert torch.nested.nested_tensor([EYE, EYE[:2]]).sin().unbind()[1].shape == (2, 4)
    assert torch.nested.nested_tensor([EYE], device="cpu").is_nested
    assert bit_identical(torch.nested.as_nested_tensor([EYE, EYE]).unbind()[0], EYE)
    for name in LAYOUTS:
        assert bit_identical(of_cpu(name).to_dense(), EYE)
