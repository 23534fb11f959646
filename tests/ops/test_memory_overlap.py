"""tb refuses writes to overlapping memory at the call if stock CPU does, also with known types."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
import torch
from torch.testing._internal import common_methods_invocations as invocations
from torch.utils import _pytree as pytree
from torch_backend.conformance import databases
from torch_backend.conformance.device_copies import copy_to_device
from torch_backend.conformance.profiles import Limits
from torch_backend.conformance.samples import Sample, samples

LIMITS = Limits(samples=2, window=32, elements=5_000, repeats=1)


class Writer(NamedTuple):
    """A call that writes to `written`: call(written, arguments)."""

    name: str
    call: Callable[[Any, Any], Any]
    written: Any
    arguments: Any


def expanded(value: Any) -> Any:
    """The same tensors with all rows in one place.

    Their memory is as large as before, because some of stock's kernels write beyond the first row.
    """

    def leaf(tensor: Any) -> Any:
        if not isinstance(tensor, torch.Tensor) or tensor.dim() == 0 or tensor.shape[0] < 2:
            return tensor
        return tensor.detach().clone(memory_format=torch.contiguous_format)[:1].expand_as(tensor)

    return pytree.tree_map(leaf, value)


def overlaps(value: Any) -> bool:
    return any(
        0 in leaf.stride() for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor) and leaf.numel()
    )


def first_samples(op: Any) -> list[Sample]:
    dtype = torch.float32 if torch.float32 in op.dtypes else min(op.dtypes, key=databases.usual_first)
    return samples(op, dtype, LIMITS)


def in_place() -> Iterator[Writer]:
    for name, op in databases.operators().items():
        if op.get_inplace() is None:
            continue
        for sample in first_samples(op):
            first, rest, keywords = sample.values
            if sample.broadcasts_input or not isinstance(first, torch.Tensor) or first.layout != torch.strided:
                continue

            def call(written: Any, arguments: Any, op: Any = op) -> Any:
                return op.get_inplace()(written, *arguments[0], **arguments[1])

            yield Writer(f"{name}, in place", call, first.detach(), (rest, keywords))


def out() -> Iterator[Writer]:
    for name, op in databases.operators().items():
        if not op.supports_out:
            continue
        for sample in first_samples(op):
            first, rest, keywords = sample.values
            try:
                result = op.op(first, *rest, **keywords)
            except Exception:  # a sample that fails on its own
                continue
            leaves = pytree.tree_leaves(result)
            if not leaves or not all(
                isinstance(leaf, torch.Tensor) and leaf.layout == torch.strided for leaf in leaves
            ):
                continue

            def call(written: Any, arguments: Any, op: Any = op) -> Any:
                return op.op(arguments[0], *arguments[1], **arguments[2], out=written)

            written = tuple(leaves) if isinstance(result, tuple) else result
            yield Writer(f"{name}, out=", call, pytree.tree_map(torch.detach, written), sample.values)


def lists() -> Iterator[Writer]:
    for database in ("unary", "binary", "pointwise", "reduce", "other"):
        for op in getattr(invocations, f"foreach_{database}_op_db"):
            if op.inplace_variant is None or torch.float32 not in op.dtypes:
                continue
            for sample in list(op.sample_inputs("cpu", torch.float32, num_input_tensors=[3]))[:6]:

                def call(written: Any, arguments: Any, op: Any = op) -> Any:
                    return op.inplace_variant(written, *arguments[0], **arguments[1])

                keywords = {k: v for k, v in sample.kwargs.items() if k in ("alpha", "value", "weight", "scalars")}
                yield Writer(f"{op.name}, in place", call, list(sample.input), (sample.args, keywords))


RANDOM: list[tuple[str, tuple[Any, ...]]] = [
    ("bernoulli_", (0.5,)),
    ("bernoulli_", (torch.full((4, 3), 0.5),)),
    ("cauchy_", ()),
    ("exponential_", ()),
    ("geometric_", (0.5,)),
    ("log_normal_", ()),
    ("normal_", ()),
    ("random_", ()),
    ("random_", (0, 5)),
    ("uniform_", ()),
    ("copy_", (torch.ones(4, 3),)),
    ("fill_", (torch.tensor(2.0),)),
    ("zero_", ()),
]


def methods() -> Iterator[Writer]:
    for name, arguments in RANDOM:

        def call(written: Any, arguments: Any, name: str = name) -> Any:
            return getattr(written, name)(*arguments)

        yield Writer(name, call, torch.ones(4, 3), arguments)
    for name, function, given in [
        ("randperm", torch.randperm, (4,)),
        ("multinomial, again", torch.multinomial, (torch.ones(5), 4, True)),
        ("multinomial", torch.multinomial, (torch.ones(5), 4)),
    ]:
        yield Writer(name, _into(function), torch.zeros(4).long(), given)
    for name, function in (("normal", torch.normal), ("bernoulli", torch.bernoulli)):
        yield Writer(f"{name}, out=", _into(function), torch.ones(4, 3), (torch.full((4, 3), 0.5),))


def _into(function: Any) -> Any:
    return lambda written, given: function(*given, out=written)


def fused() -> Iterator[Writer]:
    def some() -> list[torch.Tensor]:
        return [torch.ones(4, 3), torch.ones(5)]

    steps = [torch.tensor(1.0), torch.tensor(1.0)]
    adam = {
        "lr": 0.1,
        "beta1": 0.9,
        "beta2": 0.9,
        "weight_decay": 0.0,
        "eps": 1e-8,
        "amsgrad": False,
        "maximize": False,
    }
    for name in ("_fused_adam_", "_fused_adamw_"):

        def call(written: Any, arguments: Any, name: str = name) -> Any:
            return getattr(torch, name)(written[0], arguments[0], written[1], written[2], [], arguments[1], **adam)

        yield Writer(name, call, (some(), some(), some()), (some(), steps))
    fused_sgd: Any = torch._fused_sgd_
    sgd: dict[str, Any] = {
        "weight_decay": 0.0,
        "momentum": 0.9,
        "lr": 0.1,
        "dampening": 0.0,
        "nesterov": False,
        "maximize": False,
    }
    yield Writer(
        "_fused_sgd_",
        lambda written, given: fused_sgd(written[0], *given, written[1], **sgd, is_first_step=False),
        (some(), some()),
        (some(),),
    )
    yield Writer(
        "_amp_foreach_non_finite_check_and_unscale_",
        lambda written, given: torch._amp_foreach_non_finite_check_and_unscale_(written, *given),
        some(),
        (torch.zeros(1), torch.ones(1)),
    )


def error_of(call: Callable[[], Any]) -> Exception | None:
    try:
        call()
    except Exception as error:
        return error.with_traceback(None)
    return None


def difference(writer: Writer) -> str | None:
    """How tb's refusal differs from stock's, at the first call and after two good calls with the same types."""
    overlapping = expanded(writer.written)
    if not overlaps(overlapping):
        return None
    cpu, tb = torch.device("cpu"), torch.device("tb")
    stock = error_of(lambda: writer.call(copy_to_device(overlapping, cpu), copy_to_device(writer.arguments, cpu)))
    for known in (False, True):
        if known:
            for _ in range(2):
                error_of(lambda: writer.call(copy_to_device(writer.written, tb), copy_to_device(writer.arguments, tb)))
                error_of(torch.accelerator.synchronize)
        written, arguments = copy_to_device(overlapping, tb), copy_to_device(writer.arguments, tb)
        torch.accelerator.synchronize()
        ours = error_of(lambda w=written, a=arguments: writer.call(w, a))  # type: ignore[misc]
        late = error_of(torch.accelerator.synchronize)
        if type(stock) is not type(ours) or late is not None:
            when = "after two good calls" if known else "at the first call"
            return (
                f"{writer.name}, {when}: stock {stock!r:.150}; tb at the call {ours!r:.150}, at the wait {late!r:.150}"
            )
    return None


@pytest.mark.parametrize("writers", [in_place, out, lists, methods, fused], ids=lambda writers: writers.__name__)
def test_writing_to_overlapping_memory_is_refused_at_the_call_where_stock_refuses_it(
    writers: Callable[[], Iterator[Writer]],
) -> None:
    torch.tb.set_fallback_mode("allow")  # type: ignore[attr-defined]
    found = [difference(writer) for writer in writers()]
    assert len(found) >= 4
    assert [text for text in found if text is not None] == []


@functools.cache
def overlapping() -> torch.Tensor:
    return torch.ones(1, device="tb").expand(3)


def test_lists_and_random_fills_are_refused_too() -> None:
    torch.ones(3, device="tb").normal_()
    torch._foreach_copy_([torch.ones(3, device="tb")], [torch.ones(3, device="tb")])
    torch.accelerator.synchronize()
    with pytest.raises(RuntimeError, match="more than one element"):
        overlapping().normal_()
    with pytest.raises(RuntimeError, match="more than one element"):
        torch._foreach_copy_([overlapping()], [torch.ones(3, device="tb")])
    torch.accelerator.synchronize()
