"""PyTorch's lazy backend (`torch::lazy::BackendImplInterface`) on tb: device "lazy" records, `mark_step()` runs.

Legacy: PyTorch does not develop lazy tensors any more, and tracing takes longer than small steps do. New programs use
`torch.compile(backend="tb")` or `tb_compile.step`. A graph that was recorded before is found by its hash and runs as a
program. Operators that cannot be recorded run at once and break the graph; `fallbacks()` counts them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch._lazy
import torch._lazy.config
import torch._lazy.metrics
import torch._lazy.ts_backend as ts_backend

from . import _core

_lazy: Any = torch._lazy  # its functions have no types
_metrics: Any = torch._lazy.metrics
_config: Any = torch._lazy.config


def init() -> None:
    """Registers the backend, once a process. After that, `torch.device("lazy")` can be used. Opens the device.

    RuntimeError: PyTorch's own lazy backend (`torch._lazy.ts_backend`) is registered already. It cannot be registered
    later either.
    """
    torch.tb.init()  # type: ignore[attr-defined]
    _core.register_lazy_backend()
    ts_backend.init = _refuse
    _config.set_force_fallback = _set_force_fallback
    _force(_config.get_force_fallback())  # the variable LTC_FORCE_FALLBACK


def _set_force_fallback(configval: str) -> None:
    """Runs operators at once instead of recording them, to find one that is recorded wrongly: torch._lazy.config's
    switch.

    configval: names such as "aten::mul", with commas between them; "" for none. ValueError: there is no such operator.
    """
    _force(configval)
    torch._C._lazy._set_force_fallback(configval)


def _force(names: str) -> None:
    _core.lazy_force_fallback([name.strip() for name in names.split(",") if name.strip()])


def _refuse() -> None:
    raise RuntimeError(
        "this process has the lazy backend of tb (tb_compile.lazy), and PyTorch has room for one: start another "
        "process for torch._lazy.ts_backend"
    )


def mark_step(device: str = "", wait: bool = False) -> None:
    """Runs what was recorded on `device` ("lazy:1"; "": the default). Compiles it if it was not compiled before.

    wait: return after the work is queued. It never waits for the device.
    """
    _lazy.mark_step(device, wait)


def sync(tensors: Sequence[torch.Tensor]) -> None:
    """Runs the recorded work on which these lazy tensors depend; other work stays recorded."""
    _lazy.sync_multi(list(tensors), [])


def synchronize() -> None:
    """Runs all recorded work and waits for all devices."""
    mark_step(wait=True)
    for index in range(len(devices())):
        torch.tb.synchronize(index)  # type: ignore[attr-defined]


def devices() -> list[str]:
    """The names of the devices of lazy tensors, such as "tb0"; `lazy:1` is the second."""
    return _core.lazy_devices()


def set_default_device(index: int) -> None:
    """Selects the device of `torch.device("lazy")` without a number. ValueError: there is no such device."""
    _core.lazy_default_device(index)


def manual_seed(seed: int) -> None:
    """Seeds the generators of all devices, from which lazy tensors draw. Random operators run at once."""
    _core.lazy_seed(seed)


manual_seed_all = manual_seed


def memory_info(device: torch.device | str | int = 0) -> dict[str, int]:
    """The memory of a tb device in bytes: `allocated` and its `peak`, `free` and `total`."""
    tb = torch.tb  # type: ignore[attr-defined]
    free, total = tb.mem_get_info(device)
    return {
        "allocated": tb.memory_allocated(device),
        "peak": tb.max_memory_allocated(device),
        "free": free,
        "total": total,
    }


def counts() -> dict[str, int]:
    """Counts of all lazy graphs: compilations, instructions, executions, and nanoseconds of the executing threads."""
    return _core.lazy_counts()


class Fallback(NamedTuple):
    """An operator that ran at once, and how often it broke the graph."""

    operator: str
    calls: int


def fallbacks() -> list[Fallback]:
    """The operators that could not be recorded since the start or reset_fallbacks()."""
    prefix = f"{torch._C._get_privateuse1_backend_name()}::"
    names = [name for name in _metrics.counter_names() if name.startswith(prefix)]
    return [Fallback(name.removeprefix(prefix), _metrics.counter_value(name)) for name in sorted(names)]


def reset_fallbacks() -> None:
    """Sets all of PyTorch's counters of lazy tensors to zero, including those of fallbacks()."""
    _metrics.reset()


def metrics_report() -> str:
    """PyTorch's report on lazy tensors, with the devices, seed, counts and memory of the backend."""
    text: str = _metrics.metrics_report()
    return text
