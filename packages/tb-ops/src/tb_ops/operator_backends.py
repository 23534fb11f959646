"""The sets of operators beside those of backends.cpp: tb-ops' own for some vendors, and those of other packages."""

from __future__ import annotations

from typing import NamedTuple

from . import _core

ENTRY_POINT_GROUP = "tb.operator_backends"


class OperatorBackend(NamedTuple):
    """A set of operators, and the drivers that it serves. Several sets may serve one driver."""

    name: str
    serves: bool
    """Whether it serves the open driver."""
    description: str
    """What its operators are."""
    rule: str
    """Which drivers it serves."""
    source: str
    """Where it is from: "tb-ops", or another package and its function."""


def add_backends() -> None:
    """Adds tb-ops' own sets, then those of the entry points of the group tb.operator_backends, by name.

    An entry point is a function that returns a capsule (tb/operator_backend.h).

    Raises:
        RuntimeError: an entry point gives no capsule, or its table does not fit.
    """
    from importlib.metadata import entry_points  # slow to import

    found = _core.own_added_backends()
    for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name):
        try:
            capsule = point.load()()
        except Exception as error:
            raise RuntimeError(
                f"the entry point {point.name} ({point.value}) of {ENTRY_POINT_GROUP} gave no operator backend: "
                f"{type(error).__name__}: {error}. Reinstall or remove the package that registers it"
            ) from error
        package = f"{point.dist.name} {point.dist.version}, " if point.dist else ""
        found.append((capsule, f"{package}{point.value}"))
    _core.set_added_backends(found)
