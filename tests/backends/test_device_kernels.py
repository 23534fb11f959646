"""tb-ops' own kernels on devices with loadable modules give stock CPU's results without a fallback."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping

import pytest
from backends.case_report import case_report
from conftest import ROOT, RunPython
from sim_vendor.simulated import variables
from tb_ops.device_kernels import core_set, row
from tb_ops.device_kernels.cases import GROUPS


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A cache that is empty at first and shared by these tests, so each kernel is compiled once."""
    return tmp_path_factory.mktemp("kernels")


def environment(cache: pathlib.Path, **more: str) -> dict[str, str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith("TB_")}
    return {**clean, "TB_DRIVER": "sim", "TB_KERNEL_CACHE": str(cache), "TB_FALLBACK": "allow", **more}


@pytest.mark.parametrize("group", GROUPS)
def test_kernels_give_the_results_of_the_cpu_without_a_fallback(group: str, cache: pathlib.Path) -> None:
    env = {"TB_DRIVER": "sim", "TB_KERNEL_CACHE": str(cache), "TB_FALLBACK": "allow"}
    report = case_report(["-m", "tb_ops.device_kernels.check", group, "--json"], env)
    assert report["driver"] == "sim"
    assert report["cases"] >= 15
    assert report["wrong"] == {}
    assert report["status"] == 0
    assert set(report["kernels"]) <= {row(kernel) for kernel in core_set()}, "python tools/checks/core_set.py adds rows"


SMALL = """
    import torch, tb_ops
    x = torch.ones(3, device="tb")
    assert (x + 1).cpu().tolist() == [2.0, 2.0, 2.0]
    images = tb_ops.kernel_images()
    print(images.compiled, images.found)
"""


def counts(output: str) -> tuple[int, int]:
    compiled, found = output.split()
    return int(compiled), int(found)


def run_small(run_python: RunPython, cache: pathlib.Path) -> tuple[int, int]:
    return counts(run_python(SMALL, env={"TB_DRIVER": "sim", "TB_KERNEL_CACHE": str(cache)}).stdout)


def test_a_second_process_compiles_nothing(run_python: RunPython, tmp_path: pathlib.Path) -> None:
    compiled, found = run_small(run_python, tmp_path)
    assert compiled > 0
    assert found == 0
    assert run_small(run_python, tmp_path) == (0, compiled)


@pytest.mark.parametrize("damage", ["cut", "changed", "empty"])
def test_a_damaged_image_is_compiled_again(run_python: RunPython, tmp_path: pathlib.Path, damage: str) -> None:
    compiled, _ = run_small(run_python, tmp_path)
    images = list(tmp_path.glob("*.image"))
    assert len(images) == compiled
    for path in images:
        content = path.read_bytes()
        middle = len(content) // 2
        path.write_bytes(
            {
                "cut": content[:middle],
                "changed": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
                "empty": b"",
            }[damage]
        )
    assert run_small(run_python, tmp_path) == (compiled, 0)
    assert run_small(run_python, tmp_path) == (0, compiled)


