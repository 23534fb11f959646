"""Where the kernels that Inductor generates for tb run: on the host, on the device, or nowhere."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Literal

import tb_ops

from . import config as _config

config: Any = _config  # the module replaces itself by one of settings


@dataclass(frozen=True)
class Target:
    """Where kernels run.

    place: "host" means C++ of the host, where streams run it; "device" the language of tb-ops' device kernels.
    lacks: what the devices' kernels do without (`tb_device_info.lacks`). reason: why kernels run nowhere.
    """

    place: Literal["host", "device", "nowhere"]
    lacks: tuple[str, ...] = ()
    reason: str = ""


@functools.cache
def target() -> Target:
    """The target of the open driver, which the first call opens. RuntimeError: no driver is usable."""
    tb_ops.initialize()
    if tb_ops.native():
        found = Target("host")
    elif reason := tb_ops._core.generated_kernels_obstacle():
        found = Target("nowhere", reason=reason)
    else:
        found = Target("device", lacks=tuple(tb_ops._core.lacks(0)))
    config.target = " ".join([found.place, *found.lacks])  # a part of the keys of Inductor's cache
    return found
