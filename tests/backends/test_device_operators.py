"""Operators of a YAML whose kernels are of an image or of a table (device_operators.yaml), on every kind of driver."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import sysconfig
from collections.abc import Callable

import pytest
from conftest import ROOT, compile_c, write_metadata

HERE = pathlib.Path(__file__).parent
PRELUDE = """
import torch, tb_ops
torch.manual_seed(0)
x = torch.randn(3, 5)

def raised(f):
    try:
        f()
    except Exception as error:
        return type(error).__name__ + ": " + str(error).splitlines()[0]

def calls():
    return {kernel.name: kernel.calls for kernel in tb_ops.vendor_kernels() if kernel.calls}

def left(name):
    return [kernel.left for kernel in tb_ops.vendor_kernels() if kernel.name == name]
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with the extension module, the image, and the library of a table with its entry point."""
    folder = tmp_path_factory.mktemp("devops")
    codegen = [sys.executable, "-m", "tb_ops.codegen"]
    subprocess.run([*codegen, "custom", str(HERE / "device_operators.yaml"), "--output", str(folder)], check=True)

    def printed(what: str) -> list[str]:
        return subprocess.run([*codegen, what], check=True, capture_output=True, text=True).stdout.split()

    include = ["-isystem" + path for path in [*printed("include"), sysconfig.get_path("include")]]
    flags = ["-std=c++20", "-O0", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-DPy_LIMITED_API=0x030b0000"]
    source, module = folder / "device_operators.cpp", folder / "_operators.so"
    compiler = os.environ.get("CXX", "c++").split()
    subprocess.run([*compiler, *flags, *include, f"-I{HERE}", "-o", module, source, *printed("link")], check=True)
    for name, library in (("image_kernels.c", "image_kernels.so"), ("device_operators.c", "table.so")):
        compile_c(HERE / name, folder / library)
    (folder / "devops_table.py").write_text(f"def library():\n    return {str(folder / 'table.so')!r}\n")
    write_metadata(folder, "devops", "[tb.kernels]\ndevops = devops_table:library\n")
    return folder


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run_with(package: pathlib.Path, run_python: Run) -> Run:
    def run(code: str, driver: str) -> subprocess.CompletedProcess[str]:
        return run_python(PRELUDE + code, env={"PYTHONPATH": str(package), "TB_DRIVER": driver})

    return run


drivers = pytest.mark.parametrize("driver", ["sim", "cpu"])


@drivers
def test_an_image_computes_the_operator_and_its_gradient(run_with: Run, driver: str) -> None:
    code = """
import _operators
scale = torch.ops.devops.scale
y = x.to("tb").requires_grad_()
bias = torch.randn(5)
result = scale(y, 2.5, bias.to("tb"), 3)
torch.testing.assert_close(result.detach().cpu(), (x * 2.5 + bias) * 3)
result.sum().backward()
torch.testing.assert_close(y.grad.cpu(), torch.full_like(x, 7.5))
out = torch.empty_like(y.detach())
assert torch.ops.devops.scale.out(y.detach(), 2.0, result=out) is out
torch.testing.assert_close(out.cpu(), x * 2)
assert scale(y[:0].detach(), 2.0).shape == (0, 5)
assert torch.equal(torch.ops.devops.described(x.to("tb")).cpu(), x + 2000 + 300 + 8)
assert torch.equal(torch.ops.devops.described(x.to("tb").t()).cpu(), x.t() * 2)  # by the host: its output is not dense
assert calls() == {"scale": 3, "described": 1}, calls()
assert left("described") == [{"output: layout strided": 1}], left("described")
assert {row.operator: row.calls for row in tb_ops.fallbacks()} == {"devops::described": 1}, tb_ops.fallbacks()
torch.library.opcheck(scale.default, (x.to("tb"), 2.0), test_utils=("test_schema", "test_faketensor"))
found = raised(lambda: scale(y.detach()[0, 0], 1.0))
assert found == "RuntimeError: devops::scale: x must have a dimension", found
"""
    run_with(code, driver)


def test_calls_that_no_kernel_takes_say_so(run_with: Run) -> None:
    code = """
