"""Makes a pack of images, with which a device's users need no compiler: python -m tb_ops.device_kernels.pack OUT.

A pack is a folder with compiled images of tb-ops' kernels (the core set). tb-ops reads it before it runs a compiler. A
driver names it in its table (tb/kernels.h), a wheel beside a driver by an entry point of the group tb.images (a
function that returns the folder), a user by TB_KERNEL_IMAGES.

Without --compiler, the compiler of the open driver (TB_DRIVER) makes images for its first device. With --kernels, the
pack has the kernels that a file names instead, such as those that a program used: tb_ops.device_kernels.used_kernels().
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
from concurrent.futures import ThreadPoolExecutor

import tb_device

from tb_ops import _core, initialize
from tb_ops.device_kernels import CORE_SET, Kernel, read_kernels, vector_kernels

LACKS = ("float64", "atomic64", "float_atomics", "fma")
"""What a device's kernels may have to do without: TB_LACKS_* of tb/driver.h."""


def make_pack(
    folder: str,
    compiler: str | None,
    architecture: str | None,
    shim: str,
    kernels: list[Kernel],
    lacks: frozenset[str] = frozenset(),
    vectors: bool = False,
) -> tuple[int, dict[Kernel, str]]:
    """Compiles kernels into a folder. Returns the images' bytes, and the compiler's texts for the kernels that fail.

    Arguments:
        compiler: None for the open driver's, which also says the architecture, and more of what its device lacks.
        lacks: names of LACKS.
        vectors: also the kernels for devices whose threads compute with vectors. The open driver's device says it too.

    Raises:
        RuntimeError: there is no such compiler, or the folder has images that were compiled with another shim.
        ValueError: a compiler without an architecture.
    """
    if compiler is not None:
        if architecture is None:
            raise ValueError("--compiler needs --architecture, as the device's properties have it")
        chosen = _core.KernelCompiler.named(compiler, architecture, shim)
    else:
        initialize()
        architecture = architecture or _core.architecture(0)
        chosen = _core.KernelCompiler.of_device(0, architecture)
        properties = tb_device.get_device_properties(0)
        lacks |= frozenset(properties.lacks)
        vectors |= properties.vector_size > 0
    if vectors:
        kernels = [*kernels, *vector_kernels(kernels)]
    if "float64" in lacks:
        kernels = [kernel for kernel in kernels if "double" not in kernel.function]
    defines = _core.kernel_defines("float64" not in lacks, "fma" not in lacks)
    chosen.begin_pack(folder, architecture)
    failures: dict[Kernel, str] = {}

    def compile_one(kernel: Kernel) -> int:
        try:
            return chosen.compile_into(folder, architecture, kernel, defines)
        except RuntimeError as error:
            failures[kernel] = str(error)
            return 0

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        size = sum(pool.map(compile_one, kernels))
    return size, failures


def main() -> int:
    """Returns 1 if a kernel does not compile."""
    parser = argparse.ArgumentParser(
        prog="python -m tb_ops.device_kernels.pack",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", metavar="OUT")
    parser.add_argument("--compiler", help="a command that gets `-o IMAGE SOURCE`; or nvrtc, or host")
    parser.add_argument("--architecture", help="of the devices that load the images; the open driver's by default")
    parser.add_argument("--shim", default="", help="a header's file, for a command (docs/writing-device-kernels.md)")
    parser.add_argument("--lacks", default="", metavar="NAMES", help=f"of {', '.join(LACKS)}: what the devices lack")
    parser.add_argument("--vectors", action="store_true", help="also kernels for devices whose threads have vectors")
    parser.add_argument("--only", default="", metavar="TEXT", help="kernels whose function has TEXT in it")
    parser.add_argument(
        "--kernels",
        type=pathlib.Path,
        default=CORE_SET,
        metavar="FILE",
        help="rows of kernels; by default the core set",
    )
    asked = parser.parse_args()
    try:
        kernels = [kernel for kernel in read_kernels(asked.kernels) if asked.only in kernel.function]
    except (OSError, ValueError) as error:
        parser.error(f"--kernels {asked.kernels} is no file with a row of core_set.txt in each line: {error}")
    lacks = frozenset(filter(None, asked.lacks.split(",")))
    if unknown := lacks.difference(LACKS):
        parser.error(f"--lacks knows {', '.join(LACKS)}, not {', '.join(sorted(unknown))}")
    try:
        size, failures = make_pack(
            asked.folder, asked.compiler, asked.architecture, asked.shim, kernels, lacks, asked.vectors
        )
    except (RuntimeError, ValueError) as error:
        parser.error(str(error))
    for text in failures.values():
        print(text, file=sys.stderr)
    print(f"{size / 1e6:.1f} MB of images in {asked.folder}; {len(failures)} kernels do not compile")
    return 1 if failures or not kernels else 0


if __name__ == "__main__":
    sys.exit(main())
