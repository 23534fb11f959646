"""Sparse tensors on tb, COO and compressed: made, used and trained as on the CPU, with equal bits."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from conftest import RunPython
from torch_backend.conformance.bits import assert_bit_identical, bit_identical

untyped: Any = torch  # torch's type annotations lack some accepted arguments
aten = torch.ops.aten
ROWS, COLUMNS = torch.tensor([0, 1, 2]), torch.tensor([0, 1])
LAYOUTS = {name: getattr(torch, f"sparse_{name}") for name in ("csr", "csc", "bsr", "bsc")}
DENSE = torch.tensor([[0.0, 2.0, 0.0, 4.0], [0.5, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [1.0, 3.0, 0.0, -1.0]])
OTHER = torch.arange(16.0).reshape(4, 4).sin()

pytestmark = pytest.mark.filterwarnings("ignore:Sparse")

Calls = dict[str, Callable[[str], Any]]


def values(layout: str) -> torch.Tensor:
    return torch.ones(2, 1, 1) if layout[0] == "b" else torch.ones(2)


def loaded(tensor: torch.Tensor, device: str, checked: bool = False) -> Any:
    """`checked`: as torch.load does in any case since 2.14."""
    file = io.BytesIO()
    torch.save(tensor, file)
    file.seek(0)
    with untyped.sparse.check_sparse_tensor_invariants(checked):
        return torch.load(file, map_location=device)


def sparse(layout: str, device: str = "cpu", dense: torch.Tensor = DENSE) -> torch.Tensor:
    """DENSE in this layout: made on the CPU, and moved."""
    if layout == "coo":
        return dense.to_sparse().to(device)
    return dense.to_sparse(layout=LAYOUTS[layout], blocksize=(2, 2) if layout[0] == "b" else None).to(device)


def coalesced(device: str, indices: torch.Tensor, *dense: int) -> Any:
    """A tensor of these indices, which are said to be coalesced, and are checked. `dense` are its dense dimensions."""
    made = torch.ones(indices.shape[1], *dense, device=device)
    return untyped.sparse_coo_tensor(indices, made, (*DENSE.shape, *dense), is_coalesced=True, check_invariants=True)


def ways_to_make(name: str, layout: torch.layout) -> Calls:
    """Members on the device, members on the CPU, no members, and dense tensors."""
    make = getattr(torch, f"sparse_{name}_tensor")
    on_cpu = (ROWS, COLUMNS, values(name))
    unsafe = getattr(aten, f"_sparse_{name}_tensor_unsafe")
    block = (2, 2) if name[0] == "b" else None

    def there(device: str) -> list[torch.Tensor]:
        return [member.to(device) for member in on_cpu]

    return {
        "of its device": lambda d: make(*there(d), (2, 2)),
        "of its device, without size": lambda d: make(*there(d)),
        "of its device, checked": lambda d: make(*there(d), (2, 2), check_invariants=True),
        "of its device, gradient": lambda d: make(*there(d), (2, 2), requires_grad=True),
        "of cpu": lambda d: make(*on_cpu, (2, 2), device=d),
        "of lists": lambda d: make([0, 1, 2], [0, 1], values(name).tolist(), (2, 2), device=d),
        "any layout": lambda d: untyped.sparse_compressed_tensor(*there(d), (2, 2), layout=layout),
        "any layout without size": lambda d: untyped.sparse_compressed_tensor(*there(d), layout=layout),
        "unsafe": lambda d: unsafe(*there(d), [2, 2], layout=layout, device=d),
        "of dense": lambda d: DENSE.to(d).to_sparse(layout=layout, blocksize=block),
        "of dense by name": lambda d: getattr(DENSE.to(d), f"to_sparse_{name}")(*([block] if block else [])),
    }


def ways_of_layout(name: str) -> Calls:
    return {
        "moved": lambda d: sparse(name).to(d),
        "moved and cast": lambda d: sparse(name).to(d, torch.float64),
        "as_tensor": lambda d: torch.as_tensor(sparse(name), device=d),
        "module": lambda d: torch.nn.ParameterList([torch.nn.Parameter(sparse(name))]).to(d)[0],
        "loaded": lambda d: loaded(sparse(name), d),
        "loaded from there": lambda d: loaded(sparse(name, d), d),
        "loaded and checked": lambda d: loaded(sparse(name), d, checked=True),
        "zeros_like": lambda d: torch.zeros_like(sparse(name, d)),
        "clone": lambda d: sparse(name, d).clone(),
        "detach": lambda d: sparse(name, d).requires_grad_().detach(),
    }


def ways_to_make_coo() -> Calls:
    indices, ones = torch.zeros(1, 1, dtype=torch.int64), torch.ones(1)

    def there(device: str) -> tuple[torch.Tensor, torch.Tensor]:
        return indices.to(device), ones.to(device)

    return {
        "of its device": lambda d: untyped.sparse_coo_tensor(*there(d), (2,)),
        "of its device, without size": lambda d: untyped.sparse_coo_tensor(*there(d)),
        "of its device, checked": lambda d: untyped.sparse_coo_tensor(*there(d), (2,), check_invariants=True),
        "coalesced, checked": lambda d: coalesced(d, sparse("coo", d)._indices()),
        "coalesced, of vectors, checked": lambda d: coalesced(d, torch.tensor([[0, 2], [3, 1]], device=d), 2),
        "of cpu": lambda d: untyped.sparse_coo_tensor(indices, ones, (2,), device=d),
        "of lists": lambda d: untyped.sparse_coo_tensor([[0]], [1.0], (2,), device=d),
        "of nothing": lambda d: untyped.sparse_coo_tensor((2, 2), device=d),
        "unsafe": lambda d: aten._sparse_coo_tensor_unsafe(*there(d), [2], layout=torch.sparse_coo, device=d),
        "zeros": lambda d: torch.zeros(2, 2, layout=torch.sparse_coo, device=d),
        "of dense": lambda d: DENSE.to(d).to_sparse(),
        "of dense, dimensions": lambda d: DENSE.to(d).to_sparse(1),
        "of dense by name": lambda d: untyped.Tensor.to_sparse_coo(DENSE.to(d)),
        "mask": lambda d: OTHER.to(d).sparse_mask(sparse("coo", d)),
        "of compressed": lambda d: sparse("csr", d).to_sparse(),
    }


def all_ways() -> Calls:
    ways = {"coo": {**ways_to_make_coo(), **ways_of_layout("coo")}}
    for name, layout in LAYOUTS.items():
        ways[name] = {**ways_to_make(name, layout), **ways_of_layout(name)}
    return {f"{name}: {way}": call for name, calls in ways.items() for way, call in calls.items()}


WAYS = all_ways()


@pytest.mark.parametrize("way", WAYS)
def test_a_sparse_tensor_is_made_as_on_the_cpu(way: str) -> None:
    made, expected = WAYS[way]("tb"), WAYS[way]("cpu")
    assert made.device == torch.device("tb:0")
    assert made.requires_grad == expected.requires_grad
    assert_bit_identical(expected, made)


@pytest.mark.parametrize("device", ["cpu", "tb"])
def test_indices_that_are_not_coalesced_are_refused_where_they_are_checked(device: str) -> None:
    for columns in ([0, 0], [1, 0]):
        with pytest.raises(RuntimeError, match="cannot set is_coalesced to true"):
            coalesced(device, torch.tensor([[0, 0], columns], device=device))


# From a sparse tensor and a dense one to a result.
USES: dict[str, Callable[[Any, Any], Any]] = {
    "to_dense": lambda s, d: s.to_dense(),
    "cpu": lambda s, d: s.cpu(),
    "numbers": lambda s, d: s * 2,
    "negative": lambda s, d: -s,
    "sin": lambda s, d: s.sin(),
    "abs": lambda s, d: s.abs(),
    "relu": lambda s, d: torch.relu(s),
    "half": lambda s, d: s.to(torch.bfloat16),
    "sum": lambda s, d: s.sum(),
    "matrix": lambda s, d: s @ d,
    "matrix from the left": lambda s, d: d @ s,
    "vector": lambda s, d: s @ d[0],
    "addmm": lambda s, d: torch.addmm(d, s, d),
    "two sparse ones": lambda s, d: s + s,
    "product of two sparse ones": lambda s, d: s * (s + s),
    "mask by a sparse one": lambda s, d: s.sparse_mask((s * 2).coalesce()) if s.layout == torch.sparse_coo else s * 1,
    "transpose": lambda s, d: s.t().to_dense(),
    "nnz": lambda s, d: s._nnz(),
    "zero_": lambda s, d: s.clone().zero_(),
    "mul_": lambda s, d: s.clone().mul_(3),
    "equal shapes": lambda s, d: s.is_same_size(d),
}
COO_USES: dict[str, Callable[[Any, Any], Any]] = {
    "coalesce": lambda s, d: torch.cat([s, s]).coalesce(),
    "sum of equal indices": lambda s, d: torch.sparse_coo_tensor(
        torch.zeros(1, 3, dtype=torch.int64, device=d.device), d[0, :3]
    ).coalesce(),
    "indices": lambda s, d: s.coalesce().indices(),
    "values": lambda s, d: s.coalesce().values(),
    "dense and sparse": lambda s, d: d + s,
    "dense and sparse, in place": lambda s, d: d.clone().add_(s),
    "times dense": lambda s, d: s * d,
    "times itself": lambda s, d: s * s,
    "product of two": lambda s, d: torch.sparse.mm(s, s),
    "sum of a dimension": lambda s, d: torch.sparse.sum(s, 0),
    "softmax": lambda s, d: torch.sparse.softmax(s, 1),
    "index_select": lambda s, d: s.index_select(0, torch.tensor([3, 0], device=d.device)),
    "select": lambda s, d: s[3],
    "sqrt of squares": lambda s, d: (s * s).sqrt(),
    "cat": lambda s, d: torch.cat([s, s], 1),
    "unsqueeze": lambda s, d: s.unsqueeze(0),
    "norm": lambda s, d: s.norm(),
    "bmm": lambda s, d: torch.bmm(torch.stack([s, s]), torch.stack([d, d])),
    "add_, other indices": lambda s, d: s.clone().add_(d.to_sparse()),
    "resize": lambda s, d: s.clone().sparse_resize_((5, 5), 2, 0),
    "copy_": lambda s, d: s.clone().copy_(d.to_sparse()),
    "log1p": lambda s, d: s.log1p(),
    "isnan": lambda s, d: s.isnan(),
}
COMPRESSED_USES: dict[str, Callable[[Any, Any], Any]] = {
    "values": lambda s, d: s.values(),
    "copy_": lambda s, d: s.clone().copy_(s * 2),
}
CASES = [(layout, use) for layout in ("coo", *LAYOUTS) for use in USES]
CASES += [("coo", use) for use in COO_USES]
CASES += [(layout, use) for layout in LAYOUTS for use in COMPRESSED_USES]


def outcome(layout: str, use: str, device: str) -> Any:
    uses = USES | (COO_USES if layout == "coo" else COMPRESSED_USES)
    try:
        return uses[use](sparse(layout, device), OTHER.to(device))
    except Exception as error:
        return type(error)


@pytest.mark.parametrize(("layout", "use"), CASES)
def test_a_sparse_tensor_is_used_as_on_the_cpu(layout: str, use: str) -> None:
    expected, got = outcome(layout, use, "cpu"), outcome(layout, use, "tb")
    if isinstance(expected, torch.Tensor):
        assert isinstance(got, torch.Tensor), got
        assert_bit_identical(expected, got)
    else:
        assert got == expected


@pytest.mark.parametrize("layout", ["coo", *LAYOUTS])
def test_a_sparse_tensor_is_printed_as_on_the_cpu(layout: str) -> None:
    text = repr(sparse(layout, "tb")).replace("device='tb:0', ", "")
    assert text.split() == repr(sparse(layout)).split()  # lines break elsewhere


def test_what_the_cpu_computes_is_counted() -> None:
    s = torch.cat([sparse("coo", "tb"), sparse("coo", "tb")])
    before = {row.operator: row.calls for row in torch.tb.fallbacks()}  # type: ignore[attr-defined]
    s.coalesce()
    after = {row.operator: row.calls for row in torch.tb.fallbacks()}  # type: ignore[attr-defined]
    assert after["aten::_coalesce"] == before.get("aten::_coalesce", 0) + 1


@pytest.mark.parametrize("layout", ["coo", "csr"])
def test_gradients_of_a_product_equal_the_cpus(layout: str) -> None:
    grads = []
    for device in ("cpu", "tb"):
        s = sparse(layout, device).requires_grad_()
        d = OTHER.clone().to(device).requires_grad_()
        torch.sparse.mm(s, d).sin().sum().backward()
        assert d.grad is not None
        assert s.grad is not None
        grads.append((s.grad, d.grad))
    for expected, got in zip(*grads, strict=True):
        assert_bit_identical(expected, got)


def trained(optimizer: str, device: str) -> torch.Tensor:
    torch.manual_seed(0)
    table = torch.nn.Embedding(10, 4, sparse=True)
    table.to(device)
    made: Any = {"SparseAdam": torch.optim.SparseAdam, "SGD": torch.optim.SGD, "Adagrad": torch.optim.Adagrad}
    steps = made[optimizer](table.parameters(), lr=0.1)
    for step in range(5):
        steps.zero_grad()
        (table(torch.tensor([step, 3, 3, 7], device=device)) ** 2).sum().backward()
        assert table.weight.grad is not None
        assert table.weight.grad.layout == torch.sparse_coo
        steps.step()
    return table.weight.detach()


@pytest.mark.parametrize("optimizer", ["SparseAdam", "SGD", "Adagrad"])
def test_an_embedding_with_sparse_gradients_trains_as_on_the_cpu(optimizer: str) -> None:
    assert_bit_identical(trained(optimizer, "cpu"), trained(optimizer, "tb"))


def test_a_bag_of_embeddings_with_sparse_gradients_trains_as_on_the_cpu() -> None:
    grads = []
    for device in ("cpu", "tb"):
        torch.manual_seed(0)
        bag = torch.nn.EmbeddingBag(10, 4, sparse=True, mode="sum").to(device)
        bag(torch.tensor([[1, 2, 2], [3, 4, 9]], device=device)).sin().sum().backward()
        grads.append(bag.weight.grad)
    assert grads[0] is not None
    assert grads[1] is not None
    assert_bit_identical(grads[0].coalesce(), grads[1].coalesce())


def test_a_compressed_result_has_the_elements_that_it_needs() -> None:
    """Where out= has fewer or more of them, or another shape."""
    for shape, filled in (((4, 4), 0.0), ((4, 4), 1.0), ((2, 6), 1.0)):
        results = []
        for device in ("cpu", "tb"):
            matrix = sparse("csr", device)
            out = torch.full(shape, filled, device=device).to_sparse_csr()
            torch.addmm(matrix, matrix, matrix, out=out)
            results.append(out)
        assert_bit_identical(*results)


def test_sparse_tensors_on_memory_that_the_host_cannot_read(run_python: RunPython) -> None:
    code = """
        import torch
        from torch_backend.conformance.bits import assert_bit_identical
        dense = torch.tensor([[0.0, 2.0], [0.5, 0.0]])
        for layout in (torch.sparse_coo, torch.sparse_csr):
            s = dense.to("tb").to_sparse(layout=layout)
            assert_bit_identical(dense.to_sparse(layout=layout), s)
            assert_bit_identical(dense @ dense, s @ dense.to("tb"))
        table = torch.nn.Embedding(4, 2, sparse=True).to("tb")
        table(torch.tensor([1, 1], device="tb")).sum().backward()
        torch.optim.SparseAdam(table.parameters()).step()
        print(table.weight.grad.coalesce().values().tolist())
    """
    assert run_python(code, {"TB_DRIVER": "sim"}).stdout.splitlines()[-1] == "[[2.0, 2.0]]"


def test_second_gradients_of_conversions_equal_the_cpus() -> None:
    found = {}
    for device in ("cpu", "tb"):
        x, weight = DENSE.clone().to(device).requires_grad_(), OTHER.clone().to(device).requires_grad_()
        [first] = torch.autograd.grad(x.to_sparse(), x, weight.to_sparse(), create_graph=True)
        [second] = torch.autograd.grad((first * first).sum(), weight)
        found[device] = [first.detach(), second]
    for expected, got in zip(found["cpu"], found["tb"], strict=True):
        assert_bit_identical(expected, got)


def test_gradients_of_a_product_with_a_reduction_equal_the_cpus() -> None:
    for reduction in ("sum", "mean", "amax", "amin"):
        found = {}
        for device in ("cpu", "tb"):
            x, y = sparse("csr", device).requires_grad_(), OTHER.clone().to(device).requires_grad_()
            result = torch.sparse.mm(x, y, reduction)
            result.sum().backward()
            found[device] = [result.detach(), x.grad, y.grad]
        for expected, got in zip(found["cpu"], found["tb"], strict=True):
            assert_bit_identical(expected, got)


MIXED: dict[str, Callable[[Any, Any], Any]] = {
    "product": lambda s, d: s @ d,
    "product from the left": lambda s, d: d @ s,
    "sum": lambda s, d: d + s,
    "sum of two sparse ones": lambda s, d: s + d.to_sparse(layout=s.layout),
    "difference of two sparse ones": lambda s, d: d.to_sparse(layout=s.layout) - s,
    "addmm": lambda s, d: torch.addmm(d, s, d),
    "product by elements": lambda s, d: s * d,
    "mask": lambda s, d: d.sparse_mask(s.coalesce() if s.layout == torch.sparse_coo else s),
}


@pytest.mark.parametrize("use", MIXED)
@pytest.mark.parametrize("layout", ["coo", "csr"])
@pytest.mark.parametrize("where", [("cpu", "tb"), ("tb", "cpu")], ids=str)
def test_tensors_of_two_devices_are_refused(layout: str, use: str, where: tuple[str, str]) -> None:
    with pytest.raises((RuntimeError, NotImplementedError), match=r"device|backend|expected|cpu|CPU|layout"):
        MIXED[use](sparse(layout, where[0]), OTHER.to(where[1]))


def test_sparse_tensors_still_work_on_the_cpu() -> None:
    torch.ones(1, device="tb")
    for name in LAYOUTS:
        assert bit_identical(sparse(name).to_dense(), DENSE)
