"""tb-ops' kernels do without what the driver says its device lacks, and name the pointers of each launch."""

from __future__ import annotations

import ctypes
import pathlib
import shutil
import subprocess

import numpy as np
import pytest
import tb_ops
from backends.case_report import case_report
from conftest import RunPython

HEADERS = pathlib.Path(tb_ops.__file__).parent / "device_kernels"

SMALL_DEVICE = {
    "TB_DRIVER": "sim",
    "TB_SIM_LACKS": "float64",
    "TB_SIM_MAX_ARGUMENT_SIZE": "1000",
    "TB_SIM_NAMED_POINTERS": "1",
}
# Every kernel takes time to compile, so each group runs a part of its cases: every STEP-th.
STEPS = {
    "unary": 29,
    "binary": 31,
    "copies": 11,
    "reductions": 5,
    "layers": 7,
    "products": 5,
    "indexing": 5,
    "optimizers": 2,
    "convolutions": 3,
    "pooling": 5,
    "channel_norms": 4,
    "upsampling": 7,
    "sorting": 11,
    "scans": 7,
    "selection": 7,
    "searching": 3,
    "places": 7,
    "recurrent": 2,
}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A cache that is empty at first and shared by these tests."""
    return tmp_path_factory.mktemp("kernels")


def variables(cache: pathlib.Path, **more: str) -> dict[str, str]:
    return {**SMALL_DEVICE, "TB_KERNEL_CACHE": str(cache), "TB_FALLBACK": "allow", **more}


@pytest.mark.parametrize("group", STEPS)
def test_kernels_need_no_float64_and_little_memory_of_arguments(group: str, cache: pathlib.Path) -> None:
    arguments = ["-m", "tb_ops.device_kernels.check", group, "--step", str(STEPS[group]), "--json"]
    report = case_report(arguments, variables(cache))
    assert report["cases"] >= 4
    assert report["wrong"] == {}
    assert report["status"] == 0


def test_float64_falls_back_and_is_counted(run_python: RunPython, cache: pathlib.Path) -> None:
    code = """
        import torch
        x = torch.arange(6, dtype=torch.float64).view(2, 3).to("tb")
        def fallen(call):
            torch.tb.reset_fallbacks()
            result = call()
            return result.cpu().tolist(), [row.operator for row in torch.tb.fallbacks()]
        print(fallen(lambda: x.sum()))
        print(fallen(lambda: x + 1))
        print(fallen(lambda: torch.ones(2, device="tb").sum(dtype=torch.float64)))
        number = torch.tensor(2.5, dtype=torch.float64)  # on the CPU, so the operands are compared in float64
        print(fallen(lambda: torch.arange(4, device="tb") > number))
        print(fallen(lambda: torch.ones(2, device="tb") * number))
        try:
            x.uniform_()
        except NotImplementedError as error:
            print(error)
    """
    lines = run_python(code, env=variables(cache)).stdout.splitlines()
    results = ["(15.0, [", "([[1.0, 2.0", "(2.0, [", "([False, False, False, True], ["]
    for line, result in zip(lines, results, strict=False):
        assert line.startswith(result)
        assert "aten::" in line
    assert lines[4] == "([2.5, 2.5], [])"
    assert "the device lacks float64" in lines[5]


@pytest.mark.parametrize(("lacking", "fallen"), [("atomic64", ["int64"]), ("float_atomics", ["float32", "embedding"])])
def test_sums_by_an_index_fall_back_without_the_atomic_additions(
    lacking: str, fallen: list[str], run_python: RunPython, cache: pathlib.Path
) -> None:
    code = """
        import torch
        index = torch.tensor([0, 2, 0], device="tb")
        def ask(name, call):
            torch.tb.reset_fallbacks()
            call()
            if torch.tb.fallbacks():
                print(name)
        for dtype in (torch.int32, torch.int64, torch.float32):
            x = torch.ones(3, dtype=dtype, device="tb")
            def add():
                assert torch.zeros_like(x).scatter_add(0, index, x).tolist() == [2, 0, 1]
                assert torch.zeros_like(x).index_add(0, index, x).tolist() == [2, 0, 1]
            ask(str(dtype).removeprefix("torch."), add)
        weight = torch.ones(3, 2, device="tb", requires_grad=True)
        ask("embedding", lambda: torch.nn.functional.embedding(index, weight).sum().backward())
        assert weight.grad.tolist() == [[2, 2], [0, 0], [1, 1]]
    """
    assert run_python(code, env=variables(cache, TB_SIM_LACKS=lacking)).stdout.split() == fallen


RANDOM = """
    import hashlib, torch
    torch.manual_seed(5)
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        for fill in (lambda x: x.uniform_(-1.3, 2.7), lambda x: x.normal_(0.1, 2.3), lambda x: x.random_(-7, 93)):
            x = fill(torch.empty(1001, dtype=dtype, device="tb"))
            print(hashlib.sha256(x.cpu().view(torch.uint8).numpy().tobytes()).hexdigest())
    y = torch.nn.functional.dropout(torch.ones(7, 143, device="tb"), 0.2)
    print(hashlib.sha256(y.cpu().numpy().tobytes()).hexdigest())
