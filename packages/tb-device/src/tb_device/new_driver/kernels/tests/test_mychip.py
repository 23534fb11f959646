"""mychip keeps the contract, and computes what the CPU does. Build it, `pip install torch-backend`, and run pytest."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import tb_device

ROOT = pathlib.Path(__file__).parent.parent
LIBRARY = ROOT / "build" / "libmychip.so"


def run_python(*arguments: str) -> str:
    """The output of Python with mychip as the driver; a call without a kernel is an error."""
    env = {**os.environ, "TB_DRIVER": str(LIBRARY), "TB_FALLBACK": "error"}
    done = subprocess.run([sys.executable, *arguments], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_contract_holds() -> None:
    expect = ["--expect", str(ROOT / "tb-contract.toml")]
    run_python("-m", "tb_device.cli", "contract", "--driver", str(LIBRARY), "--level", "3", *expect)


def test_the_host_cannot_touch_the_devices_memory() -> None:
    code = "import ctypes, tb_device; ctypes.string_at(tb_device.devices()[0].allocate(8).address, 8)"
    env = {**os.environ, "TB_DRIVER": str(LIBRARY)}
    assert subprocess.run([sys.executable, "-c", code], env=env, check=False).returncode == -11  # SIGSEGV


def test_a_kernel_that_leaves_its_memory_loses_the_device_and_says_so(tmp_path: pathlib.Path) -> None:
    source, image = tmp_path / "wild.cu", tmp_path / "wild.image"
    source.write_text("""
#include "mychip.cuh"
#include "tb/image_kernel.h"
__global__ void wild(tb_image_tensor) { *(volatile int *)8 = 1; }
KERNEL(wild, 1, false)
""")
    compiler = [str(ROOT / "build" / "mychip-cc"), "-I", tb_device.get_include()]
    subprocess.run([*compiler, "-o", str(image), str(source)], check=True)
    code = f"""
import torch, tb_ops
tb_ops.load_kernel({str(image)!r}, "wild")(torch.empty(1, device="tb"))
try:
    torch.accelerator.synchronize()
except RuntimeError as error:
    print(error)
"""
    assert "process has ended" in run_python("-c", code)


def test_the_own_kernels_compute_what_the_cpu_does() -> None:
    code = """
import torch, tb_ops
x = torch.randn(5, 300)
torch.testing.assert_close(torch.nn.functional.gelu(x.to("tb")).cpu(), torch.nn.functional.gelu(x))
assert {kernel.name: kernel.calls for kernel in tb_ops.vendor_kernels()} == {"mychip.gelu": 1}
"""
    run_python("-c", code)


def test_the_kernels_of_tb_ops_compute_what_the_cpu_does() -> None:
    assert " 0 wrong" in run_python("-m", "tb_ops.device_kernels.check", "--step", "40")
