"""Calls of operators that sort, scan, select, search and index, by group, and of recurrent cells (see cases.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from tb_ops.device_kernels.case_inputs import HALVES, WHOLE, Case, gradients, numbers

TYPES = [torch.float32, torch.float64, *HALVES, *WHOLE, torch.bool]
NAN, INFINITY = float("nan"), float("inf")


def tied(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Numbers of which many are equal, in no order."""
    return (numbers(*shape) * 2).round().to(dtype)


def with_nan(x: Tensor) -> Tensor:
    x = x.clone()
    x.view(-1)[::7] = NAN
    return x


def sorting() -> Iterator[Case]:
    for dtype in TYPES:
        x = tied(5, 70, dtype=dtype)
        yield f"sort {dtype}", lambda x: x.sort(stable=True), [x]
        yield f"sort 0 descending {dtype}", lambda x: x.sort(dim=0, descending=True, stable=True), [x]
        if dtype != torch.bool:
            yield f"topk {dtype}", lambda x: x.topk(3).values, [x]
        yield f"sort long {dtype}", lambda x: x.sort(stable=True), [tied(2, 2500, dtype=dtype)]
    for layout, x in (
        ("transposed", numbers(70, 5).t()),
        ("sliced", numbers(9, 140)[::2, ::2]),
        ("three", numbers(3, 70, 4)),
        ("no dimension", torch.tensor(2.5)),
        ("empty", numbers(3, 0)),
        ("no rows", numbers(0, 3)),
        ("a tile", numbers(2, 1024)),
        ("more than a tile", numbers(3, 1025)),
        ("many short rows", numbers(3000, 3)),
    ):
        for dim in {0, -1}:
            yield f"sort {layout} {dim}", lambda x, d=dim: x.sort(d), [x]
            yield f"sort descending {layout} {dim}", lambda x, d=dim: x.sort(d, descending=True), [x]
    x = numbers(4, 3000)
    for count in (1, 50, 512, 513, 3000):
        for largest in (True, False):
            yield f"topk {count} {largest}", lambda x, k=count, g=largest: x.topk(k, largest=g), [x]
    yield "topk 0", lambda x: x.topk(2, dim=0), [x]
    yield "topk none", lambda x: x.topk(0), [x]
    yield "topk backward", gradients(lambda x: x.topk(2).values), [numbers(3, 9)]
    yield "sort backward", gradients(lambda x: x.sort(0).values), [numbers(3, 9)]
    yield "sort nan", lambda x: x.sort(stable=True), [with_nan(numbers(3, 50))]
    yield "sort nan descending", lambda x: x.sort(stable=True, descending=True), [with_nan(numbers(3, 50))]
    yield "topk nan", lambda x: x.topk(3).values, [with_nan(numbers(3, 50))]
    yield "zeros of both signs", lambda x: x.sort(stable=True), [torch.tensor([0.0, -0.0, 0.0, -1.0])]
    yield "argsort", lambda x: x.argsort(0), [numbers(7, 3)]
    yield "sort out", lambda x: torch.sort(x, out=_transposed(x, x.dtype, torch.int64)), [numbers(7, 5)]
    yield "sort infinite", lambda x: x.sort(), [torch.tensor([INFINITY, 1.0, -INFINITY, NAN])]
    for keep in (False, True):
        yield f"kthvalue {keep}", lambda x, k=keep: x.kthvalue(3, 0, k), [numbers(9, 4)]
        yield f"median {keep}", lambda x, k=keep: x.median(-1, k), [numbers(9, 4)]
        yield f"nanmedian {keep}", lambda x, k=keep: x.nanmedian(0, k), [with_nan(numbers(9, 5))]
    yield "median nan", lambda x: x.median(0), [with_nan(numbers(9, 5))]
    yield "median all", torch.median, [numbers(9, 5, dtype=torch.int64)]


def _transposed(x: Tensor, *dtypes: torch.dtype) -> tuple[Tensor, ...]:
    return tuple(torch.empty(*reversed(x.shape), dtype=dtype, device=x.device).t() for dtype in dtypes)


