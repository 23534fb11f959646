"""A vendor's own kernels for PyTorch's operators: where they are found, and which calls they take."""

from __future__ import annotations

import os
from typing import NamedTuple

from . import _core

ENTRY_POINT_GROUP = "tb.kernels"
IMAGES_GROUP = "tb.images"


class VendorKernel(NamedTuple):
    """An entry of a vendor's table (tb/kernels.h).

    Attributes:
        operation: the operator that it serves, by its overload with out=: "aten::gelu.out".
        source: the driver, or the path of the library.
        calls: the calls that it ran.
        left: the calls that it left to other kernels, by the reason.
        problem: why it serves nothing; "" if it serves its operator.
    """

    name: str
    operation: str
    source: str
    calls: int
    left: dict[str, int]
    problem: str


def vendor_kernels() -> list[VendorKernel]:
    """Every entry of the driver's table and of the libraries beside it. Empty before the first use of the device."""
    return [VendorKernel(*row) for row in _core.vendor_kernels()]


def add_libraries() -> None:
    """Names what the entry points of the groups tb.kernels (libraries) and tb.images (packs of images) give.

    Each is a function that returns a path.

    Raises:
        RuntimeError: an entry point gives no path.
    """
    from importlib.metadata import entry_points  # slow to import

    for group, add in ((ENTRY_POINT_GROUP, _core.add_kernel_library), (IMAGES_GROUP, _core.add_image_pack)):
        for point in sorted(entry_points(group=group), key=lambda point: point.name):
            try:
                path = str(os.fspath(point.load()()))
            except Exception as error:
                raise RuntimeError(
                    f"the entry point {point.name} ({point.value}) of {group} gave no path: "
                    f"{type(error).__name__}: {error}. Reinstall or remove the package that registers it"
                ) from error
            add(path)
