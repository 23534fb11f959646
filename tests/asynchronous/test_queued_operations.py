"""Queueing changes no result: with operands that change or are freed after the call, tied weights, views, gradients."""

from __future__ import annotations

import copy
import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch_backend._testing import held
from torch_backend.conformance.bits import bit_identical

ELEMENTS = 1 << 20  # a whole number of the allocator's blocks


@pytest.fixture(params=["first calls", "known calls"])
def busy() -> Iterator[None]:
    """Stops the default stream until the test waits for it, so that nothing that the test queues before has run.

    The first call of an operator with new types waits and so opens the gate. Therefore each test runs twice.
    """
    with held() as gate:
        gate.open_once_this_thread_waits()
        yield
        torch.accelerator.synchronize()


def values_of(tensor: Tensor) -> list[float]:
    """The distinct elements, sorted."""
    return sorted(set(tensor.tolist()))


# ---- memory ----------------------------------------------------------------------------------------------------------


def test_memory_of_a_freed_operand_is_reused_while_its_work_is_queued(busy: None) -> None:
    gc.collect()
    before = torch.accelerator.memory_allocated()
    torch.accelerator.reset_peak_memory_stats()
    x = torch.full((ELEMENTS,), 1.5, device="tb")
    for _ in range(10):
        x = x * 2  # the old x is freed although the queued multiplication has not read it yet
    assert torch.accelerator.memory_allocated() - before == 4 * ELEMENTS  # memory_allocated() does not wait
    assert torch.accelerator.max_memory_allocated() - before <= 2 * 4 * ELEMENTS
    assert values_of(x) == [1.5 * 2**10]


def test_tensors_deleted_in_any_order_leave_results_right(busy: None) -> None:
    kept = []
    for value in range(50):
        x = torch.full((1000,), float(value), device="tb")
        y = x.view(10, 100).t()
        del x
        z = y[1:] + 1
        del y
        torch.full((1000,), -1.0, device="tb")  # takes freed memory; it is queued after the work that reads it
        kept.append(z.sum())
        del z
    assert [k.item() for k in kept] == [990.0 * (value + 1) for value in range(50)]


def test_saved_tensors_are_freed_by_the_backward_pass(busy: None) -> None:
    x = torch.full((ELEMENTS,), 0.5, device="tb", requires_grad=True)
    before = torch.accelerator.memory_allocated()
    total = (x.exp() * x.cos()).sum()
    assert torch.accelerator.memory_allocated() - before >= 2 * 4 * ELEMENTS
    total.backward()  # type: ignore[no-untyped-call]
    del total
    assert x.grad is not None
    assert torch.accelerator.memory_allocated() - before == 4 * ELEMENTS  # the gradient
    expected = torch.full((1,), 0.5, requires_grad=True)
    (expected.exp() * expected.cos()).sum().backward()  # type: ignore[no-untyped-call]
    assert expected.grad is not None
    assert torch.allclose(x.grad[:3].cpu(), expected.grad.expand(3))


def test_recording_the_stream_of_a_conjugated_or_negated_tensor_keeps_its_memory_and_frees_it() -> None:
    side = torch.Stream(device="tb")
    z = torch.full((1000,), 1 + 2j, device="tb")
    gc.collect()
    before = torch.accelerator.memory_allocated()
    lazies: list[Callable[[Tensor], Tensor]] = [lambda x: x.conj(), lambda x: x.conj().imag]
    for bits in lazies:
        x = z * 1
        lazy = bits(x)
        side.wait_stream(torch.accelerator.current_stream())
        with side:
            lazy * 1  # the first call of a kernel waits
        with held(side):
            with side:
                seen = lazy * 1
            lazy.record_stream(side)
            del x, lazy
            torch.full((1000,), 9j, device="tb")  # would overwrite the block if it were reused at once
            torch.accelerator.current_stream().synchronize()
        torch.accelerator.current_stream().wait_stream(side)
        assert bit_identical(seen.cpu().resolve_neg(), bits(torch.full((1000,), 1 + 2j)).resolve_conj().resolve_neg())
        del seen
    side.synchronize()
    assert torch.accelerator.memory_allocated() == before


# ---- operands of the host --------------------------------------------------------------------------------------------


def test_numbers_and_tensors_of_the_cpu_are_read_at_the_call(busy: None) -> None:
    x = torch.arange(4.0, device="tb")
    factor = torch.tensor(3.0)
    product = x * factor
    difference = factor - x
    rows = torch.tensor([2, 0])
    chosen = x[rows]
    factor.fill_(100)
    rows.fill_(1)
    assert product.tolist() == [0, 3, 6, 9]
    assert difference.tolist() == [3, 2, 1, 0]
    assert chosen.tolist() == [2, 0]


