"""Queued operations on lists of tensors that follow each other run together, with bit-identical results."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tb_stream
import torch
import torch_backend.device_module as tb
from conftest import RunPython
from ops.threads import WORKER
from tb_ops import _testing
from torch_backend._testing import held
from torch_backend.conformance.bits import bit_identical

Lists = list[list[torch.Tensor]]

SHAPES = [(64,), (1,), (300, 100), (96, 257), (5, 3, 7, 7), (), (20001,)]


def lists(dtype: torch.dtype = torch.float32, count: int = 4, seed: int = 0) -> Lists:
    """`count` lists of tensors of the SHAPES, with several layouts, transposed and channels-last among them."""
    generator = torch.Generator().manual_seed(seed)
    made = [[torch.rand(shape, generator=generator).to(dtype) + 0.5 for shape in SHAPES] for _ in range(count)]
    for tensors in made:
        tensors[3] = tensors[3].t().contiguous().t()
        tensors[4] = tensors[4].to(memory_format=torch.channels_last)
    return made


def on_tb(given: Lists) -> Lists:
    return [[tensor.to("tb") for tensor in tensors] for tensors in given]


def queue_behind_a_gate(run: Callable[[], Any]) -> int:
    """The number of list operations that ran together with the operation before them."""
    torch.accelerator.synchronize()
    before = _testing.fused_list_operations()
    with held() as gate:
        gate.open_once_this_thread_waits()
        run()
        torch.accelerator.synchronize()
    return _testing.fused_list_operations() - before


def equal(ours: Lists, theirs: Lists) -> bool:
    return all(
        bit_identical(b, a, strides=True)
        for one, other in zip(ours, theirs, strict=True)
        for a, b in zip(one, other, strict=True)
    )


def adam(given: Lists) -> Lists:
    params, grads, averages, squares = given
    torch._foreach_mul_(params, 0.999)
    torch._foreach_lerp_(averages, grads, 0.1)
    torch._foreach_mul_(squares, 0.99)
    torch._foreach_addcmul_(squares, grads, grads, 0.01)
    roots = list(torch._foreach_sqrt(squares))
    torch._foreach_div_(roots, [0.5 + 0.01 * (i // 3) for i in range(len(roots))])
    torch._foreach_add_(roots, 1e-8)
    torch._foreach_addcdiv_(params, averages, roots, [-0.1 * (1 + i % 2) for i in range(len(roots))])
    return [*given, roots]


def others(given: Lists) -> Lists:
    for tensors in given:
        tensors.append(tensors[0].new_empty(3, 0))  # an empty tensor; with it, operations with a number run one by one
    first, second, third, fourth = given
    sums = list(torch._foreach_add(first, second, alpha=-0.3))
    torch._foreach_sub_(sums, third, alpha=0.7)
    torch._foreach_mul_(sums, fourth)
    torch._foreach_maximum_(sums, first)
    parts = list(torch._foreach_div(torch._foreach_neg(sums), second))
    torch._foreach_minimum_(parts, third)
    torch._foreach_reciprocal_(parts)
    return [*given, sums, parts]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("work", [adam, others])
def test_results_are_bit_identical_to_stock(work: Callable[[Lists], Lists], dtype: torch.dtype) -> None:
    work(on_tb(lists(dtype)))  # the first call of a kernel with new types waits
    expected = work(lists(dtype, seed=1))
    given, results = on_tb(lists(dtype, seed=1)), []
    together = queue_behind_a_gate(lambda: results.extend(work(given)))
    # For 16-bit types mul_ by a number is a different kernel, which does not run together with others.
    assert together == (4 if work is adam and dtype.itemsize == 2 else 7)
    assert equal(results, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("operation", ["add", "sub", "mul", "div"])
def test_numbers_are_rounded_as_in_stock(operation: str, dtype: torch.dtype) -> None:
    for suffix in ["", "_"]:
        foreach = getattr(torch, f"_foreach_{operation}{suffix}")
        for number in [0.999, 0.1, 7.7]:
            for numbers in [number, [number] * len(SHAPES)]:
                stock, ours = lists(dtype)[0], on_tb(lists(dtype))[0]
                stock, ours = foreach(stock, numbers) or stock, foreach(ours, numbers) or ours
                assert equal([list(ours)], [list(stock)]), (suffix, numbers)


@pytest.mark.parametrize(
    ("optimizer", "options"),
    [
        ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}),
        ("Adam", {"amsgrad": True, "weight_decay": 0.1}),
        ("AdamW", {}),
        ("RMSprop", {"momentum": 0.5, "centered": True}),
        ("NAdam", {}),
        ("Adadelta", {}),
    ],
)
def test_optimizers_run_their_operations_together(optimizer: str, options: dict[str, Any]) -> None:
    def training(device: str) -> Callable[[], Lists]:
        """Four steps. Their tensors are on the device before, since copies from the host would wait for queued work."""
        generator = torch.Generator().manual_seed(0)
        params = [torch.rand(shape, generator=generator).to(device).requires_grad_() for shape in SHAPES]
        gradients = [[torch.rand(shape, generator=generator).to(device) for shape in SHAPES] for _ in range(4)]
        optimize = getattr(torch.optim, optimizer)(params, foreach=True, **options)

        def train() -> Lists:
            for step in gradients:
                for param, gradient in zip(params, step, strict=True):
                    param.grad = gradient
                optimize.step()
            return [[param.detach() for param in params]]

        return train

    expected, trained, behind = training("cpu")(), training("tb")(), training("tb")
    assert equal(trained, expected)
    assert queue_behind_a_gate(lambda: trained.extend(behind())) >= 4
    assert equal(trained[1:], expected)


def shifted(given: Lists) -> Lists:
    """At each list index, the second operation reads what the first one writes at the next index."""
    rows = list(given[0][2].unbind())
    torch._foreach_mul_(rows[1:], 2.0)
    torch._foreach_add_(rows[:-1], rows[1:])
    return [[given[0][2]]]


def neighbours(given: Lists) -> Lists:
    """Each list element reads what the element before it writes; the list is long enough for several threads."""
    rows = list(given[0][6][:20000].view(2000, 10).unbind())
    torch._foreach_add_(rows[1:], rows[:-1], alpha=0.5)
    return [[given[0][6]]]


def overlapping(given: Lists) -> Lists:
    """Tensors at the same index of two lists overlap partly."""
    long = given[0][6]
    torch._foreach_mul_([long[:12000], long[15000:]], 2.0)
    torch._foreach_add_([long[1000:13000], long[15000:]], 1.0)
    return [[long]]


def other_lengths(given: Lists) -> Lists:
    torch._foreach_mul_(given[0], 2.0)
    torch._foreach_mul_(given[0][1:], 3.0)
    return given


def work_between(given: Lists) -> Lists:
    torch._foreach_mul_(given[0], 2.0)
    copy = given[0][6].clone()
    torch._foreach_mul_(given[0], 3.0)
    return [*given, [copy]]


@pytest.mark.parametrize("work", [shifted, neighbours, overlapping, other_lengths, work_between])
def test_dependent_operations_run_in_order(work: Callable[[Lists], Lists]) -> None:
    work(on_tb(lists()))
    expected = work(lists())
    given, results = on_tb(lists()), []
    assert queue_behind_a_gate(lambda: results.extend(work(given))) == 0
    assert equal(results, expected)


def test_an_event_between_two_operations_completes_after_the_first() -> None:
    given = on_tb(lists())[0]
    torch._foreach_mul_(given, 1.0)
    event = torch.Event("tb")

    def run() -> None:
        torch._foreach_mul_(given, 2.0)
        event.record()
        torch._foreach_mul_(given, 3.0)
        event.synchronize()  # the event may be complete late, but never early
        assert event.query()

    assert queue_behind_a_gate(run) == 1
    assert all(bit_identical(b * 2.0 * 3.0, a) for a, b in zip(given, lists()[0], strict=True))


def test_each_replay_of_a_graph_runs_operations_together() -> None:
    expected, given = lists(), on_tb(lists())
    adam(on_tb(lists()))
    graph = tb.Graph()
    with tb.graph(graph):
        results = adam(given)
    for replay in range(3):
        assert queue_behind_a_gate(graph.replay) == 7, replay
        theirs = adam(expected)
    assert equal(results[:4], theirs[:4])


def test_under_a_timeline_operations_run_separately(tmp_path: Path) -> None:
    given = on_tb(lists())
    adam(given)
    with tb_stream.trace(tmp_path / "timeline.json"):
        together = queue_behind_a_gate(lambda: adam(given))
    events = json.loads((tmp_path / "timeline.json").read_text())["traceEvents"]
    ran = [event["name"] for event in events if event.get("cat") == "run"]
    assert together == 0
    assert ran.count("aten::_foreach_mul") == 2


def test_threads_share_what_runs_together(run_python: RunPython) -> None:
    done = run_python(
        WORKER
        + """
from torch_backend.conformance.bits import bit_identical

def lists(device):
    generator = torch.Generator().manual_seed(0)
    return [[torch.rand(n, generator=generator).to(device) for n in [30_001, 5, 700, 64_000] * 6] for _ in range(3)]

def work(given):
    torch._foreach_mul_(given[0], 0.5)
    torch._foreach_lerp_(given[0], given[1], 0.1)
    torch._foreach_addcmul_(given[2], given[0], given[1], 0.3)

given, expected = lists("tb"), lists("cpu")
work(given), work(expected)
before = _testing.fused_list_operations()
print(started(lambda: None), started(lambda: work(given)), _testing.fused_list_operations() - before)
work(expected)
print(all(bit_identical(b, a) for one, other in zip(given, expected) for a, b in zip(one, other)))
"""
    )
    assert done.stdout.split() == ["0", "1", "2", "True"]
