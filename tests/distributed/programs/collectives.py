"""Every collective with every dtype, on tb and on the CPU by stock gloo."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch_backend.conformance.bits import bit_difference

from distributed.cases import Cases, Place, Places, run

Tensors = Sequence[torch.Tensor]
Kind = Callable[[Place, torch.dtype], Tensors]

DTYPES = [
    *(torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.bool),
    *(torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32, torch.uint32, torch.int64),
    *(torch.complex64, torch.complex128),
]
OPERATORS = {
    "sum": dist.ReduceOp.SUM,
    "avg": dist.ReduceOp.AVG,
    "product": dist.ReduceOp.PRODUCT,
    "min": dist.ReduceOp.MIN,
    "max": dist.ReduceOp.MAX,
    "band": dist.ReduceOp.BAND,
    "bor": dist.ReduceOp.BOR,
    "bxor": dist.ReduceOp.BXOR,
}


def make(place: Place, dtype: torch.dtype, *shape: int, salt: int = 0) -> torch.Tensor:
    """Random numbers that depend on the rank and on `salt`, small enough for sums and products of whole numbers."""
    random = torch.Generator().manual_seed(100 * place.rank + salt)
    if dtype.is_complex or dtype.is_floating_point:
        return torch.randn(shape, generator=random).to(dtype).to(place.device)
    return torch.randint(0, 2 if dtype is torch.bool else 5, shape, generator=random).to(dtype).to(place.device)


def zeros(place: Place, dtype: torch.dtype, *shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=dtype, device=place.device)


def neighbours(place: Place) -> tuple[int, int]:
    """The next rank and the one before."""
    return (place.rank + 1) % place.size, (place.rank - 1) % place.size


KINDS: dict[str, Kind] = {}


def kind(function: Kind) -> Kind:
    KINDS[function.__name__] = function
    return function


def all_reduce(place: Place, dtype: torch.dtype, operator: Any) -> Tensors:
    x = make(place, dtype, 1001)
    dist.all_reduce(x, operator, group=place.group)
    return [x]


def reduce(place: Place, dtype: torch.dtype, operator: Any) -> Tensors:
    x = make(place, dtype, 37)
    dist.reduce(x, 1, operator, group=place.group)
    return [x] if place.rank == 1 else []  # elsewhere the contents are left open


def reduce_scatter_tensor(place: Place, dtype: torch.dtype, operator: Any) -> Tensors:
    x, out = make(place, dtype, 5 * place.size, 3), zeros(place, dtype, 5, 3)
    dist.reduce_scatter_tensor(out, x, operator, group=place.group)
    return [out, x]


for _reduction in (all_reduce, reduce, reduce_scatter_tensor):
    for _name, _operator in OPERATORS.items():
        KINDS[f"{_reduction.__name__}_{_name}"] = functools.partial(_reduction, operator=_operator)


@kind
def all_reduce_strided(place: Place, dtype: torch.dtype) -> Tensors:
    # Stock gloo reduces as many elements as there are from the first address on, whatever the strides: on the CPU the
    # right result is that of a dense copy.
    x = make(place, dtype, 8, 6)
    part = x[:, 1:4] if place.on_tb else x[:, 1:4].contiguous()
    dist.all_reduce(part, group=place.group)
    if not place.on_tb:
        x[:, 1:4] = part
    return [x]


@kind
def all_reduce_empty(place: Place, dtype: torch.dtype) -> Tensors:
    x = make(place, dtype, 0)
    dist.all_reduce(x, group=place.group)
    return [x]


@kind
def all_reduce_scalar(place: Place, dtype: torch.dtype) -> Tensors:
    x = make(place, dtype)
    dist.all_reduce(x, group=place.group)
    return [x]


@kind
def broadcast(place: Place, dtype: torch.dtype) -> Tensors:
    x = make(place, dtype, 17, 3)
    dist.broadcast(x, 1, group=place.group)
    return [x]


@kind
def broadcast_strided(place: Place, dtype: torch.dtype) -> Tensors:
    x = make(place, dtype, 8, 6).t()
    dist.broadcast(x, 0, group=place.group)
    return [x]


@kind
def all_gather(place: Place, dtype: torch.dtype) -> Tensors:
    outs = [zeros(place, dtype, 4, 5) for _ in range(place.size)]
    dist.all_gather(outs, make(place, dtype, 4, 5), group=place.group)
    return outs


@kind
def all_gather_uneven(place: Place, dtype: torch.dtype) -> Tensors:
    outs = [zeros(place, dtype, rank + 1) for rank in range(place.size)]
    dist.all_gather(outs, make(place, dtype, place.rank + 1), group=place.group)
    return outs


@kind
def all_gather_into_tensor(place: Place, dtype: torch.dtype) -> Tensors:
    out = zeros(place, dtype, 4 * place.size, 5)
    dist.all_gather_into_tensor(out, make(place, dtype, 4, 5), group=place.group)
    return [out]


@kind
def gather(place: Place, dtype: torch.dtype) -> Tensors:
    outs = [zeros(place, dtype, 6) for _ in range(place.size)] if place.rank == 0 else None
    dist.gather(make(place, dtype, 6), outs, 0, group=place.group)
    return outs or []


@kind
def scatter(place: Place, dtype: torch.dtype) -> Tensors:
    out = zeros(place, dtype, 6)
    inputs = [make(place, dtype, 6, salt=i) for i in range(place.size)] if place.rank == 0 else None
    dist.scatter(out, inputs, 0, group=place.group)
    return [out]


@kind
def reduce_scatter(place: Place, dtype: torch.dtype) -> Tensors:
    out = zeros(place, dtype, 6)
    dist.reduce_scatter(out, [make(place, dtype, 6, salt=i) for i in range(place.size)], group=place.group)
    return [out]


@kind
def all_to_all(place: Place, dtype: torch.dtype) -> Tensors:
    outs = [zeros(place, dtype, 4) for _ in range(place.size)]
    dist.all_to_all(outs, [make(place, dtype, 4, salt=i) for i in range(place.size)], group=place.group)
    return outs


@kind
def all_to_all_single(place: Place, dtype: torch.dtype) -> Tensors:
    out = zeros(place, dtype, place.size * 2, 3)
    dist.all_to_all_single(out, make(place, dtype, place.size * 2, 3), group=place.group)
    return [out]


@kind
def all_to_all_single_uneven(place: Place, dtype: torch.dtype) -> Tensors:
    rows = [place.rank + other + 1 for other in range(place.size)]
    out = zeros(place, dtype, sum(rows), 3)
    dist.all_to_all_single(out, make(place, dtype, sum(rows), 3), rows, rows, group=place.group)
    return [out]


@kind
def send_recv(place: Place, dtype: torch.dtype) -> Tensors:
    x = make(place, dtype, 9)
    if place.rank == 0:
        dist.send(x, 1, group=place.group)
    elif place.rank == 1:
        dist.recv(x, 0, group=place.group)
    return [x]


@kind
def recv_from_any(place: Place, dtype: torch.dtype) -> Tensors:
    x = make(place, dtype, 9)
    if place.rank == 0:
        dist.send(x, 1, group=place.group, tag=7)
    elif place.rank == 1:
        source = dist.recv(x, None, group=place.group, tag=7)
        return [x, torch.tensor(source)]
    return [x]


@kind
def isend_irecv(place: Place, dtype: torch.dtype) -> Tensors:
    x, out = make(place, dtype, 1 << 14), zeros(place, dtype, 1 << 14)
    following, before = neighbours(place)
    works = [dist.isend(x, following, group=place.group), dist.irecv(out, before, group=place.group)]
    for work in reversed(works):
        assert work is not None
        work.wait()
    return [out]


@kind
def batch_isend_irecv(place: Place, dtype: torch.dtype) -> Tensors:
    x, out = make(place, dtype, 50), zeros(place, dtype, 50)
    following, before = neighbours(place)
    calls = [
        dist.P2POp(dist.isend, x, following, place.group),
        dist.P2POp(dist.irecv, out, before, place.group),
    ]
    for work in dist.batch_isend_irecv(calls):
        work.wait()
    return [out]


@kind
def coalesced_all_reduce(place: Place, dtype: torch.dtype) -> Tensors:
    xs = [make(place, dtype, 11, salt=i) for i in range(3)]
    with dist._coalescing_manager(group=place.group):
        for x in xs:
            dist.all_reduce(x, group=place.group)
    return xs


@kind
def coalesced_all_gather(place: Place, dtype: torch.dtype) -> Tensors:
    outs = [zeros(place, dtype, 3 * place.size) for _ in range(3)]
    with dist._coalescing_manager(group=place.group, async_ops=True) as works:
        for i, out in enumerate(outs):
            dist.all_gather_into_tensor(out, make(place, dtype, 3, salt=i), group=place.group)
    works.wait()
    return outs


@kind
def coalesced_reduce_scatter(place: Place, dtype: torch.dtype) -> Tensors:
    outs = [zeros(place, dtype, 3) for _ in range(3)]
    with dist._coalescing_manager(group=place.group):
        for i, out in enumerate(outs):
            dist.reduce_scatter_tensor(out, make(place, dtype, 3 * place.size, salt=i), group=place.group)
    return outs


@kind
def many_at_once(place: Place, dtype: torch.dtype) -> Tensors:
    xs = [make(place, dtype, 500 + i, salt=i) for i in range(20)]
    works = [dist.all_reduce(x, group=place.group, async_op=True) for x in xs]
    for work in reversed(works):
        assert work is not None
        work.wait()
    return [x + x for x in xs] if dtype is not torch.bool else xs


def subgroup_of(place: Place, dtype: torch.dtype) -> Tensors:
    """The last two ranks in a group of their own, with ranks of the group and of the world."""
    ranks = [place.size - 2, place.size - 1]
    backend = None if place.on_tb else "gloo"
    group = dist.new_group(ranks, backend=backend)
    x, out = make(place, dtype, 7), zeros(place, dtype, 14)
    if place.rank in ranks:
        dist.broadcast(x, group=group, group_src=1)
        dist.all_gather_into_tensor(out, x + x if dtype is not torch.bool else x, group=group)
        dist.destroy_process_group(group)
    return [x, out]


def attempt(function: Kind, place: Place, dtype: torch.dtype) -> tuple[list[torch.Tensor], str]:
    """What it gives, or the exception's class and the first line of its text."""
    try:
        return [x.cpu() for x in function(place, dtype)], ""
    except Exception as error:
        return [], f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"


def verdicts(function: Kind, places: Places, dtypes: Sequence[torch.dtype] = tuple(DTYPES)) -> dict[str, list[str]]:
    """By dtype: how the results differ ("": they are bit-identical), the error on tb and that on the CPU."""
    found = {}
    for dtype in dtypes:
        (here, refused_here), (there, refused_there) = (
            attempt(function, place, dtype) for place in (places.tb, places.cpu)
        )
        differs = ""
        if not refused_here and not refused_there:
            assert len(here) == len(there)
            differs = next(filter(None, map(bit_difference, there, here)), "")
        found[str(dtype).removeprefix("torch.")] = [differs, refused_here, refused_there]
    return found


CASES = Cases({name: functools.partial(verdicts, function) for name, function in KINDS.items()})
CASES["subgroup"] = functools.partial(verdicts, subgroup_of, dtypes=[torch.float32, torch.int64])


if __name__ == "__main__":
    run(CASES)
