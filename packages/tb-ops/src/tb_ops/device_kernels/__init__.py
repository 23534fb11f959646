"""The core set: the sources of tb-ops' device kernels, and the list of those that a pack of images has."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import NamedTuple

CORE_SET = pathlib.Path(__file__).with_name("core_set.txt")


class Kernel(NamedTuple):
    """A kernel in source, as tb-ops asks for it.

    Attributes:
        header: the file of this folder that has the function.
        function: the function with its template arguments, "pointwise<Add, float>".
        arguments: the struct of arguments.h that it takes.
        threads: the most that a block may have.
        synchronizing: whether it calls __syncthreads().
    """

    header: str
    function: str
    arguments: str
    threads: int
    synchronizing: bool


def core_set() -> list[Kernel]:
    """The kernels of core_set.txt, whose rows are their fields with "|" between them.

    Raises:
        FileNotFoundError: the installation is incomplete.
    """
    return read_kernels(CORE_SET)


def read_kernels(file: pathlib.Path) -> list[Kernel]:
    """The kernels of a file with a row (`row`) in each line; lines that begin with # are left out.

    Raises:
        OSError: the file cannot be read.
        ValueError: a line is no row.
    """
    return [kernel_of(line) for line in file.read_text().splitlines() if not line.startswith("#")]


def vector_kernels(kernels: Sequence[Kernel]) -> list[Kernel]:
    """What takes the place of kernels on devices whose threads compute with vectors (`tb_device_info.vector_size`).

    Elementwise operators of dense operands, and matrix products, have kernels of their own there.
    """
    dense = [
        kernel._replace(function=kernel.function.replace("pointwise<", "pointwise_dense<", 1))
        for kernel in kernels
        if kernel.function.startswith("pointwise<")
    ]
    products = [
        kernel._replace(
            header="matmul_vectors.cuh",
            function=kernel.function.replace("matmul<", "matmul_vectors<"),
            threads=1,
            synchronizing=False,
        )
        for kernel in kernels
        if kernel.function.startswith("matmul<")
    ]
    return dense + products


def used_kernels() -> list[Kernel]:
    """The kernels that this process has looked for so far, in the order of their rows."""
    from tb_ops import _core

    return sorted(Kernel(*kernel) for kernel in _core.used_kernels())


def kernel_of(row: str) -> Kernel:
    """The kernel of a row of core_set.txt."""
    header, function, struct, threads, synchronizing = row.split("|")
    return Kernel(header, function, struct, int(threads), synchronizing == "1")


def row(kernel: Kernel) -> str:
    """The kernel's row of core_set.txt."""
    return "|".join([*kernel[:3], str(kernel.threads), "1" if kernel.synchronizing else "0"])