"""


@pytest.mark.parametrize("lacking", ["float64", "fma", "float64,fma"])
def test_random_numbers_are_bit_identical_to_those_of_a_complete_device(
    lacking: str, run_python: RunPython, cache: pathlib.Path
) -> None:
    complete, poor = (
        run_python(RANDOM, env=variables(cache, TB_SIM_LACKS=lacks)).stdout.splitlines() for lacks in ("", lacking)
    )
    assert len(complete) == 10
    assert poor == complete


# ---- the kernels' own arithmetic, compiled as the host compiler's images are ---------------------------------------


def compiled(source: str, folder: pathlib.Path, *options: str) -> subprocess.CompletedProcess[str]:
    compiler = shutil.which("c++") or "c++"
    (folder / "kernel.cpp").write_text(source)
    (folder / "shim.cuh").write_text('#include "shim_host.cuh"\n')
    command = [compiler, "-std=c++20", "-O2", "-fPIC", "-shared", "-ffp-contract=off", *options]
    command += [f"-I{each}" for each in (folder, HEADERS, HEADERS / "include")]
    command += ["-o", str(folder / "kernel.so"), str(folder / "kernel.cpp")]
    return subprocess.run(command, capture_output=True, text=True, check=False)


PAIRS = """
#include "mathematics.cuh"
using namespace tb::kernels;
extern "C" void read(const Real *in, float *high, float *low, int count) {
  for (int i = 0; i < count; i++) {
    const FloatPair pair = pair_of(in[i]);
    high[i] = pair.high, low[i] = pair.low;
  }
}
extern "C" void compute(const Real *a, const Real *b, float *out, int count) {
  for (int i = 0; i < count; i++) {
    const FloatPair x = pair_of(a[i]), y = pair_of(b[i]);
    const FloatPair results[] = {x + y, x * y, x / y, number::sqrt(x), number::pow(x, 7)};
    for (const FloatPair &result : results) *out++ = result.high, *out++ = result.low;
  }
}
extern "C" void fused(const float *a, const float *b, const float *c, float *out, float *exact, int count) {
  for (int i = 0; i < count; i++) {
    out[i] = number::fma(a[i], b[i], c[i]);
    exact[i] = __builtin_fmaf(a[i], b[i], c[i]);
  }
}
"""


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("pairs")
    done = compiled(PAIRS, folder, "-DTB_NO_FLOAT64", "-DTB_NO_FMA")
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(folder / "kernel.so"))


def pointers(*arrays: np.ndarray) -> list[ctypes.c_void_p]:
    return [array.ctypes.data_as(ctypes.c_void_p) for array in arrays]


def many_numbers(random: np.random.Generator, count: int, exponents: int) -> np.ndarray:
    """Numbers of both signs from 2^-exponents to 2^exponents."""
    return random.standard_normal(count) * 2.0 ** random.integers(-exponents, exponents, count)


def test_numbers_of_the_host_are_rounded_as_a_conversion_rounds_them(pairs: ctypes.CDLL) -> None:
    random = np.random.default_rng(1)
    edges = [0.0, -0.0, np.inf, -np.inf, np.nan, 2.0**-150, 1.5 * 2.0**-149, 2.0**-126 - 2.0**-151, 2.0**128 - 2.0**103]
    any_bits = random.integers(0, 2**64, 100_000, dtype=np.uint64).view(np.float64)
    numbers = np.concatenate([edges, any_bits, many_numbers(random, 300_000, 155)])
    high, low = np.empty((2, numbers.size), np.float32)
    pairs.read(*pointers(numbers, high, low), numbers.size)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        expected = numbers.astype(np.float32)
    np.testing.assert_array_equal(np.isnan(high), np.isnan(expected))
    good = ~np.isnan(expected)
    np.testing.assert_array_equal(high[good].view(np.uint32), expected[good].view(np.uint32))
    normal = np.isfinite(expected) & (np.abs(numbers) > 2.0**-60)
    wide = high[normal].astype(np.float64) + low[normal]
    assert np.all(np.abs(wide - numbers[normal]) <= 2.0**-48 * np.abs(numbers[normal]))


def test_pairs_of_floats_have_the_precision_that_sums_need(pairs: ctypes.CDLL) -> None:
    random = np.random.default_rng(2)
    a, b = (
        np.abs(many_numbers(random, 100_000, 8)) + 2.0**-8,
        many_numbers(random, 100_000, 8),
    )  # so that no power underflows
    out = np.empty((a.size, 5, 2), np.float32)
    pairs.compute(*pointers(a, b, out), a.size)
    found = out.astype(np.float64).sum(-1).T
    for expected, result, scale in zip(
        (a + b, a * b, a / b, np.sqrt(a), a**7), found, (np.maximum(a, np.abs(b)), None, None, None, None), strict=True
    ):
        assert np.all(np.abs(result - expected) <= 2.0**-42 * np.abs(expected if scale is None else scale))


def test_multiply_adds_without_fma_round_once(pairs: ctypes.CDLL) -> None:
    random = np.random.default_rng(3)
    a, b, c = (many_numbers(random, 100_000, 20).astype(np.float32) for _ in range(3))
    c[::3] = -(a * b)[::3]  # what is left is the product's rounding error
    out, exact = np.empty((2, a.size), np.float32)
    pairs.fused(*pointers(a, b, c, out, exact), a.size)
    np.testing.assert_array_equal(out, exact)


def test_multiply_adds_without_fma_round_once_where_the_product_decides_a_tie(pairs: ctypes.CDLL) -> None:
    """A sum of floats that is rounded to nearest in between loses what decides; rounded to odd, it does not."""
    random = np.random.default_rng(4)
    a = np.float32(1) + random.random(10_000, dtype=np.float32)
    b = np.float32(1) / a  # the product is nearly 1, which is half of the step of the floats around 2^24
    c = (2.0**24 + 2.0 * random.integers(0, 2**22, a.size)).astype(np.float32)
    one = [float.fromhex(text) for text in ("0x1.6abb88p+0", "0x1.6f7762p+0", "0x1.c9e56ap+10")]  # of another size
    a, b, c = (np.append(x, np.float32(y)) for x, y in zip((a, b, c), one, strict=True))
    out, exact = np.empty((2, a.size), np.float32)
    pairs.fused(*pointers(a, b, c, out, exact), a.size)
    np.testing.assert_array_equal(out, exact)
    product = a.astype(np.float64) * b
    assert np.count_nonzero(exact != (product.astype(np.float32) + c)) > 1000  # the last digits of products do decide


KERNELS = """
#include "advanced_indexing.cuh"
#include "binary.cuh"
#include "channel_norm.cuh"
#include "compact.cuh"
#include "convolution.cuh"
#include "indexing.cuh"
#include "layer_norm.cuh"
#include "loss.cuh"
#include "matmul.cuh"
#include "matmul_vectors.cuh"
#include "optimizers.cuh"
#include "pointwise.cuh"
#include "pooling.cuh"
#include "random.cuh"
#include "recurrent.cuh"
#include "reduce.cuh"
#include "rows.cuh"
#include "scan.cuh"
#include "search.cuh"
#include "softmax.cuh"
#include "sort.cuh"
#include "upsample.cuh"
using namespace tb::kernels;
"""


def test_the_kernels_name_no_type_of_64_bit_floats(tmp_path: pathlib.Path) -> None:
    assert compiled(KERNELS, tmp_path, "-DTB_NO_FLOAT64").returncode == 0
    done = compiled(KERNELS + "double number;\n", tmp_path, "-DTB_NO_FLOAT64")
    assert "this_device_has_no_float64" in done.stderr


INSTANCES = """
TB_ENTRY(one, (pointwise<GeluTanhBackward, float>), PointwiseArguments, 256, false)
TB_ENTRY(two, (pointwise<DivideFloor, float>), PointwiseArguments, 256, false)
TB_ENTRY(three, (reduce_long<VarianceOf<float>, float>), ReduceArguments, 256, true)
TB_ENTRY(four, (reduce_short<NormOf<float>, float>), ReduceArguments, 256, false)
TB_ENTRY(five, (softmax<float, float, true>), RowArguments, 256, true)
TB_ENTRY(six, (layer_norm<float, float>), LayerNormArguments, 256, true)
TB_ENTRY(seven, (adam<float>), OptimizerArguments, 256, false)
TB_ENTRY(eight, (normal<float>), RandomArguments, 256, false)
TB_ENTRY(nine, (range<float>), RangeArguments, 256, false)
TB_ENTRY(ten, (nll_all<float>), LossArguments, 256, true)
TB_ENTRY(eleven, (matmul<float>), MatmulArguments, 256, true)
TB_ENTRY(twelve, (convolution<float, true>), ConvolutionArguments, 256, true)
TB_ENTRY(thirteen, (convolution_weight_narrow<float>), ConvolutionArguments, 256, true)
TB_ENTRY(fourteen, (max_pool<float>), PoolArguments, 256, false)
TB_ENTRY(fifteen, (average_pool_backward<float, true>), PoolArguments, 256, false)
TB_ENTRY(sixteen, (upsample_backward<float, Linear>), UpsampleArguments, 256, false)
TB_ENTRY(seventeen, (channel_moments<Bfloat, true>), ChannelNormArguments, 256, true)
TB_ENTRY(eighteen, (channel_norm_backward<float, false>), ChannelNormArguments, 256, false)
TB_ENTRY(nineteen, (sort_tiles<float>), SortArguments, 256, true)
TB_ENTRY(twenty, (scan_long<RunningSum<float>, float>), ScanArguments, 256, true)
TB_ENTRY(twenty_one, (scan_carries<RunningLogarithm<float>, float>), ScanArguments, 256, true)
TB_ENTRY(twenty_two, (linspace<int>), RangeArguments, 256, false)
TB_ENTRY(twenty_three, (search<float, int>), SearchArguments, 256, false)
TB_ENTRY(twenty_four, (lstm_cell_backward<float>), CellGradArguments, 256, false)
TB_ENTRY(twenty_five, (exponential<float>), RandomArguments, 256, false)
TB_ENTRY(twenty_six, (matmul_vectors<float>), MatmulArguments, 1, false)
"""


def test_the_kernels_never_widen_to_64_bit_floats(tmp_path: pathlib.Path) -> None:
    source = KERNELS + INSTANCES
    done = compiled(source, tmp_path, "-DTB_NO_FLOAT64", "-Werror=double-promotion")
    assert done.returncode == 0, done.stderr[:3000]
    widened = source + "float half(float x) { return x * 0.5; }\n"
    assert "double-promotion" in compiled(widened, tmp_path, "-DTB_NO_FLOAT64", "-Werror=double-promotion").stderr