import _operators
print(raised(lambda: torch.ops.devops.scale(x.to("tb").double(), 2.0)))
print(raised(lambda: torch.ops.devops.scale(x, 2.0)))
assert left("scale") == [{"output: dtype Double": 1}], left("scale")
assert torch.equal(torch.ops.devops.described(x), x * 2)
"""
    lines = run_with(code, "sim").stdout.splitlines()
    text = (
        "NotImplementedError: devops::scale runs on tb devices by the kernel scale of the image image_kernels.so, and"
    )
    assert [line.startswith(text) for line in lines] == [True, True], lines


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_entry_of_a_table_computes_the_operator(run_with: Run, when: str) -> None:
    code = f"""
if {when == "after"}:
    torch.ones(1, device="tb")
    assert [kernel.problem for kernel in tb_ops.vendor_kernels()] == ["there is no such operator"]
import _operators
out, norm = torch.ops.devops.mix.rows(x.to("tb"), weight=0.25)
torch.testing.assert_close(out.cpu(), x * 0.25)
torch.testing.assert_close(norm.cpu(), x.sum(1))
assert calls() == {{"devops.mix": 1}} and not tb_ops.fallbacks()
assert not [kernel for kernel in tb_ops.vendor_kernels() if kernel.problem]
"""
    done = run_with(code, "cpu")
    assert "serves nothing" not in done.stderr


def test_a_name_of_another_operations_entry_is_refused(run_with: Run) -> None:
    code = """
declare = lambda: tb_ops._core.serve_defined("devops::scale.result_out", "devops.mix")
declare()
print(raised(lambda: torch.ones(1, device="tb")))
"""
    text = "The declaration of devops::scale.result_out names the entry devops.mix of "
    assert text in run_with(code, "cpu").stdout
    assert "None" in run_with(code, "sim").stdout  # the table is for the cpu driver
    opened = code.replace("declare()", 'torch.ones(1, device="tb")\nprint(raised(declare))', 1)
    refusal, use = run_with(opened, "cpu").stdout.splitlines()
    assert text in refusal
    assert "which serves devops::mix.rows_out. Name an entry whose operation is devops::scale.result_out" in refusal
    assert use == "None"


def test_without_the_table_the_host_computes_it_counted(run_with: Run) -> None:
    code = """
import _operators
out, norm = torch.ops.devops.mix.rows(x.to("tb"), weight=0.25)
torch.testing.assert_close(out.cpu(), x * 0.25)
assert norm.tolist() == [1] * 3
assert [row.operator for row in tb_ops.fallbacks()] == ["devops::mix.rows"]
"""
    run_with(code, "sim")


def test_on_a_driver_without_modules_the_host_computes_an_images_operator(
    run_with: Run, compile_driver: Callable[[pathlib.Path], pathlib.Path]
) -> None:
    template = ROOT / "packages" / "tb-device" / "src" / "tb_device" / "new_driver" / "c" / "mychip.c"
    code = """
import _operators
assert torch.equal(torch.ops.devops.described(x.to("tb")).cpu(), x * 2)
assert left("described") == [{"its plan: the driver loads no images": 1}], left("described")
"""
    run_with(code, str(compile_driver(template)))


def test_a_missing_image_is_named_at_import(run_python: Run, package: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "_operators.so").write_bytes((package / "_operators.so").read_bytes())
    done = run_python("import torch, _operators", env={"PYTHONPATH": str(tmp_path), "TB_DRIVER": "cpu"}, check=False)
    assert done.returncode == 1
    assert "FileNotFoundError" in done.stderr
    assert str(tmp_path / "image_kernels.so") in done.stderr