def scans() -> Iterator[Case]:
    shapes: list[tuple[str, Tensor]] = [
        ("plain", numbers(5, 130)),
        ("transposed", numbers(130, 5).t()),
        ("three", numbers(3, 70, 4)),
        ("no dimension", torch.tensor(2.5)),
        ("empty", numbers(0, 3)),
        ("chunks", numbers(2, 10_000, low=-0.01, high=0.01)),
    ]
    for layout, x in shapes:
        for dim in {0, -1}:
            yield f"cumsum {layout} {dim}", lambda x, d=dim: x.cumsum(d), [x]
            yield f"cumprod {layout} {dim}", lambda x, d=dim: (x / 4 + 1).cumprod(d), [x]
            yield f"cummax {layout} {dim}", lambda x, d=dim: x.cummax(d), [x]
            yield f"cummin {layout} {dim}", lambda x, d=dim: x.cummin(d), [x]
            yield f"logcumsumexp {layout} {dim}", lambda x, d=dim: x.logcumsumexp(d), [x]
    for dtype in TYPES:
        yield f"cumsum {dtype}", lambda x: x.cumsum(-1), [tied(3, 40, dtype=dtype)]
        yield f"cummax {dtype}", lambda x: x.cummax(1), [tied(3, 90, dtype=dtype)]
    yield "cumprod int64", lambda x: x.cumprod(-1), [tied(3, 9, dtype=torch.int64)]
    yield "cumsum to int64", lambda x: x.cumsum(-1, dtype=torch.int64), [numbers(3, 90)]
    yield "cumsum in place", lambda x: x.clone().cumsum_(0), [numbers(9, 90)]
    yield "cumsum out", lambda x: torch.cumsum(x, 0, out=_transposed(x, x.dtype)[0]), [numbers(9, 90)]
    yield "cumsum backward", gradients(lambda x: x.cumsum(0)), [numbers(9, 5)]
    yield "cumprod backward", gradients(lambda x: x.cumprod(0)), [numbers(9, 5, low=0.5)]
    yield "cummax nan", lambda x: x.cummax(1), [with_nan(numbers(3, 90))]
    infinite = torch.tensor([-INFINITY, -INFINITY, 1.0, INFINITY])
    yield "logcumsumexp infinite", lambda x: x.logcumsumexp(0), [infinite]
    yield "many counts", lambda x: x.cumsum(0)[-1], [torch.ones(100_000, dtype=torch.bool)]