def test_a_number_of_the_cpu_promotes_like_a_number() -> None:
    half = torch.ones(2, dtype=torch.float16, device="tb")
    whole = torch.ones(2, dtype=torch.int32, device="tb")
    assert (half * torch.tensor(2.0, dtype=torch.float64)).dtype == torch.float16
    assert (whole * torch.tensor(2.5)).dtype == torch.float32
    assert torch.where(whole > 0, half, torch.tensor(0.0)).dtype == torch.float16
    with pytest.raises(RuntimeError, match="same device"):
        half + torch.ones(2, dtype=torch.float16)


# ---- views and identity ----------------------------------------------------------------------------------------------


def changed_through_views(device: str) -> tuple[Tensor, Tensor]:
    base = torch.arange(24.0, device=device).requires_grad_()
    x = (base * 1).view(2, 3, 4)
    x.transpose(0, 2)[1:3].mul_(2)
    x.diagonal(0, 1, 2).add_(torch.ones(3, device=device))
    x[..., -1] = x[..., 0].detach() - 1
    x.unfold(2, 2, 2)[0].neg_()
    x[0].index_fill_(0, torch.tensor([1], device=device), 5)
    (x * torch.arange(24.0, device=device).view_as(x)).sum().backward()  # type: ignore[no-untyped-call]
    assert base.grad is not None
    return x.detach(), base.grad


def test_in_place_changes_through_views_and_their_gradients(busy: None) -> None:
    for actual, expected in zip(changed_through_views("tb"), changed_through_views("cpu"), strict=True):
        assert bit_identical(actual.cpu(), expected)


def test_data_may_be_replaced_while_queued_work_reads_the_old_memory(busy: None) -> None:
    x = torch.full((1000,), 2.0, device="tb")
    view = x[:1]
    doubled = x * 2
    x.data = torch.full((500,), 7.0, device="tb")
    torch.full((1000,), -1.0, device="tb")
    view.add_(1)  # the view still shows the old memory
    assert values_of(doubled) == [4.0]
    assert (x.shape, values_of(x), view.tolist()) == ((500,), [7.0], [3.0])


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(5, 3)
        self.head = nn.Linear(3, 5, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, words: Tensor) -> Tensor:
        out: Tensor = self.head(self.embedding(words))
        return out


def test_tied_weights_stay_tied_when_moved_copied_and_trained() -> None:
    torch.manual_seed(0)
    here = Tied()
    there = copy.deepcopy(here).to("tb")
    assert there.head.weight is there.embedding.weight
    clone = copy.deepcopy(there)
    assert clone.head.weight is clone.embedding.weight
    assert clone.head.weight.untyped_storage().data_ptr() != there.head.weight.untyped_storage().data_ptr()
    before = clone.head.weight.detach().clone()
    words = torch.tensor([1, 4, 1])
    for model in (here, there):
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        assert len(list(model.parameters())) == 1
        for _ in range(3):
            optimizer.zero_grad()
            device = model.head.weight.device
            F.cross_entropy(model(words.to(device)), words.to(device)).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    torch.testing.assert_close(there.embedding.weight.cpu(), here.embedding.weight)
    assert bit_identical(clone.head.weight, before)


# ---- autograd and autocast -------------------------------------------------------------------------------------------


def test_backward_runs_on_the_streams_of_the_forward_pass_and_on_the_thread_that_calls_it() -> None:
    side = torch.Stream(device="tb")
    seen: list[tuple[int, int]] = []

    def hook(gradient: Tensor) -> None:
        seen.append((torch.accelerator.current_stream().stream_id, threading.get_ident()))

    x = torch.full((1000,), 3.0, device="tb", requires_grad=True)
    side.wait_stream(torch.accelerator.current_stream())
    with side:
        y = x * x
        y.register_hook(hook)  # type: ignore[no-untyped-call]
        for _ in range(5):
            y = y + 0
    torch.accelerator.current_stream().wait_stream(side)
    y.sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert values_of(x.grad) == [6.0]  # the caller's stream waits for the work of the other stream
    assert [(stream, thread == threading.get_ident()) for stream, thread in seen] == [(side.stream_id, True)]


