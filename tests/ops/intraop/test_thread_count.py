"""Intra-op threads: which short kernels may use them, and that idle threads end them."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from conftest import RunPython
from ops.replay import replayed
from ops.threads import WORKER
from torch_backend.conformance.bits import assert_bit_identical

HEADER = pathlib.Path(__file__).parents[3] / "packages/tb-ops/src/intraop/thread_invariant_ops.h"
# The header's lists by name: operators whose results never depend on the thread count, and those for which this holds
# with AVX-512.
LISTS = {
    name: re.findall(r'"aten::(\S+)",$', text, re.MULTILINE)
    for name, text in re.findall(r"string_view (\w+)\[\] = \{\n(.*?)\n\};", HEADER.read_text(), re.DOTALL)
}
NAMES = LISTS["thread_invariant"]
if torch.backends.cpu.get_cpu_capability() == "AVX512":
    NAMES = NAMES + LISTS["thread_invariant_with_avx512"]
aten = torch.ops.aten

Results = torch.Tensor | tuple[torch.Tensor, ...]


def x(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))


VECTOR, IMAGES, ROWS = (300_001,), (6, 5, 61, 67), (517, 311)


def elementwise(operator: Callable[..., torch.Tensor], inputs: int, positive: bool = False) -> Callable[[], Results]:
    def run() -> Results:
        results = []
        for length in (65_539, 100_003, *VECTOR, 524_301):
            drawn = [x(length).add(0.5 * i) for i in range(inputs)]
            results.append(operator(*(one.abs() if positive else one for one in drawn)))
        strided = [x(613, 509).t(), x(613).expand(509, 613)][:inputs]
        results.append(operator(*(one.abs() if positive else one for one in strided)))
        return tuple(results)

    return run


def attention() -> Results:
    shapes = ((3, 4, 129, 129, 24), (1, 2, 300, 77, 64), (2, 5, 33, 290, 16))
    return tuple(
        F.scaled_dot_product_attention(x(b, h, rows, e), x(b, h, keys, e).add(1), x(b, h, keys, e), is_causal=causal)
        for b, h, rows, keys, e in shapes
        for causal in (True, False)
    )


def max_pool() -> tuple[torch.Tensor, torch.Tensor]:
    return F.max_pool2d_with_indices(x(*IMAGES), [3, 3], [2, 2], [1, 1])


def lstm(backward: bool) -> Results:
    """Layers of several sizes on tb, replayed from a graph, in which intra-op threads share the kernels."""
    results = []
    for steps, batch, inputs, hidden in ((12, 9, 33, 50), (7, 16, 128, 64), (3, 31, 300, 70)):
        torch.manual_seed(0)
        layers = torch.nn.LSTM(inputs, hidden, num_layers=2, bidirectional=True).to("tb")
        given = x(steps, batch, inputs).to("tb").requires_grad_()

        def step(layers: torch.nn.LSTM = layers, given: torch.Tensor = given) -> list[torch.Tensor]:
            out, _ = layers(given)
            return list(torch.autograd.grad(out.sin().sum(), [given, *layers.parameters()])) if backward else [out]

        results += [tensor.detach() for tensor in replayed(step)]
    return tuple(results)


CASES: dict[str, Callable[[], Results]] = {
    "_adaptive_avg_pool2d": lambda: aten._adaptive_avg_pool2d(x(*IMAGES), [7, 9]),
    "_adaptive_avg_pool2d_backward": lambda: aten._adaptive_avg_pool2d_backward(x(6, 5, 7, 9), x(*IMAGES)),
    "_log_softmax": lambda: torch.cat([aten._log_softmax(x(*ROWS), dim, False) for dim in (0, 1)]),
    "_log_softmax_backward_data": lambda: torch.cat(
        [aten._log_softmax_backward_data(x(*ROWS), x(*ROWS), dim, torch.float32) for dim in (0, 1)]
    ),
    "add.Tensor": elementwise(torch.add, 2),
    "add_.Tensor": elementwise(torch.Tensor.add_, 2),
    "avg_pool2d": lambda: aten.avg_pool2d(x(*IMAGES), [3, 3], [2, 2]),
    "avg_pool2d_backward": lambda: aten.avg_pool2d_backward(
        x(6, 5, 30, 33), x(*IMAGES), [3, 3], [2, 2], [0, 0], False, True, None
    ),
    "cat": lambda: torch.cat([x(*ROWS), x(*ROWS)], 1),
    "clamp_min_": elementwise(torch.relu_, 1),  # relu_ is clamp_min_(0)
    "convolution": lambda: tuple(
        F.conv2d(x(batch, inner, 33, 29), x(24, inner, size, size + 1), x(24), stride, padding, dilation)
        for batch, inner in ((8, 16), (2, 3), (19, 64))
        for size in (2, 3, 5)
        for stride, padding, dilation in ((1, 0, 1), (2, 1, 1), (1, 1, 2), (3, 2, 1))
    ),
    "copy_": lambda: x(*ROWS).t().contiguous(),
    "div.Tensor": elementwise(torch.div, 2),
    "div_.Tensor": elementwise(torch.Tensor.div_, 2),
    "exp": elementwise(torch.exp, 1),
    "fill_": lambda: x(*VECTOR).fill_(3),
    "index_select": lambda: torch.index_select(x(*ROWS), 0, torch.arange(516, -1, -1)),
    "lstm": lambda: lstm(backward=False),
    "lstm_backward": lambda: lstm(backward=True),
    "masked_fill_": lambda: x(*VECTOR).masked_fill_(x(*VECTOR) > 0, 1),
    "max_pool2d_with_indices": max_pool,
    "max_pool2d_with_indices_backward": lambda: aten.max_pool2d_with_indices_backward(
        max_pool()[0], x(*IMAGES), [3, 3], [2, 2], [1, 1], [1, 1], False, max_pool()[1]
    ),
    "mul.Tensor": elementwise(torch.mul, 2),
    "mul_.Tensor": elementwise(torch.Tensor.mul_, 2),
    "native_layer_norm": lambda: aten.native_layer_norm(x(*ROWS), [311], x(311), x(311), 1e-5),
    "neg": elementwise(torch.neg, 1),
    "relu": elementwise(torch.relu, 1),
    "rsqrt": elementwise(torch.rsqrt, 1, positive=True),
    "scaled_dot_product_attention": attention,
    "sigmoid_backward": elementwise(aten.sigmoid_backward, 2),
    "sqrt": elementwise(torch.sqrt, 1, positive=True),
    "sub.Tensor": elementwise(torch.sub, 2),
    "sub_.Tensor": elementwise(torch.Tensor.sub_, 2),
    "tanh": elementwise(torch.tanh, 1),
    "tanh_backward": elementwise(aten.tanh_backward, 2),
    "threshold_backward": lambda: aten.threshold_backward(x(*VECTOR), x(*VECTOR), 0.1),
    "upsample_nearest2d": lambda: aten.upsample_nearest2d(x(*IMAGES), [100, 91]),
    "zero_": lambda: x(*VECTOR).zero_(),
}


@pytest.mark.parametrize("name", NAMES)
def test_short_kernels_that_may_get_threads_are_bit_identical_on_any_number_of_them(name: str) -> None:
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 4, 7):
            torch.set_num_threads(threads)
            results = CASES[name]()
            found.append(results if isinstance(results, tuple) else (results,))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            assert one.numel() > 0
            assert_bit_identical(one, two)


def test_an_idle_worker_keeps_no_intra_op_threads(run_python: RunPython) -> None:
    code = """