def selection() -> Iterator[Case]:
    x, mask = numbers(7, 12), numbers(7, 12) > 0.4
    for dtype in (torch.float32, torch.float16, torch.int64, torch.uint8, torch.bool):
        y = tied(7, 12, dtype=dtype)
        yield f"masked_select {dtype}", torch.masked_select, [y, mask]
        yield f"nonzero {dtype}", torch.nonzero, [y]
        yield f"mask {dtype}", lambda x, m: x[m], [y, mask]
        yield f"masked_scatter {dtype}", lambda x, m: x.masked_scatter(m, x.flip(0)), [y, mask]
        yield f"unique {dtype}", lambda x: x.unique(return_inverse=True, return_counts=True), [y]
        yield f"flip {dtype}", lambda x: x.flip(0, 1), [y]
    yield "nonzero of none", torch.nonzero, [torch.zeros(3, 4)]
    yield "nonzero no dimension", torch.nonzero, [torch.tensor(3.0)]
    yield "nonzero strided", torch.nonzero, [mask.t()[::2]]
    yield "nonzero many", torch.nonzero, [numbers(60_000) > 0]
    yield "where", lambda m: torch.where(m), [mask]
    yield "argwhere", torch.argwhere, [mask]
    yield "masked_select broadcast", torch.masked_select, [x, mask[0]]
    yield "masked_select strided", torch.masked_select, [x.t(), mask.t()]
    yield "masked_select backward", gradients(torch.masked_select), [x, mask]
    yield "masked rows", lambda x, m: x[m[:, 0]], [x, mask]
    yield "masked numbers", lambda x, m: _with(x, m, 3.0), [x, mask]
    yield "masked tensors", lambda x, m: _with(x, m, x[m] * 2), [x, mask]
    yield "count_nonzero", lambda m: m.count_nonzero(0), [mask]
    words = tied(200, dtype=torch.int64)
    yield "unique nan", lambda x: x.unique(return_counts=True), [with_nan(tied(20))]
    yield "unique of none", lambda x: x[:0].unique(return_inverse=True), [words]
    yield "unique long", lambda x: x.unique(return_inverse=True), [tied(60, 60, dtype=torch.int32)]
    yield "consecutive", lambda x: x.unique_consecutive(return_inverse=True, return_counts=True), [words // 3]
    yield "consecutive rows", lambda x: x.unique_consecutive(return_inverse=True, dim=0), [tied(40, 1)]
    yield "unique rows", lambda x: x.unique(dim=0, return_inverse=True, return_counts=True), [tied(40, 2)]
    yield "unique columns", lambda x: x.unique(dim=1), [tied(2, 40, dtype=torch.int64)]
    yield "bincount", lambda x: (x + 9).bincount(minlength=30), [words]
    yield "bincount weights", lambda x, w: (x + 9).bincount(w), [words, numbers(200)]
    yield "isin", torch.isin, [words, words[:3]]
    yield "isin inverted", lambda x, y: torch.isin(x, y, invert=True), [tied(5, 4), tied(3)]
    yield "repeat_interleave", lambda x, n: x.repeat_interleave(n.abs(), 0), [numbers(200, 2), words]
    yield "roll", lambda x: x.roll((3, -1), (0, 1)), [x]
    yield "roll flat", lambda x: x.roll(-5), [x]
    yield "flip strided", lambda x: x.t().flip(-1), [x]
    yield "rot90", lambda x: x.rot90(), [x]
    yield "equal", lambda x: torch.tensor([torch.equal(x, x), torch.equal(x, x + 1)]), [x]
    yield "aminmax", lambda x: torch.aminmax(x, dim=1), [x]
    yield "trace", torch.trace, [x]
    yield "eye", lambda x: torch.eye(3, 5, device=x.device), [x]
    yield "linspace", lambda x: torch.linspace(-1, 2, 17, device=x.device), [x]
    yield "linspace int64", lambda x: torch.linspace(-10, 20, 7, dtype=torch.int64, device=x.device), [x]


def _with(x: Tensor, where: Any, value: Any) -> Tensor:
    y = x.clone()
    y[where] = value
    return y


def searching() -> Iterator[Case]:
    boundaries, x = tied(20).sort().values, numbers(6, 5)
    for right in (False, True):
        yield f"searchsorted {right}", lambda b, x, r=right: torch.searchsorted(b, x, right=r), [boundaries, x]
        rows = torch.stack([boundaries + i for i in range(6)])
        yield f"searchsorted rows {right}", lambda b, x, r=right: torch.searchsorted(b, x, right=r), [rows, x]
        yield f"bucketize {right}", lambda b, x, r=right: torch.bucketize(x, b, right=r), [boundaries, x]
    for dtype in TYPES[:-1]:
        typed = [tied(20, dtype=dtype).sort().values, tied(9, dtype=dtype)]
        yield f"searchsorted {dtype}", torch.searchsorted, typed
    yield "searchsorted mixed", torch.searchsorted, [boundaries.long(), x]
    yield "searchsorted number, which PyTorch makes float64", lambda b: torch.searchsorted(b, 1.5), [boundaries]
    yield "searchsorted nan", torch.searchsorted, [boundaries, with_nan(x)]
    yield "searchsorted none", torch.searchsorted, [boundaries[:0], x]
    yield "searchsorted strided", torch.searchsorted, [boundaries[::2], x.t()]
    unsorted = numbers(20)
    yield (
        "searchsorted order",
        lambda b, x: torch.searchsorted(b, x, side="right", sorter=b.argsort()),
        [unsorted, x],
    )


def places() -> Iterator[Case]:
    x, i, j = numbers(5, 6, 4), torch.tensor([[0, -1, 2], [1, 1, 3]]), torch.tensor([3, 0, -2])
    for dtype in (torch.float32, torch.float16, torch.int64, torch.bool):
        y = numbers(5, 6, 4, dtype=dtype)
        yield f"rows {dtype}", lambda x, i: x[i], [y, i]
        yield f"put {dtype}", lambda x, i: _with(x, i[0], x[0]), [y, i]
        yield f"take {dtype}", lambda x, i: x.take(i), [y, i]
        yield f"index_fill {dtype}", lambda x, i: x.index_fill(1, i[0], 1), [y, i]
        yield f"index_copy {dtype}", lambda x, j: x.index_copy(1, j.abs(), x[:, :3]), [y, j]
    yield "two", lambda x, i, j: x[i, j], [x, i, j]
    yield "apart", lambda x, i, j: x[i, :, j], [x, i, j]
    yield "last", lambda x, j: x[..., j], [x, j]
    yield "three", lambda x, i, j: x[i, j, j], [x, i, j]
    yield "strided", lambda x, i, j: x.transpose(0, 2)[j, :, i], [x, i, j]
    yield "int32", lambda x, i: x[i.int()], [x, i]
    yield "with a mask", lambda x, j: x[x[:, 0, 0] > -9, 0, 1], [x, j]
    yield "none", lambda x, i: x[i[:0]], [x, i]
    yield "of a vector", lambda x, i: x[0, :, 0][i], [x, i]
    yield "number to rows", lambda x, i: _with(x, i, 2.5), [x, i]
    yield "broadcast", lambda x, i, j: _with(x, (i[:, :1], j), x[0, 0]), [x, i[:, 1:], j]
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int16):
        y = numbers(5, 6, 4, dtype=dtype)
        yield f"accumulate {dtype}", lambda x, i: x.index_put((i,), x[0], accumulate=True), [y, i]
        yield f"scatter_add {dtype}", lambda x, i: x[0].scatter_add(0, i.abs(), x[1]), [y, i]
        yield f"index_add {dtype}", lambda x, i: x.index_add(0, i.abs()[0], x[:3]), [y, i]
    yield "put flat", lambda x, j: x.put(j, x[0, 0, :3]), [x, j]
    yield "accumulate flat", lambda x, j: x.put(j * 0, x[0, 0, :3], accumulate=True), [x, j]
    yield "backward", gradients(lambda x, i, j: x[i, j]), [x, i, j]
    yield "backward halves", gradients(lambda x, i: x[i]), [x.half(), i]
    yield "index_select backward", gradients(lambda x, j: x.index_select(1, j.abs())), [x, j]
    yield "gather backward", gradients(lambda x, i: x[0].gather(0, i.abs())), [x, i]
    yield "index_fill of tensor", lambda x, i: x.index_fill(0, i[0], x[0, 0, 0]), [x, i]