@pytest.mark.parametrize(("setting", "same"), [("", True), ("caller", True), ("own", False)])
def test_the_thread_of_backward_passes_can_be_chosen(setting: str, same: bool) -> None:
    ran = backward_thread(setting)
    assert ran.returncode == 0, ran.stderr
    # The variable does not override a later choice of the program.
    assert ran.stdout.split() == [str(same), "False", "True"]


def test_an_unknown_thread_of_backward_passes_is_refused_with_the_choices() -> None:
    ran = backward_thread("main")
    assert ran.returncode != 0
    assert "TB_BACKWARD_THREAD is 'main'. It is 'caller'" in ran.stderr
    assert "'own'" in ran.stderr


def backward_thread(setting: str) -> subprocess.CompletedProcess[str]:
    """Prints whether a backward pass runs on the calling thread: by default, and with multithreading on and off."""
    program = """
import os, threading, torch
x = torch.ones(3, device="tb", requires_grad=True)
seen = []
caller = threading.get_ident()
x.register_hook(lambda gradient: seen.append(threading.get_ident() == caller))
(x * x).sum().backward()
for threads in (True, False):
    torch.autograd.set_multithreading_enabled(threads)
    (x * x).sum().backward()
print(*seen, flush=True)
os._exit(0)  # PyTorch's own thread may still have to give back the hook, and aborts where Python has ended before
"""
    environment = {**os.environ, "TB_BACKWARD_THREAD": setting}
    return subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False, timeout=60
    )


def test_backward_passes_of_several_threads_add_up_in_a_shared_leaf() -> None:
    x = torch.ones(1000, device="tb", requires_grad=True)

    def work(factor: float) -> None:
        for _ in range(10):
            (x * factor).sum().backward()  # type: ignore[no-untyped-call]

    threads = [threading.Thread(target=work, args=(float(i),)) for i in range(1, 4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert x.grad is not None
    assert values_of(x.grad) == [60.0]


def test_autocast_computes_low_and_accumulates_in_the_weights_type() -> None:
    results = []
    for device in ("cpu", "tb"):
        torch.manual_seed(0)
        layer = nn.Linear(8, 8).to(device)
        x = torch.linspace(-1, 1, 32).reshape(4, 8).to(device)
        with torch.autocast(device, dtype=torch.bfloat16):
            first = layer(x)
            second = layer(first)  # uses the cast weight from autocast's cache
            loss = F.mse_loss(second.float(), x)
        assert (first.dtype, second.dtype) == (torch.bfloat16, torch.bfloat16)
        loss.backward()  # type: ignore[no-untyped-call]
        assert layer.weight.grad is not None
        assert layer.weight.grad.dtype == torch.float32
        results.append((loss.detach().cpu(), layer.weight.grad.cpu()))
    torch.testing.assert_close(results[1], results[0], rtol=1e-5, atol=1e-7)


# ---- late errors -----------------------------------------------------------------------------------------------------


def test_a_late_error_of_a_side_stream_names_its_operator_and_shapes_there() -> None:
    side = torch.Stream(device="tb")
    x, inside = torch.ones(3, 4, device="tb"), torch.tensor([[0, 1]], device="tb")
    torch.gather(x, 0, inside)  # the first call with these types would raise at once
    outside = inside + 7
    side.wait_stream(torch.accelerator.current_stream())
    with side:
        torch.gather(x, 0, outside)
    torch.accelerator.current_stream().synchronize()  # raises nothing: the error belongs to the other stream
    with pytest.raises(
        (RuntimeError, IndexError), match=r"aten::gather.*out of bounds(.|\n)*float32 \[3, 4\].*int64 \[1, 2\]"
    ):
        side.synchronize()
    side.synchronize()


def test_a_late_error_of_a_backward_pass_names_its_operator() -> None:
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx: object, x: Tensor) -> Tensor:
            return x * 1

        @staticmethod
        def backward(ctx: object, gradient: Tensor) -> Tensor:
            return gradient.index_select(0, torch.full((3,), 9, device=gradient.device))

    torch.ones(3, device="tb").index_select(0, torch.zeros(3, dtype=torch.int64, device="tb"))
    x = torch.ones(3, device="tb", requires_grad=True)
    Wrong.apply(x).sum().backward()  # type: ignore[no-untyped-call]
    with pytest.raises((RuntimeError, IndexError), match=r"aten::index_select(.|\n)*float32 \[3\], int64 \[3\]"):
        torch.accelerator.synchronize()
    assert (torch.ones(2, device="tb") * 2).tolist() == [2.0, 2.0]
