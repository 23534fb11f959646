"""The core set: the sources of tb-ops' device kernels, and the list of those that a pack of images has."""

from __future__ import annotations

import pathlib
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
    rows = [line.split("|") for line in CORE_SET.read_text().splitlines() if not line.startswith("#")]
    return [Kernel(header, function, struct, int(n), s == "1") for header, function, struct, n, s in rows]


def row(kernel: Kernel) -> str:
    """The kernel's row of core_set.txt."""
    return "|".join([*kernel[:3], str(kernel.threads), "1" if kernel.synchronizing else "0"])