def test_processes_that_start_together_compile_each_image_once(tmp_path: pathlib.Path) -> None:
    code = "\n".join(line.strip() for line in SMALL.splitlines())
    started = [
        subprocess.Popen([sys.executable, "-c", code], env=environment(tmp_path), stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    each = [counts(process.communicate(timeout=200)[0]) for process in started]
    assert sum(compiled for compiled, _ in each) == len(list(tmp_path.glob("*.image")))
    assert not list(tmp_path.glob("*.image.*[0-9]")), "an unfinished file was left"


def test_without_a_cache_each_process_compiles(run_python: RunPython) -> None:
    env = {"TB_DRIVER": "sim", "TB_KERNEL_CACHE": ""}
    compiled, found = counts(run_python(SMALL, env=env).stdout)
    assert compiled > 0
    assert found == 0


def failing(run_python: RunPython, env: Mapping[str, str]) -> str:
    code = "import torch\ntorch.ones(3, device='tb')"
    done = run_python(code, env={"TB_DRIVER": "sim", "TB_KERNEL_CACHE": "", **env}, check=False)
    assert done.returncode != 0
    return done.stderr


def test_a_missing_compiler_is_reported_with_the_remedy(run_python: RunPython, tmp_path: pathlib.Path) -> None:
    assert "Install one" in failing(run_python, {"PATH": str(tmp_path)})
    text = failing(run_python, {"TB_HOST_COMPILER": "no-such-compiler -O2"})
    assert "compiled by TB_HOST_COMPILER=no-such-compiler -O2, but no-such-compiler is no program" in text
    assert "neither nvrtc nor host" in failing(run_python, {"TB_KERNEL_COMPILER": "nvcc"})
    assert "no usable libnvrtc" in failing(run_python, {"TB_KERNEL_COMPILER": "nvrtc", "TB_NVRTC": "no-such.so"})


def test_random_numbers_in_a_graph_are_refused_where_no_closure_notes_their_start(run_python: RunPython) -> None:
    code = """
        import torch
        x = torch.empty(8, device="tb")
        x.uniform_()
        with torch.tb.graph(torch.tb.Graph()):
            x.uniform_()
    """
    done = run_python(code, {**variables("cuda"), "TB_CUDA_OPERATORS": "own"}, check=False)
    assert "random numbers cannot be part of a graph on this driver" in done.stderr
    assert "Draw them before the capture" in done.stderr


def test_the_compilers_message_is_in_the_error(run_python: RunPython, tmp_path: pathlib.Path) -> None:
    compiler = tmp_path / "compiler"
    compiler.write_text("#!/bin/sh\necho 'kernel.cpp:1: the moon is in the way' >&2\nexit 3\n")
    compiler.chmod(0o755)
    text = failing(run_python, {"TB_HOST_COMPILER": str(compiler)})
    assert "failed with status 3" in text
    assert "the moon is in the way" in text
    assert "the device kernel pointwise<Fill, float> failed" in text


def test_an_index_out_of_range_is_reported_at_the_synchronise(run_python: RunPython, cache: pathlib.Path) -> None:
    code = """
        import torch
        x, index = torch.ones(4, device="tb"), torch.tensor([1, 7], device="tb")
        picked = x.index_select(0, index)
        try:
            torch.tb.synchronize()
        except (RuntimeError, IndexError) as error:
            assert "index out of range" in str(error), error
        else:
            raise SystemExit("no error")
        assert (x + 1).sum().item() == 8  # the device is usable
    """
    run_python(code, env={"TB_DRIVER": "sim", "TB_KERNEL_CACHE": str(cache)})


BITS_OF_FLOATS = """
    import torch
    x = torch.ones(3)
    for function in (torch.bitwise_and, torch.bitwise_or, torch.bitwise_xor):
        for device in ("cpu", "tb"):
            try:
                function(x.to(device), x.to(device))
            except NotImplementedError as error:
                print(str(error).splitlines()[0])
    try:
        torch.bitwise_not(x.to("tb"))
    except NotImplementedError as error:
        print(str(error).splitlines()[0])
"""


def test_bits_of_floats_are_refused_as_on_the_cpu(run_python: RunPython, cache: pathlib.Path) -> None:
    lines = run_python(BITS_OF_FLOATS, env=environment(cache)).stdout.splitlines()
    assert len(lines) == 7
    assert lines[0:6:2] == lines[1:6:2]
    assert "bitwise_not" in lines[6]


RANDOM = """
    import hashlib, torch
    torch.manual_seed(5)
    def show(name, x):
        print(name, hashlib.sha256(x.cpu().contiguous().view(-1).view(torch.uint8).numpy().tobytes()).hexdigest())
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        show(f"uniform {dtype}", torch.empty(1001, dtype=dtype, device="tb").uniform_(-1.3, 2.7))
        show(f"exponential {dtype}", torch.empty(1001, dtype=dtype, device="tb").exponential_(1.7))
    for dtype in (torch.int64, torch.int32, torch.int16, torch.uint8, torch.bool):
        show(f"random_ {dtype}", torch.empty(1001, dtype=dtype, device="tb").random_())
    for dtype in (torch.int64, torch.int32, torch.float32, torch.float16):
        show(f"integers {dtype}", torch.empty(1001, dtype=dtype, device="tb").random_(-7, 93))
    show("wide", torch.empty(1001, dtype=torch.int64, device="tb").random_(-2**62 - 5, 2**62 + 2**61))
    show("whole", torch.empty(1001, dtype=torch.int64, device="tb").random_(-2**63, None))
    for dtype in (torch.float32, torch.bool, torch.int64):
        show(f"bernoulli {dtype}", torch.empty(1001, dtype=dtype, device="tb").bernoulli_(0.3))
    y = torch.nn.functional.dropout(torch.ones(7, 143, device="tb"), 0.2)
    show("dropout", y)
    show("state", torch.tb.get_rng_state())
    x = torch.empty(40000, device="tb").normal_(2, 3)
    assert abs(x.mean().item() - 2) < 0.06 and abs(x.std().item() - 3) < 0.06
    if torch.tb.get_device_properties().driver != "npu":  # whose library is not asked for std
        assert not torch.tb.fallbacks(), torch.tb.fallbacks()
"""


def driver_variables(driver: str, cache: pathlib.Path) -> dict[str, str]:
    own = variables(driver) if driver in ("cuda", "npu") else {"TB_DRIVER": driver}
    return {**own, "TB_KERNEL_CACHE": str(cache), "TB_FALLBACK": "allow"}


@pytest.mark.parametrize("driver", ["sim", "cuda", "npu"])
def test_the_same_seed_gives_the_bits_of_the_cpu_driver(
    driver: str, run_python: RunPython, cache: pathlib.Path
) -> None:
    here, cpu = (run_python(RANDOM, env=driver_variables(each, cache)).stdout for each in (driver, "cpu"))
    assert here.splitlines() == cpu.splitlines()


TRAINING = """
    import torch
    from examples.demo.comparison import losses, philox_masks
    from examples.demo.corpus import read_corpus
    from examples.demo.settings import ModelSettings, TrainingSettings
    from examples.demo.training import Trainer

    model = ModelSettings(width=32, heads=2, blocks=2, context=16)
    settings = TrainingSettings(steps=20, batch=4, warm_up=5)
    corpus = read_corpus()
    torch.manual_seed(settings.seed)
    first = losses(Trainer(torch.device("tb"), corpus, model, settings), 5)
    torch.manual_seed(settings.seed)
    masks = philox_masks(settings.seed)
    second = losses(Trainer(torch.device("cpu"), corpus, model, settings), 5, masks)
    print(first, second)
    assert all(abs(a - b) <= 1e-4 * b for a, b in zip(first, second, strict=True)), (first, second)
    assert first[-1] < first[0]
    assert not torch.tb.fallbacks(), torch.tb.fallbacks()
"""


@pytest.mark.parametrize("driver", ["sim", "cuda"])
def test_the_demo_trains_without_a_fallback_and_with_the_losses_of_the_cpu(
    driver: str, run_python: RunPython, cache: pathlib.Path
) -> None:
    tools = str(ROOT / "tools")
    run_python(TRAINING, env={**driver_variables(driver, cache), "PYTHONPATH": tools}, timeout=400)