def recurrent() -> Iterator[Case]:
    for layer, gates in (("lstm", 4), ("gru", 3)):
        for bias in (True, False):
            shapes = [(gates * 5, 3), (gates * 5, 5)] + [(gates * 5,)] * 2 * bias
            weights = [numbers(*shape, low=-0.5, high=0.5) for shape in shapes]
            for dtype in (torch.float32, torch.float64):
                typed = [w.to(dtype) for w in weights]
                yield (
                    f"{layer} {bias} {dtype}",
                    gradients(_layer(layer, bias)),
                    [numbers(4, 2, 3, dtype=dtype), *typed],
                )
        for reverse in (True, False):
            module = gradients(_module(layer, bidirectional=reverse, num_layers=2))
            yield f"{layer} module {reverse}", module, [numbers(4, 2, 3)]
        yield f"{layer} batch first", gradients(_module(layer, batch_first=True)), [numbers(4, 2, 3)]
        yield f"{layer} of one", gradients(_module(layer)), [numbers(4, 3)]
        yield f"{layer} of none", _module(layer), [numbers(4, 0, 3)]


def _layer(name: str, bias: bool) -> Callable[..., Tensor]:
    def run(x: Tensor, *weights: Tensor) -> Tensor:
        state = torch.zeros(1, x.shape[1], 5, dtype=x.dtype, device=x.device)
        states = [state, state] if name == "lstm" else state
        result: Tensor = getattr(torch, name)(x, states, list(weights), bias, 1, 0.0, True, False, False)[0]
        return result

    return run


def _module(name: str, **settings: Any) -> Callable[[Tensor], Tensor]:
    def run(x: Tensor) -> Tensor:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(2)
            module = getattr(torch.nn, name.upper())(3, 5, **settings)
        result: Tensor = module.to(x.device)(x)[0]
        return result

    return run


GROUPS: dict[str, Callable[[], Iterator[Case]]] = {
    "sorting": sorting,
    "scans": scans,
    "selection": selection,
    "searching": searching,
    "places": places,
    "recurrent": recurrent,
}
