"""A thread that waits for little work runs it: the results, and the thread's own settings, are as if a worker had."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import tb_device
import torch
from torch.utils._python_dispatch import TorchDispatchMode

ELEMENTS = 200_000  # some 50 us: a waiter does not see the end at once


def run_by_waiters() -> int:
    return tb_device.default_driver().query(0, "cpu.run_by_waiters")


@pytest.fixture(scope="module")
def x() -> torch.Tensor:
    return torch.linspace(-1, 1, ELEMENTS, device="tb")


def often(body: Callable[[], object]) -> None:
    """Calls body() until this thread has run work of several calls: at least 20 times, and on a busy machine more."""
    calls = run_here = 0
    while calls < 20 or run_here < 5:
        before = run_by_waiters()
        body()
        run_here += run_by_waiters() > before
        calls += 1
        assert calls < 5000


@pytest.fixture(autouse=True)
def _waiters_run_work(x: torch.Tensor) -> None:
    often(lambda: x.mul(2).sin().sum().item())


def test_results_are_those_of_the_worker(x: torch.Tensor) -> None:
    host = x.cpu()
    expected = host.mul(2).sum().item()
    many = int((host > 0.5).sum())

    def read() -> None:
        assert x.mul(2).sum().item() == pytest.approx(expected, abs=1e-2)
        assert int((x > 0.5).sum()) == many

    often(read)


def test_the_thread_keeps_its_counts_of_threads(x: torch.Tensor) -> None:
    def counted(threads: int) -> None:
        x.mul(2).sum().item()
        assert torch.get_num_threads() == threads

    before = torch.get_num_threads()
    try:
        for threads in (3, 1, 2):
            torch.set_num_threads(threads)
            often(partial(counted, threads))
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize(
    "context",
    [torch.inference_mode, torch.no_grad, torch.enable_grad, lambda: torch.autocast("tb", dtype=torch.bfloat16)],
    ids=["inference_mode", "no_grad", "enable_grad", "autocast"],
)
def test_the_thread_keeps_its_modes(x: torch.Tensor, context: Callable[[], Any]) -> None:
    def modes() -> tuple[bool, ...]:
        return torch.is_inference_mode_enabled(), torch.is_grad_enabled(), torch.is_autocast_enabled("tb")

    weight = torch.ones(ELEMENTS, 1, device="tb")

    def step() -> None:
        (x[None] @ weight).exp().sum().item()
        assert modes() == before
        made = x + 1
        assert made.is_inference() == before[0]
        assert torch.ones(2).is_inference() == before[0]

    with context():
        before = modes()
        often(step)


class Seen(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes the operators of this thread."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.operators: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operators.append(func.overloadpacket.__name__)
        return func(*args, **(kwargs or {}))


def test_a_dispatch_mode_does_not_see_inside_of_kernels(x: torch.Tensor) -> None:
    def count() -> None:
        x.mul(2).count_nonzero()  # whose kernel calls other operators
        torch.accelerator.synchronize()

    with Seen() as seen:
        often(count)
    assert seen.operators == ["mul", "count_nonzero"] * (len(seen.operators) // 2)


def test_backward_and_an_optimizer_step(x: torch.Tensor) -> None:
    weight = torch.zeros(ELEMENTS, device="tb", requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.5)
    for step in range(12):
        loss = ((weight - 1) ** 2).sum()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        assert loss.item() == pytest.approx(ELEMENTS if step == 0 else 0, abs=1)


def test_denormal_numbers_are_treated_as_the_launching_thread_asks(x: torch.Tensor) -> None:
    small = torch.full((ELEMENTS,), 1e-39, device="tb")
    results: list[torch.Tensor] = []

    def launch() -> None:
        torch.set_flush_denormal(True)  # of this thread
        results.append(small.mul(1).sin())

    if not torch.set_flush_denormal(False):
        pytest.skip("this processor does not flush denormal numbers")

    def step() -> None:
        thread = threading.Thread(target=launch)
        thread.start()
        thread.join()
        torch.accelerator.synchronize()
        assert results.pop().max().item() == 0
        assert (torch.tensor([1e-39]) * 1).item() != 0
        assert small.mul(1).max().item() != 0

    often(step)


def test_a_failure_is_raised_by_the_wait_and_names_the_line(x: torch.Tensor) -> None:
    index = torch.full((ELEMENTS,), ELEMENTS, device="tb")

    def fail() -> None:
        with pytest.raises(IndexError, match=rf"launched at {__file__}:\d+ .*out of bounds"):
            x[index].sum().item()
        x.mul(2).sum().item()

    often(fail)


def test_a_kernels_warning_reaches_python(x: torch.Tensor) -> None:
    def warn() -> None:
        with warnings.catch_warnings(record=True) as received:
            warnings.simplefilter("always")
            x.sin()
            torch.ones(1, device="tb").std().item()
        assert any("degrees of freedom" in str(warning.message) for warning in received)
        with warnings.catch_warnings(record=True) as received:  # the thread's own handler is back
            warnings.simplefilter("always")
            torch.ones(1).std()
        assert any("degrees of freedom" in str(warning.message) for warning in received)

    often(warn)


def test_several_threads_read_numbers(x: torch.Tensor) -> None:
    expected = x.cpu().mul(2).abs().max().item()
    wrong: list[Any] = []

    def read() -> None:
        with contextlib.suppress(StopIteration):
            wrong.extend(value for _ in range(100) if (value := x.mul(2).abs().max().item()) != expected)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_what_data_decide_is_run_here_too(x: torch.Tensor) -> None:
    host = x.cpu()

    def select() -> None:
        assert torch.equal(x[x > 0.25].cpu(), host[host > 0.25])
        assert torch.equal((x > 0.5).nonzero().cpu(), (host > 0.5).nonzero())

    often(select)
