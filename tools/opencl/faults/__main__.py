"""Builds and runs the programs of this folder: python -m opencl.faults RUNTIME FOLDER.

RUNTIME is "intel" or "pocl", whose variables are set; FOLDER is where the programs are built. The status is 1 if a
fault of the list is not shown any more, or another one is: then what avoids it, and the table of
packages/tb-opencl/README.md, are to be changed.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from opencl import runtimes

HERE = Path(__file__).parent
# The faults that the implementations are known for: Intel's of 2026, and pocl 3.1.
KNOWN = {
    "barrier": {"pocl"},
    "local_variable": {"pocl"},
    "event_wait": {"intel"},
}
SOUND, FAULTY = 0, 1  # as opencl.h has them


def built(name: str, folder: Path) -> Path:
    """The program, which links OpenCL's loader."""
    loader = "-l:libOpenCL.so.1" if runtimes.system_loader() else str(Path(sys.prefix) / "lib" / "libOpenCL.so.1")
    command = ["cc", "-std=c11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", str(HERE / f"{name}.c")]
    subprocess.run([*command, "-o", str(folder / name), loader, "-lpthread"], check=True)
    return folder / name


def image(runtime: str, folder: Path) -> Path:
    """The image of local_variable.ll: bitcode for pocl, SPIR-V for others. FileNotFoundError: LLVM 15 is missing."""
    bitcode, spirv = folder / "local_variable.bc", folder / "local_variable.spv"
    command = ["llvm-as-15", "--opaque-pointers=0", str(HERE / "local_variable.ll"), "-o", str(bitcode)]
    subprocess.run(command, check=True)
    if runtime == "pocl":
        return bitcode
    subprocess.run(["llvm-spirv-15", "--spirv-max-version=1.2", str(bitcode), "-o", str(spirv)], check=True)
    return spirv


def main() -> int:
    runtime, folder = sys.argv[1], Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    surprises = []
    for name, known in KNOWN.items():
        arguments = []
        if name == "local_variable":
            try:
                arguments = [str(image(runtime, folder))]
            except FileNotFoundError as error:
                print(f"{name} on {runtime}: not tried: {error.filename} is missing (apt-get install llvm-spirv-15)")
                surprises += [name] if runtime in known else []
                continue
        done = subprocess.run([built(name, folder), *arguments], capture_output=True, text=True, check=False)
        found = {SOUND: "sound", FAULTY: "faulty"}.get(done.returncode, "not tried")
        expected = "faulty" if runtime in known else "sound"
        note = "" if found == expected else f", and {expected} was expected"
        print(f"{name} on {runtime}: {found}{note}: {done.stdout.strip()}{done.stderr.strip()}", flush=True)
        surprises += [name] if note else []
    return 1 if surprises else 0


if __name__ == "__main__":
    sys.exit(main())
