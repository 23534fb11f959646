"""Compiles what runs on NVIDIA's devices, without a GPU: nox -s check-nvrtc -- [ARCHITECTURE...].

tb-ops' kernels (core_set.txt) go through NVRTC, as on a device, and the contract's PTX through ptxas, for sm_80, sm_90
and sm_120 by default. NVRTC and ptxas are those of NVIDIA's wheels nvidia-cuda-nvrtc and nvidia-cuda-nvcc. The status
is 1 if anything does not compile, or if the CUDA driver's page has another figure than what was compiled.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import tempfile

from tb_ops.device_kernels import core_set
from tb_ops.device_kernels.pack import make_pack

ROOT = pathlib.Path(__file__).resolve().parents[2]
PTX = ROOT / "packages/tb-device/contract/kernels_cuda.ptx"
PAGE = ROOT / "packages/tb-device/drivers/cuda/README.md"
ARCHITECTURES = ["sm_80", "sm_90", "sm_120"]


def find(pattern: str) -> pathlib.Path:
    """A file of NVIDIA's wheels.

    Raises:
        FileNotFoundError: no installed wheel has it.
    """
    for folder in sys.path:
        if found := sorted(pathlib.Path(folder, "nvidia", "cu13").glob(pattern)):
            return found[0]
    raise FileNotFoundError(f"no installed wheel has {pattern}: pip install nvidia-cuda-nvrtc nvidia-cuda-nvcc")


def compile_kernels(architecture: str) -> dict[str, str]:
    """The compiler's text for each kernel that does not compile."""
    with tempfile.TemporaryDirectory() as folder:
        size, failures = make_pack(folder, "nvrtc", architecture, "", core_set())
    print(f"{architecture}: {len(core_set()) - len(failures)} kernels compiled, {size / 1e6:.1f} MB of images")
    return {kernel.function: text for kernel, text in failures.items()}


def assemble(architecture: str) -> str:
    """What ptxas says to the contract's PTX if it refuses it; "" if it takes it."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as out:
        command = [str(find("bin/ptxas")), f"-arch={architecture}", "-o", out.name, str(PTX)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0 and pathlib.Path(out.name).stat().st_size == 0:
            return "ptxas gave no image"
        return "" if done.returncode == 0 else done.stdout + done.stderr


def main() -> int:
    """Returns 1 if something does not compile."""
    os.environ["TB_NVRTC"] = str(find("lib/libnvrtc.so.*"))
    architectures = sys.argv[1:] or ARCHITECTURES
    wrong = 0
    for architecture in architectures:
        for text in [*compile_kernels(architecture).values(), *filter(None, [assemble(architecture)])]:
            print(text)
            wrong += 1
    claim = f"the {len(core_set())} kernels of tb-ops' core set"
    if claim not in PAGE.read_text():
        print(f"{PAGE.relative_to(ROOT)} does not say: {claim}")
        wrong += 1
    return 1 if wrong or not core_set() else 0


if __name__ == "__main__":
    sys.exit(main())
