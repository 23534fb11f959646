"""torch.compile(model) on a device with its own memory: generated kernels give the results of plain calls.

The device is the sim driver's, or that of the driver in TB_TESTS_DRIVER (nox -s opencl). Programs run with
TB_FALLBACK=error, so that no operator runs on the CPU.
"""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import textwrap
from collections.abc import Callable

import pytest
import tb_ops
from conftest import RunPython
from sim_vendor import simulated

HEADERS = pathlib.Path(tb_ops.__file__).parent / "device_kernels"
TOOLS = pathlib.Path(__file__).parents[2] / "tools"

COMPARE = """
    import json, torch, tb_compile, tb_ops
    from torch.nn import functional
    torch.manual_seed(0)

    def moved(value, device):
        if isinstance(value, (list, tuple)):
            return type(value)(moved(one, device) for one in value)
        return value.to(device) if isinstance(value, torch.Tensor) else value

    def compare(function, *arguments, tolerance=1e-5, **options):
        "Compares a compiled call on tb with a plain one on the CPU, and returns the number of generated kernels."
        torch.compiler.reset()
        tb_compile.reset()
        compiled = torch.compile(function, fullgraph=True, **options)
        found = compiled(*moved(arguments, "tb"))
        expected = function(*moved(arguments, "cpu"))
        torch.testing.assert_close(moved(found, "cpu"), expected, rtol=tolerance, atol=tolerance, equal_nan=True)
        return sum(graph.kernels for graph in tb_compile.graphs())
"""


def comparing(code: str) -> str:
    """A program that has compare()."""
    return textwrap.dedent(COMPARE) + textwrap.dedent(code)


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A cache of images that is empty at first and shared by these tests."""
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture
def run_on_device(run_python: RunPython, cache: pathlib.Path, tmp_path: pathlib.Path) -> Run:
    """Runs a program on the device, with an empty cache of Inductor's."""
    driver = os.environ.get("TB_TESTS_DRIVER", "sim")
    options = {name: value for name, value in os.environ.items() if name.startswith(f"TB_{driver.upper()}_")}

    def run(code: str, *, check: bool = True, **env: str) -> subprocess.CompletedProcess[str]:
        own = {
            **options,
            "TB_DRIVER": driver,
            "TB_FALLBACK": "error",
            "TB_KERNEL_CACHE": str(cache),
            "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "inductor"),
            "PYTHONPATH": str(TOOLS),
        }
        return run_python(code, {**own, **env}, check=check, timeout=540)

    return run


# Classes of PyTorch's list of operators that must become kernels.
POINTWISE = [
    *["abs", "add", "atan2", "bitwise_and", "clamp", "copysign", "div", "eq", "erf", "exp", "expm1", "floor_divide"],
    *["fmod", "hypot", "isnan", "lerp", "log1p", "logical_xor", "lt", "maximum", "minimum", "mul", "nan_to_num", "pow"],
    *["reciprocal", "remainder", "round", "rsqrt", "sigmoid", "sign", "sinh", "sub", "tanh", "where", "xlogy"],
    *["asinh", "acosh", "atanh", "nn.functional.gelu", "nn.functional.silu", "nn.functional.softplus"],
]
REDUCTIONS = [
    *["all", "amax", "amin", "any", "argmax", "argmin", "logsumexp", "mean", "prod", "softmax", "log_softmax", "std"],
    *["sum", "var_mean", "nn.functional.layer_norm", "nn.functional.mse_loss", "nn.functional.cross_entropy"],
]

OPERATORS = """
    import sys
    from torch.testing._internal.common_methods_invocations import op_db
    wanted = {wanted}
    counts = dict.fromkeys(wanted, 0)
    dtypes = (torch.float32, torch.bfloat16, torch.int64, torch.bool)
    for op in op_db:
        if op.name not in wanted:
            continue
        known = [dtype for dtype in dtypes if dtype in op.supported_dtypes("cpu")]
        for dtype in known if wanted.index(op.name) % 5 == 0 else known[:1]:  # each compilation takes time
            samples = list(op.sample_inputs("cpu", dtype))
            sample = max(samples, key=lambda sample: (sample.input.numel(), "dim" in sample.kwargs))
            call = lambda *arguments: op.op(*arguments, **sample.kwargs)
            tolerance = 2e-2 if dtype is torch.bfloat16 else 1e-4
            try:
                counts[op.name] += compare(call, sample.input, *sample.args, tolerance=tolerance)
            except Exception as error:
                raise AssertionError(f"{{op.name}} {{op.variant_test_name}} {{dtype}}") from error
    print(json.dumps(counts))
"""


