#!/usr/bin/env python3
"""Compiles CUDA C++ for the simulated libcuda: compile_image.py SOURCE -o IMAGE [compiler options].

The source is compiled for the host after kernel/sim_kernel.h, and a description of each `extern "C"` kernel is
appended, by which cuModuleGetFunction finds it. Only `extern __shared__ T name[]` is rewritten.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
KERNEL = re.compile(
    r"__global__\s+(?:__launch_bounds__\([^)]*\)\s+)?void\s+(?:__launch_bounds__\([^)]*\)\s+)?(\w+)\s*\("
)
DYNAMIC = re.compile(r"extern\s+__shared__\s+([\w:]+(?:\s+\w+)*?)\s+(\w+)\s*\[\s*\]\s*;")


def host_source(source: str, name: str) -> str:
    """The text for the host's compiler. name: the source's name in the compiler's messages."""
    body = DYNAMIC.sub(r"\1 *\2 = static_cast<\1 *>(simcuda_kernel::dynamic_shared());", source)
    lines = ['#include "sim_kernel.h"', f'#line 1 "{name}"', body]
    for kernel in dict.fromkeys(KERNEL.findall(source)):
        exported = f"simcuda_kernel_{kernel}"
        lines.append(f'extern "C" __attribute__((visibility("default"))) const tb_simcuda_kernel {exported};')
        lines.append(f"const tb_simcuda_kernel {exported} = simcuda_kernel::Kernel<&{kernel}>::description;")
    return "\n".join(lines) + "\n"


def compile_image(source: Path, image: Path, options: list[str]) -> None:
    """Writes the image. Raises CalledProcessError, after the compiler has printed what is wrong."""
    with tempfile.TemporaryDirectory() as scratch:
        host = Path(scratch) / f"{source.stem}.cpp"
        host.write_text(host_source(source.read_text(), str(source)))
        compiler = shlex.split(os.environ.get("CXX", "c++"))
        flags = ["-std=c++20", "-O2", "-shared", "-fPIC", "-I", str(HERE / "kernel"), *options]
        subprocess.run([*compiler, *flags, str(host), "-o", str(image)], check=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("-o", "--output", type=Path, required=True)
    chosen, options = parser.parse_known_args()
    try:
        compile_image(chosen.source, chosen.output, options)
    except subprocess.CalledProcessError as error:
        return int(error.returncode)
    return 0


if __name__ == "__main__":
    sys.exit(main())