tensor = torch.ones(1 << 23, device="tb")
print(starts(tensor.exp_), alone())
"""
    assert run_python(WORKER + code).stdout.split() == ["True", "True"]


def test_a_convolution_counts_its_result_before_it_runs(run_python: RunPython) -> None:
    """The time of a kernel is remembered by size class, here a class that depends on the size of the result."""
    done = run_python(
        WORKER
        + """
images, weight = torch.ones(64, 16, 65, 63, device="tb"), torch.ones(16, 1, 3, 3, device="tb")
def convolve():
    return torch.conv2d(images, weight, stride=16, groups=16)
small = convolve()
assert images.numel() + weight.numel() < 1 << 22 <= images.numel() + weight.numel() + small.numel()
print(starts(convolve))
"""
    )
    assert done.stdout.split() == ["True"]


def test_new_intra_op_threads_are_placed_once_and_may_run_where_the_process_may(run_python: RunPython) -> None:
    """A thread that started on its creator's processor is moved away by a temporary affinity mask."""
    done = run_python(
        WORKER
        + """
import tb_stream

def thread_starts():
    return _testing.thread_starts()[0]

assert thread_starts() == 0
tensor = torch.ones(1 << 23, device="tb")
torch.tb.synchronize()
process, masks = set(os.listdir("/proc/self/task")), set()
def look():  # on the worker's thread, which is busy with this, and so keeps its threads
    for thread in set(os.listdir("/proc/self/task")) - process:
        if pathlib.Path(f"/proc/self/task/{thread}/comm").read_text().strip() == "tb-cpu-0":
            masks.add(frozenset(os.sched_getaffinity(int(thread))))
def work():
    for _ in range(4):  # at once: the thread is still there
        tensor.exp_()
    tb_stream.current_stream().add_callback(look)
for i in range(10):
    assert starts(work)
    assert thread_starts() == i + 1, (thread_starts(), i)
assert masks == {frozenset(os.sched_getaffinity(0))}, masks
count, moved = _testing.thread_starts()
print(count, 0 <= moved <= count)
"""
    )
    assert done.stdout.split() == ["10", "True"]


def test_a_thread_that_waits_for_long_keeps_no_intra_op_threads(run_python: RunPython) -> None:
    done = run_python(
        WORKER
        + """
def threads():
    return len(os.listdir("/proc/self/task"))

before = threads()
torch.ones(1 << 23).exp_()
with_threads = threads()
with held() as gate:
    gate.open_once_this_thread_waits()  # the thread of the gate ends when it has opened
    torch.tb.synchronize()
tensor = torch.ones(1 << 23, device="tb")
for _ in range(100):
    tensor.exp_()
torch.tb.synchronize()
end = time.monotonic() + 30
while threads() != before and time.monotonic() < end:
    time.sleep(0.002)
print(with_threads > before, threads() - before)
"""
    )
    assert done.stdout.split() == ["True", "0"]


def test_short_kernels_run_on_one_thread_and_long_ones_on_all_once_the_host_waits(run_python: RunPython) -> None:
    code = """
def multiply(size):
    x = torch.ones(size, size, device="tb")
    return lambda: x @ x
short, long = multiply(64), multiply(1024)
for _ in range(8):
    short()
print(starts(short), starts(long))
"""
    assert run_python(WORKER + code).stdout.split() == ["False", "True"]