# The host's compiler, which sim has, takes a second for each kernel.
STEP = 1 if "TB_TESTS_DRIVER" in os.environ else 3


@pytest.mark.parametrize("wanted", [POINTWISE[::STEP], REDUCTIONS[:: (STEP + 1) // 2]])
def test_operators_become_kernels_with_the_results_of_plain_calls(wanted: list[str], run_on_device: Run) -> None:
    counts = json.loads(run_on_device(comparing(OPERATORS.format(wanted=wanted))).stdout)
    assert counts.keys() == set(wanted)
    assert [name for name, kernels in counts.items() if kernels == 0] == []


FUSED = """
    x, y, mask = torch.randn(33, 270), torch.randn(270), torch.rand(33, 270) < 0.5
    assert compare(lambda x, y: (x.sin() * 2 + y).relu(), x, y) == 1
    assert compare(lambda x, y: (x * y).softmax(-1) + y, x, y) == 1
    assert compare(lambda x: functional.layer_norm(x, (270,)).tanh(), x) == 1
    assert compare(lambda x: torch.var_mean(x * 2, -1), x) == 1
    assert compare(lambda x, m: (x.masked_fill(m, 0).amax(1), x.argmax(1), (x > 0).any(1)), x, mask) == 1
    assert compare(lambda x: x.log_softmax(-1)[:, ::3].exp(), x) >= 1
    # views, strides and broadcasting
    assert compare(lambda x, y: x.t()[5:] * y[5:, None] + x[0, 5:, None], x, y) == 1
    assert compare(lambda x: torch.cat([x, x[:, 1:] + 1], 1).view(-1)[7:], x) >= 1
    assert compare(lambda x: x[:, None].expand(-1, 3, -1).transpose(0, 2).contiguous(), x) == 1
    assert compare(lambda x: functional.pad(x, (1, 2)).roll(3, 1), x) == 1
    # an index modulo 16 in a loop, of which a compiler may make an integer of 4 bits
    rows = lambda i, x, y: (functional.embedding(i, x), functional.layer_norm(functional.embedding(i, x) + y, (32,)))
    assert compare(rows, torch.randint(0, 256, (4, 16)), torch.randn(256, 32), torch.randn(16, 32)) >= 1
    # long rows, few rows, short rows
    assert compare(lambda x: x.sin().sum(), torch.randn(40_000), tolerance=1e-3) >= 1
    assert compare(lambda x: x.sum(0), torch.randn(3000, 5), tolerance=1e-3) >= 1
    assert compare(lambda x: x.sum(0), torch.randn(70, 1500), tolerance=1e-4) >= 1
    assert compare(lambda x: (x + 1).prod(1), torch.rand(900, 20), tolerance=1e-4) == 1
    assert compare(lambda x: x.amax((0, 2)), torch.randn(20, 30, 40)) >= 1
    # integers and bools
    whole, divisor = torch.arange(-50, 50), torch.tensor([3, -7] * 50)
    quotients = lambda a, b: (a // b, a % b, torch.div(a, b, rounding_mode="trunc"), a << 2, a >> 1)
    assert compare(quotients, whole, divisor) == 1
    assert compare(lambda a, b: ((a > 0) ^ (b > 0), ~(a < b), a & b, a | b), whole, divisor) == 1
    assert compare(lambda a: (a.to(torch.int8) * 100, a.to(torch.uint8) + 200, -a.to(torch.int16)), whole) == 1
    assert compare(lambda a: (a.sum(), a.float().mean(), a.to(torch.bool).all()), whole) >= 1
    # 16-bit floats, 64-bit floats, and bits of another type
    for dtype in (torch.float16, torch.bfloat16):
        assert compare(lambda x: (x * 3 + 0.1).softmax(-1), x.to(dtype), tolerance=2e-2) == 1
    assert compare(lambda x: x.double().exp() * 1.1, x) == 1
    assert compare(lambda x: x.view(torch.int32) ^ 1, x) == 1
    # scalars of the CPU, and indices
    assert compare(lambda x, s: x * s + s, x, 2.5, dynamic=True) == 1
    assert compare(lambda x, i: x[i] * 2, x, torch.tensor([3, -1, 0])) == 1
    assert compare(lambda x, i, v: x.index_put((i,), v, accumulate=True), x, torch.tensor([3, 3]), x[:2] + 1) >= 1
    found = torch.compile(lambda x, s: x * s, fullgraph=True)(x.to("tb"), torch.tensor(1.5))
    torch.testing.assert_close(found.cpu(), x * 1.5)
    # a write to an argument
    written, plain = x.to("tb"), x.clone()
    torch.compile(lambda x: x.mul_(2).add_(1), fullgraph=True)(written)
    torch.testing.assert_close(written.cpu(), plain * 2 + 1)
    print("all")
"""


def test_chains_of_operators_are_one_kernel(run_on_device: Run) -> None:
    assert run_on_device(comparing(FUSED)).stdout == "all\n"


def test_sizes_that_change_compile_once(run_on_device: Run) -> None:
    code = """
        compiled = torch.compile(lambda x, y: ((x * y).softmax(-1), (x[1:] + 1).sum(0)), dynamic=True, fullgraph=True)
        for rows, columns in ((3, 5), (7, 100), (64, 300)):
            x, y = torch.randn(rows, columns), torch.randn(columns)
            found = moved(compiled(x.to("tb"), y.to("tb")), "cpu")
            torch.testing.assert_close(found, ((x * y).softmax(-1), (x[1:] + 1).sum(0)), rtol=1e-4, atol=1e-5)
        print(len(tb_compile.graphs()))
    """
    assert run_on_device(comparing(code)).stdout == "1\n"


TRAINING = """
    import torch, tb_compile
    from examples.demo.comparison import losses
    from examples.demo.corpus import read_corpus
    from examples.demo.settings import ModelSettings, TrainingSettings
    from examples.demo.training import Trainer

    settings = TrainingSettings(steps=20, batch=4, warm_up=2)
    model = ModelSettings(width=32, heads=2, blocks=2, context=16, dropout=0.0)
    plain, compiled = (
        losses(Trainer(torch.device("tb"), read_corpus(), model, settings, wrap), 20)
        for wrap in (lambda model: model, lambda model: torch.compile(model, fullgraph=True))
    )
    assert max(abs(a - b) for a, b in zip(plain, compiled, strict=True)) <= 1e-4, (plain, compiled)
    assert compiled[-1] < compiled[0] - 0.5
    forward, backward = tb_compile.graphs()
    assert forward.kernels >= 6 and backward.kernels >= 6, (str(forward), str(backward))
    print("trained")
"""


def test_the_demos_transformer_trains_as_plainly(run_on_device: Run) -> None:
    assert run_on_device(TRAINING).stdout == "trained\n"


def test_dropout_draws_new_numbers_and_repeats_with_the_seed(run_on_device: Run) -> None:
    code = """
        import torch
        x = torch.ones(4000, device="tb", requires_grad=True)
        call = torch.compile(lambda x: torch.nn.functional.dropout(x, 0.25) * 1.0, fullgraph=True)
        torch.manual_seed(3)
        kept, other = call(x), call(x)
        torch.manual_seed(3)
        again, kept = call(x).cpu(), kept.cpu()
        assert torch.equal(kept, again) and not torch.equal(kept, other.cpu())
        dropped = int((kept == 0).sum())
        assert 900 < dropped < 1100 and int((kept == 1 / 0.75).sum()) == 4000 - dropped
        other.sum().backward()
        assert torch.equal(x.grad.cpu(), other.detach().cpu())
        normal = torch.compile(lambda: torch.randn(20_000, device="tb") + 0, fullgraph=True)()
        assert abs(normal.mean().item()) < 0.03 and abs(normal.std().item() - 1) < 0.03
        whole = torch.compile(lambda: torch.randint(-3, 4, (7000,), device="tb") + 0, fullgraph=True)().cpu()
        assert all(800 < int((whole == i).sum()) < 1200 for i in range(-3, 4))
    """
    run_on_device(code)


def test_a_group_with_too_many_tensors_is_split(run_on_device: Run) -> None:
    code = """
        xs = [torch.randn(6) for _ in range(200)]
        def total(*xs):
            out = xs[0]
            for i, x in enumerate(xs[1:]):
                out = out * (0.5 + i / 1000) + x
            return out
        print(compare(total, *xs))
    """
    assert 3 <= int(run_on_device(comparing(code)).stdout) < 50


def test_an_index_out_of_range_is_an_index_error_and_the_process_lives(run_on_device: Run) -> None:
    code = """
        import torch
        call = torch.compile(lambda weight, i: torch.nn.functional.embedding(i, weight) * 2, fullgraph=True)
        weight = torch.randn(5, 3, device="tb")
        good, bad = torch.tensor([1, 4], device="tb"), torch.tensor([1, 9], device="tb")
        call(weight, good)
        try:
            call(weight, bad).cpu()
        except IndexError as error:
            assert "index" in str(error) and "out of range" in str(error)  # a driver may lose the kernel's own text
            torch.testing.assert_close(call(weight, good).cpu(), weight.cpu()[[1, 4]] * 2)
            print("IndexError")
    """
    assert run_on_device(code).stdout == "IndexError\n"


def test_an_error_of_the_compiler_names_the_kernel(run_on_device: Run, tmp_path: pathlib.Path) -> None:
    compiler = tmp_path / "compiler"
    compiler.write_text(
        '#!/bin/sh\nfor source; do :; done\nif grep -q GeneratedArguments "$source"; then\n'
        'echo "fused: the moon is in the way" >&2\nexit 3\nfi\nexec c++ "$@"\n'
    )
    compiler.chmod(0o755)
    code = "import torch\nx = torch.ones(3, device='tb')\ntorch.compile(lambda x: x.sin() + 1)(x)"
    text = run_on_device(code, check=False, TB_HOST_COMPILER=str(compiler)).stderr
    assert "compiling the device kernel fused_add_sin failed with status 3" in text
    assert "the moon is in the way" in text


def test_without_a_compiler_graphs_become_programs(run_on_device: Run) -> None:
    code = """
        import logging, torch, tb_compile
        logging.getLogger("tb_compile").addHandler(handler := logging.StreamHandler())
        logging.getLogger("tb_compile").setLevel(logging.INFO)
        x = torch.arange(1.0, 4.0).to("tb").requires_grad_()
        for options in ({}, {"backend": "tb_inductor"}, {"mode": "reduce-overhead"}):
            torch.compiler.reset()
            torch.compile(lambda x: (x.sin() * 2).sum(), fullgraph=True, **options)(x).backward()
        torch.testing.assert_close(x.grad.cpu(), 6 * torch.arange(1.0, 4.0).cos())
        print(*tb_compile.counts())
    """
    done = run_on_device(code, TB_SIM_ARCHITECTURE="mychip", TB_FALLBACK="allow")
    assert done.stdout == "6 0 0 0 0 0\n"
    said = "torch.compile runs the graphs of tb as programs, since no kernel can be generated: no compiler of tb-ops'"
    assert done.stderr.count(said) == 1
    assert "backend=" not in done.stderr


def test_a_second_process_compiles_nothing(run_on_device: Run, tmp_path: pathlib.Path) -> None:
    code = """
        compare(lambda x: (x * 7).cos().softmax(-1), torch.randn(9, 200))
        from torch._dynamo.utils import counters
        print(counters["inductor"]["fxgraph_cache_hit"], tb_ops.kernel_images().compiled > 0)
    """
    first, second = (run_on_device(comparing(code), TB_KERNEL_CACHE=str(tmp_path)).stdout for _ in range(2))
    assert (first, second) == ("0 True\n", "1 False\n")


def test_the_kernels_of_another_driver_are_not_taken_from_inductors_cache(run_on_device: Run) -> None:
    code = """
        compare(lambda x: (x * 7).cos(), torch.randn(9))
        from torch._dynamo.utils import counters
        print(counters["inductor"]["fxgraph_cache_hit"])
    """
    drivers = [("sim", "0"), ("cpu", "0"), ("sim", "1")]
    assert [run_on_device(comparing(code), TB_DRIVER=driver).stdout.strip() for driver, _ in drivers] == ["0", "0", "1"]
    assert run_on_device(comparing(code), TB_SIM_LACKS="float64").stdout.strip() == "0"


def test_each_device_runs_its_own_kernels(run_on_device: Run) -> None:
    code = """
        for device in ("tb:1", "tb:0"):
            x = torch.randn(4, 90, device=device)
            found = torch.compile(lambda x: (x.sin() * 2).softmax(-1), fullgraph=True)(x)
            assert found.device == x.device
            torch.testing.assert_close(found.cpu(), (x.cpu().sin() * 2).softmax(-1))
        print("both")
    """
    assert run_on_device(comparing(code), TB_SIM_DEVICES="2").stdout == "both\n"


def test_device_graphs_and_captured_steps_hold_generated_kernels(run_on_device: Run) -> None:
    code = """
        x = torch.randn(5, 200, device="tb")
        call = torch.compile(lambda x: x.softmax(-1) * 2, fullgraph=True, mode="reduce-overhead")
        for i in range(6):
            torch.testing.assert_close(call(x + i).cpu(), (x + i).cpu().softmax(-1) * 2)
        [graph] = tb_compile.graphs()
        fused = torch.compile(lambda x: (x.sin() * 2 + 1).relu(), fullgraph=True)
        step = tb_compile.step(lambda x: fused(x) @ x.t())
        for i in range(6):
            given = x.cpu() * i
            torch.testing.assert_close(step(x * i).cpu(), (given.sin() * 2 + 1).relu() @ given.t())
        print(graph.graphed.launches, step.replays, graph.graphed.refusal, step.refusal)
    """
    variables = {**simulated.variables("cuda"), "TB_CUDA_OPERATORS": "own"}  # a driver with device graphs
    launches, replays = map(int, run_on_device(comparing(code), **variables).stdout.split())
    assert launches > 0
    assert replays > 0


# ---- devices that lack something -------------------------------------------------------------------------------------

LACKING = """
    from tb_compile.inductor import code as generated_code
    texts, stock = [], generated_code.generated
    def recorded(device, function, arguments, types, synchronizing, source):
        texts.append([function, arguments, synchronizing, source])
        return stock(device, function, arguments, types, synchronizing, source)
    generated_code.generated = recorded
    x = torch.randn(20, 300)
    assert compare(lambda x: functional.layer_norm(x, (300,)) * 1.1 + x.asinh().hypot(x), x) >= 1
    assert compare(lambda x: (x.softmax(-1), x.var(), x.argmax(1), x.mean(0)), x, tolerance=1e-4) >= 1
    assert compare(lambda x, s: (x * s).round() * 0.3 + s, x, 2.5, dynamic=True, tolerance=1e-4) >= 1
    assert compare(lambda x: (x.half() * 3).sigmoid().sum(1), x, tolerance=1e-2) == 1
    resized = lambda x: functional.interpolate(x[None, None], size=(31, 77), mode="bilinear")
    assert compare(resized, x, dynamic=True) >= 1
    torch.compile(lambda x: functional.dropout(x, 0.5) + torch.randn_like(x))(x.to("tb"))
    found = torch.compile(lambda x, s: x * s, fullgraph=True)(x.to("tb"), torch.tensor(1.5, dtype=torch.float64))
    torch.testing.assert_close(found.cpu(), x * 1.5)
    print(json.dumps(texts))
"""


def test_devices_without_float64_get_kernels_without_it(run_on_device: Run, tmp_path: pathlib.Path) -> None:
    lacking = {"TB_SIM_LACKS": "float64,fma", "TB_SIM_MAX_ARGUMENT_SIZE": "1024", "TB_SIM_NAMED_POINTERS": "1"}
    texts = json.loads(run_on_device(comparing(LACKING), **lacking).stdout)
    assert len(texts) >= 7
    (tmp_path / "shim.cuh").write_text('#include "shim_host.cuh"\n')
    for function, arguments, synchronizing, text in texts:
        entry = f"TB_ENTRY(entry, ({function}), {arguments}, 256, {str(synchronizing).lower()})\n"
        (tmp_path / "kernel.cpp").write_text(f"{text}using namespace tb::kernels;\n{entry}")
        command = [shutil.which("c++") or "c++", "-std=c++20", "-fPIC", "-shared", "-DTB_NO_FLOAT64"]
        command += ["-Werror=double-promotion", *(f"-I{each}" for each in (tmp_path, HEADERS, HEADERS / "include"))]
        command += ["-o", os.devnull, str(tmp_path / "kernel.cpp")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[:3000] + text


def test_float64_on_a_device_without_it_stays_with_the_operators(run_on_device: Run) -> None:
    code = """
        x = torch.arange(6, dtype=torch.float64)
        print(compare(lambda x: (x * 2).sum(), x), len(torch.tb.fallbacks()) > 0)
    """
    assert run_on_device(comparing(code), TB_SIM_LACKS="float64", TB_FALLBACK="allow").stdout == "0 True\n"
