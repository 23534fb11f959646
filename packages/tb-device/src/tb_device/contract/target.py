"""What the kit is asked to test, and the facts that it has about its cases."""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from .. import _contract, _core, discovery
from ..exceptions import NotFoundError

# Starts a worker; with --child, the second process of a case.
WORKER = (sys.executable, "-m", "tb_device.contract.worker")


@dataclass(frozen=True)
class Target:
    """A driver and how to open it.

    driver: a name ("cpu", or an entry point's) or the path of a library, which has a slash.
    library: the driver's file, "" for a built-in one. image: a file with the kernels of tb/contract_kernels.h, or "".
    options: what tb_host.option answers. layers: put around the driver (TB_LAYERS). mutant: a name, or "".
    """

    driver: str
    library: str = ""
    image: str = ""
    mutant: str = ""
    layers: str = ""
    seed: int = 1
    options: dict[str, str] = field(default_factory=dict)

    def file(self) -> Path:
        """The file that holds the driver: the library, or for a built-in one tb_device's own extension."""
        return Path(self.library or _core.__file__)

    def words(self) -> dict[str, Any]:
        """For the worker, as JSON takes it."""
        return asdict(self)


def make_target(
    driver: str, *, image: str = "", mutant: str = "", layers: str = "", seed: int = 1, options: dict[str, str]
) -> Target:
    """Finds the driver's library and fills in the options of the built-in ones. Raises tb_device.NotFoundError."""
    library = discovery.locate(driver)
    if library and not Path(library).is_file():
        raise NotFoundError(f"there is no file {library}. Build the driver, or correct the path", driver=driver)
    if image and not Path(image).is_file():
        raise NotFoundError(f"there is no file {image} with kernels. Correct the image's path", driver=driver)
    name = library if discovery.is_path(driver) else driver
    whole = {**_contract.default_options(driver), "seed": str(seed), **options}
    return Target(name, library, image or _own_image(driver), mutant, layers, seed, whole)


def _own_image(driver: str) -> str:
    """The kernels for a built-in driver: compiled for the host, or as PTX."""
    name = "kernels_cuda.ptx" if driver == "cuda" else "kernels_host*.so"
    found = sorted(Path(__file__).parent.glob(name)) if driver in discovery.BUILTIN else []
    return str(found[0]) if found else ""


@dataclass(frozen=True)
class Case:
    """One case of the kit. seconds: its time limit. own_process: it gets a worker for itself."""

    id: str
    area: str
    level: int
    groups: tuple[str, ...]
    rules: tuple[str, ...]
    title: str
    seconds: float
    own_process: bool
    warn: bool
    slow: bool


@functools.cache
def all_cases() -> tuple[Case, ...]:
    """Every case in order."""
    return tuple(
        Case(**{**facts, "groups": tuple(facts["groups"]), "rules": tuple(facts["rules"])})
        for facts in _contract.cases()
    )


def select(level: int, only: Iterable[str] = (), slow: bool = False) -> list[Case]:
    """The cases up to a level. only: areas ("MEM") or ids ("MEM-04"). Raises ValueError for one that there is not."""
    wanted = set(only)
    unknown = wanted - {case.id for case in all_cases()} - {case.area for case in all_cases()}
    if unknown:
        areas = ", ".join(dict.fromkeys(case.area for case in all_cases()))
        raise ValueError(f"no area and no case is named {', '.join(sorted(unknown))}. The areas are {areas}")
    return [
        case
        for case in all_cases()
        if case.level <= level and (slow or not case.slow) and (not wanted or wanted & {case.id, case.area})
    ]


def kit_version() -> str:
    """The version of tb-device and a hash of the cases: two runs with the same text ran the same kit."""
    text = "\n".join(f"{case.id} {' '.join(case.rules)} {case.title}" for case in all_cases())
    return f"{_core.about()['version']}+{hashlib.sha256(text.encode()).hexdigest()[:12]}"
