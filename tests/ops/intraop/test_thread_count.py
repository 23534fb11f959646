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
# The header's lists of operators, by name.
LISTS = {
    name: re.findall(r'"aten::([^"]+)"', text)
    for name, text in re.findall(
        r"string_view thread_invariant_(\w+)\[\] = \{\n(.*?)\n\};", HEADER.read_text(), re.DOTALL
    )
}
if torch.backends.cpu.get_cpu_capability() != "AVX512":
    LISTS["with_avx512"] = []
aten = torch.ops.aten

Results = torch.Tensor | tuple[torch.Tensor, ...]


class Draw:
    """Draws tensors of one dtype."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        self.dtype = dtype

    def __call__(self, *shape: int) -> torch.Tensor:
        numbers = torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)))
        return (numbers if self.dtype.is_floating_point else numbers.mul(9)).to(self.dtype)


VECTOR, IMAGES, ROWS = (300_001,), (6, 5, 61, 67), (517, 311)
x = Draw()


def required(argument: torch.Argument) -> bool:
    return not argument.has_default_value() and not argument.kwarg_only


def elementwise(name: str) -> Callable[[Draw], Results]:
    """The operator on tensors of several lengths and strides; its other arguments are 0.7, 2 or False."""
    base, _, overload = name.partition(".")
    operator = getattr(getattr(aten, base), overload or "default")
    assert torch.Tag.pointwise in operator.tags or base in POINTWISE, f"aten::{name} needs a case"
    arguments = [argument for argument in operator._schema.arguments if required(argument)]

    def run(x: Draw) -> Results:
        number = 0.7 if x.dtype.is_floating_point else 2
        lengths = (65_539, 100_003, *VECTOR, 524_301) if x.dtype == torch.float32 else (65_539, *VECTOR)

        def first(*shape: int) -> torch.Tensor:
            return x(*shape).abs().add(0.01) if base in POSITIVE else x(*shape)

        def other(*shape: int) -> torch.Tensor:
            return x(*shape).add(0.5) if x.dtype.is_floating_point else x(*shape).abs().add(1)  # not divided by zero

        drawn = [[first(length), other(length), other(length).add(1)] for length in lengths]
        drawn.append([first(613, 509).t(), other(613).expand(509, 613), other(509, 613)])
        results = []
        for tensors in drawn:
            given = iter(tensors)
            values = [
                next(given) if "Tensor" in str(one.type) else False if str(one.type) == "bool" else number
                for one in arguments
            ]
            results.append(operator(*values))
        return tuple(tensor for result in results for tensor in (result if isinstance(result, tuple) else (result,)))

    return run


POINTWISE = {"floor_divide", "hardswish", "leaky_relu_backward"}  # their tags do not say so
POSITIVE = {"log", "log_", "log2", "log10", "log1p", "sqrt", "sqrt_", "rsqrt", "acosh", "lgamma", "digamma"}


def attention(x: Draw) -> Results:
    shapes = ((3, 4, 129, 129, 24), (1, 2, 300, 77, 64), (2, 5, 33, 290, 16))
    return tuple(
        F.scaled_dot_product_attention(x(b, h, rows, e), x(b, h, keys, e).add(1), x(b, h, keys, e), is_causal=causal)
        for b, h, rows, keys, e in shapes
        for causal in (True, False)
    )


def max_pool(x: Draw) -> tuple[torch.Tensor, torch.Tensor]:
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


def both_dims(operator: Callable[[torch.Tensor, int], Results]) -> Callable[[Draw], Results]:
    """The operator along each dimension of a matrix."""

    def run(x: Draw) -> Results:
        results = [operator(x(*ROWS), dim) for dim in (0, 1)]
        return tuple(tensor for result in results for tensor in (result if isinstance(result, tuple) else (result,)))

    return run


def indices(count: int, below: int) -> torch.Tensor:
    return torch.randint(below, (count,), generator=torch.Generator().manual_seed(0))


def places(dim: int) -> torch.Tensor:
    """For each element of a matrix of ROWS a place along a dimension, no two the same."""
    return x(*ROWS).argsort(dim)


# Operators that are not elementwise.
CASES: dict[str, Callable[[Draw], Results]] = {
    "_adaptive_avg_pool2d": lambda x: aten._adaptive_avg_pool2d(x(*IMAGES), [7, 9]),
    "_adaptive_avg_pool2d_backward": lambda x: aten._adaptive_avg_pool2d_backward(x(6, 5, 7, 9), x(*IMAGES)),
    "_log_softmax": both_dims(lambda x, dim: aten._log_softmax(x, dim, False)),
    "_log_softmax_backward_data": both_dims(lambda x, dim: aten._log_softmax_backward_data(x, x, dim, torch.float32)),
    "_logcumsumexp": both_dims(torch.logcumsumexp),
    "all": lambda x: torch.stack([x(*VECTOR).ne(0).all(), x(*VECTOR).isfinite().all()]),
    "all.dim": both_dims(lambda x, dim: x.gt(-3).all(dim)),
    "amax": both_dims(torch.amax),
    "amin": both_dims(torch.amin),
    "aminmax": lambda x: torch.aminmax(x(*VECTOR)),
    "any": lambda x: torch.stack([x(*VECTOR).gt(4).any(), x(*VECTOR).gt(40).any()]),
    "any.dim": both_dims(lambda x, dim: x.gt(3).any(dim)),
    "arange": lambda x: torch.arange(0, 300_001, 1, dtype=x.dtype),
    "argmax": both_dims(torch.argmax),
    "argmin": both_dims(torch.argmin),
    "avg_pool2d": lambda x: aten.avg_pool2d(x(*IMAGES), [3, 3], [2, 2]),
    "avg_pool2d_backward": lambda x: aten.avg_pool2d_backward(
        x(6, 5, 30, 33), x(*IMAGES), [3, 3], [2, 2], [0, 0], False, True, None
    ),
    **dict.fromkeys(("clamp", "clamp_"), lambda x: (x(*ROWS).t().clamp_(-1, 1), x(*VECTOR).clamp(max=1))),
    "clamp.Tensor": lambda x: x(*ROWS).clamp(x(311).sub(1), x(517, 1).add(1)),
    "cat": both_dims(lambda x, dim: torch.cat([x, x], dim)),
    "convolution": lambda x: tuple(
        F.conv2d(x(batch, inner, 33, 29), x(24, inner, size, size + 1), x(24), stride, padding, dilation)
        for batch, inner in ((8, 16), (2, 3), (19, 64))
        for size in (2, 3, 5)
        for stride, padding, dilation in ((1, 0, 1), (2, 1, 1), (1, 1, 2), (3, 2, 1))
    ),
    "copy_": lambda x: (x(*ROWS).t().contiguous(), x(*VECTOR).to(torch.float32), x(*VECTOR).to(torch.int64)),
    "count_nonzero": lambda x: torch.stack([x(*VECTOR).gt(0).count_nonzero()]),
    "cummax": both_dims(torch.cummax),
    "cummin": both_dims(torch.cummin),
    "cumprod": both_dims(torch.cumprod),
    "cumsum": both_dims(torch.cumsum),
    "embedding_dense_backward": lambda x: aten.embedding_dense_backward(
        x(5000, 33), indices(5000, 700), 700, -1, False
    ),
    "eye": lambda x: torch.eye(517, 311, dtype=x.dtype),
    "fill_": lambda x: x(*VECTOR).fill_(3),
    "flip": both_dims(lambda x, dim: x.flip(dim)),
    "gather": lambda x: tuple(x(*ROWS).gather(dim, places(dim)) for dim in (0, 1)),
    "histc": lambda x: torch.histc(x(*VECTOR), 37, -2, 2),
    "im2col": lambda x: F.unfold(x(*IMAGES), (3, 2), dilation=2, padding=1, stride=2),
    "index.Tensor": lambda x: (x(*ROWS)[indices(5000, 517)], x(*VECTOR)[indices(70_001, 300_001)]),
    "index_add": both_dims(lambda x, dim: x.index_add(dim, indices(300, 311), x.narrow(dim, 0, 300))),
    "index_copy": both_dims(lambda x, dim: x.index_copy(dim, torch.arange(299, -1, -1), x.narrow(dim, 0, 300))),
    "index_select": lambda x: torch.index_select(x(*ROWS), 0, torch.arange(516, -1, -1)),
    "kthvalue": both_dims(lambda x, dim: torch.kthvalue(x, 7, dim)),
    "linalg_vector_norm": both_dims(lambda x, dim: torch.linalg.vector_norm(x, dim=dim)),
    "linspace": lambda x: torch.linspace(-1, 3, 300_001),
    "log_sigmoid_backward": lambda x: aten.log_sigmoid_backward(
        x(*ROWS), x(*ROWS), aten.log_sigmoid_forward(x(*ROWS))[1]
    ),
    "log_sigmoid_forward": lambda x: aten.log_sigmoid_forward(x(*VECTOR))[0],
    "lstm": lambda x: lstm(backward=False),
    "lstm_backward": lambda x: lstm(backward=True),
    "masked_fill_": lambda x: x(*VECTOR).masked_fill_(x(*VECTOR) > 0, 1),
    "max.dim": both_dims(lambda x, dim: tuple(x.max(dim))),
    "max_pool2d_with_indices": max_pool,
    "max_pool2d_with_indices_backward": lambda x: aten.max_pool2d_with_indices_backward(
        max_pool(x)[0], x(*IMAGES), [3, 3], [2, 2], [1, 1], [1, 1], False, max_pool(x)[1]
    ),
    "mean.dim": both_dims(torch.mean),
    "median": both_dims(lambda x, dim: tuple(x.median(dim))),
    "min.dim": both_dims(lambda x, dim: tuple(x.min(dim))),
    "mse_loss_backward": lambda x: aten.mse_loss_backward(x(*ROWS), x(*ROWS).add(1), x(*ROWS), 0),
    "native_group_norm": lambda x: aten.native_group_norm(x(12, 30, 61, 17), x(30), x(30), 12, 30, 61 * 17, 5, 1e-5),
    "native_layer_norm": lambda x: aten.native_layer_norm(x(*ROWS), [311], x(311), x(311), 1e-5),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x(6, 12, 61, 67), 2),
    "prod.dim_int": both_dims(torch.prod),
    "reflection_pad1d": lambda x: F.pad(x(*ROWS), (3, 4), "reflect"),
    "reflection_pad2d": lambda x: F.pad(x(*IMAGES), (3, 4, 5, 6), "reflect"),
    "replication_pad2d": lambda x: F.pad(x(*IMAGES), (3, 4, 5, 6), "replicate"),
    "scaled_dot_product_attention": attention,
    "scatter.src": lambda x: tuple(torch.zeros_like(x(*ROWS)).scatter(d, places(d), x(*ROWS)) for d in (0, 1)),
    "scatter.value": lambda x: tuple(x(*ROWS).scatter(dim, places(dim)[:300, :300], 2) for dim in (0, 1)),
    "slow_conv_transpose2d": lambda x: tuple(
        aten.slow_conv_transpose2d(x(batch, 16, 13, 17), x(16, 24, size, size), [size, size], x(24), [stride, stride])
        for batch in (1, 7)
        for size in (2, 3)
        for stride in (1, 2)
    ),
    "smooth_l1_loss_backward": lambda x: aten.smooth_l1_loss_backward(x(*ROWS), x(*ROWS).add(1), x(*ROWS), 0, 0.5),
    "sort.stable": both_dims(lambda x, dim: tuple(x.sort(dim=dim, stable=True))),
    "std": both_dims(torch.std),
    "sum.dim_IntList": both_dims(torch.sum),
    "take": lambda x: x(*VECTOR).take(indices(70_001, 300_001)),
    "threshold_backward": lambda x: aten.threshold_backward(x(*VECTOR), x(*VECTOR), 0.1),
    "topk": both_dims(lambda x, dim: tuple(x.topk(9, dim))),
    "tril": lambda x: x(*ROWS).tril(-3),
    "tril_": lambda x: x(*ROWS).tril_(-3),
    "triu": lambda x: x(*ROWS).triu(3),
    "triu_": lambda x: x(*ROWS).triu_(3),
    "unfold_backward": lambda x: aten.unfold_backward(x(101, 311, 7), [517, 311], 0, 7, 5),
    "upsample_bilinear2d": lambda x: aten.upsample_bilinear2d(x(*IMAGES), [100, 91], False),
    "upsample_nearest2d": lambda x: aten.upsample_nearest2d(x(*IMAGES), [100, 91]),
    "var": both_dims(torch.var),
    "where": lambda x: (x(*VECTOR).where(x(*VECTOR) > 0, 1), x(*ROWS).where(x(311) > 0, x(*ROWS).add(1))),
    "zero_": lambda x: x(*VECTOR).zero_(),
}
FLOAT32 = [name for part in ("with_avx512", "many_results", "float32") for name in LISTS[part]]
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int64]
NO_INTEGERS = {"div_.Tensor", "leaky_relu", "leaky_relu_backward"}


def computes(name: str, dtype: torch.dtype) -> bool:
    return name not in NO_INTEGERS if dtype == torch.int64 else not name.startswith("bitwise")


CHECKED = [(name, torch.float32) for name in FLOAT32]
CHECKED += [(name, dtype) for name in LISTS["any_dtype"] for dtype in DTYPES if computes(name, dtype)]


@pytest.mark.parametrize(("name", "dtype"), CHECKED, ids=[f"{name}-{str(dtype)[6:]}" for name, dtype in CHECKED])
def test_short_kernels_that_may_get_threads_are_bit_identical_on_any_number_of_them(
    name: str, dtype: torch.dtype
) -> None:
    case = CASES.get(name) or elementwise(name)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 4, 7):
            torch.set_num_threads(threads)
            results = case(Draw(dtype))
            found.append(results if isinstance(results, tuple) else (results,))
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            assert one.numel() > 0
            assert_bit_identical(one, two)


def argument(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[], torch.Tensor]:
    """Of numbers of which many are the greatest and the least, without and with NaN, and of integers."""

    def stacked() -> torch.Tensor:
        numbers = x(*VECTOR).clamp(-1, 1)
        broken = numbers.index_fill(0, torch.tensor([71_003, 250_001]), torch.nan)
        return torch.stack([function(each) for each in (numbers, broken, numbers.mul(3).to(torch.int64))])

    return stacked


SINGLE_INTEGERS: dict[str, Callable[[], torch.Tensor]] = {
    "argmax": argument(torch.argmax),
    "argmin": argument(torch.argmin),
    "sum": lambda: x(*VECTOR).mul(1e15).to(torch.int64).sum(),
    "sum of booleans": lambda: x(*VECTOR).gt(0).sum(),
    "prod": lambda: x(*VECTOR).mul(9).to(torch.int64).mul(2).add(1).prod(),
}


@pytest.mark.parametrize("name", SINGLE_INTEGERS)
def test_a_single_integer_does_not_depend_on_the_number_of_threads(name: str) -> None:
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3, 4, 7):
            torch.set_num_threads(threads)
            found.append(SINGLE_INTEGERS[name]())
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(found[0], other) for other in found)


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
