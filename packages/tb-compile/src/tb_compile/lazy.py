"""PyTorch's lazy backend (`torch::lazy::BackendImplInterface`) on tb: device "lazy" records, `mark_step()` runs.

Legacy: PyTorch lets its lazy tensors rest, and tracing costs more than small steps take. New programs use
`torch.compile(backend="tb")` or `tb_compile.step`. A graph that was recorded once is found again by its hash, and runs
as a program. Operators that cannot be recorded run at once and break the graph: `fallbacks()` counts them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch._lazy
import torch._lazy.metrics
import torch._lazy.ts_backend as ts_backend

from . import _core

_lazy: Any = torch._lazy  # whose functions have no types
_metrics: Any = torch._lazy.metrics


def init() -> None:
    """Registers the backend, once a process: from then on there is `torch.device("lazy")`. Opens the device.

    RuntimeError: PyTorch's own lazy backend (`torch._lazy.ts_backend`) is there already; it cannot come later either.
    """
    torch.tb.init()  # type: ignore[attr-defined]
    _core.register_lazy_backend()
    ts_backend.init = _refuse


def _refuse() -> None:
    raise RuntimeError(
        "this process has the lazy backend of tb (tb_compile.lazy), and PyTorch has room for one: start another "
        "process for torch._lazy.ts_backend"
    )


def mark_step(device: str = "", wait: bool = False) -> None:
    """Compiles what was recorded on `device` ("lazy:1"; "": the default), or finds it compiled, and runs it.

    wait: until the host has queued it; nobody waits for the device.
    """
    _lazy.mark_step(device, wait)


def sync(tensors: Sequence[torch.Tensor]) -> None:
    """Runs what these lazy tensors depend on, and leaves the rest recorded."""
    _lazy.sync_multi(list(tensors), [])


def synchronize() -> None:
    """Runs all that was recorded, and waits for all devices."""
    mark_step(wait=True)
    for index in range(len(devices())):
        torch.tb.synchronize(index)  # type: ignore[attr-defined]


def devices() -> list[str]:
    """The devices that lazy tensors are on, as "tb0": `lazy:1` is the second."""
    return _core.lazy_devices()


def set_default_device(index: int) -> None:
    """The device of `torch.device("lazy")` without a number. ValueError: there is none of that number."""
    _core.lazy_default_device(index)


def manual_seed(seed: int) -> None:
    """Seeds the generators of all devices: lazy draws, each run by itself, are those of the device."""
    _core.lazy_seed(seed)


manual_seed_all = manual_seed


def memory_info(device: torch.device | str | int = 0) -> dict[str, int]:
    """Bytes of a tb device: `allocated` and its `peak`, `free` and `total`."""
    tb = torch.tb  # type: ignore[attr-defined]
    free, total = tb.mem_get_info(device)
    return {
        "allocated": tb.memory_allocated(device),
        "peak": tb.max_memory_allocated(device),
        "free": free,
        "total": total,
    }


def counts() -> dict[str, int]:
    """Of all lazy graphs: compilations, their instructions, executions, nanoseconds of the threads that executed."""
    return _core.lazy_counts()


class Fallback(NamedTuple):
    """An operator that ran at once, and broke the graph so many times."""

    operator: str
    calls: int


def fallbacks() -> list[Fallback]:
    """Operators that could not be recorded, since the start or reset_fallbacks()."""
    prefix = f"{torch._C._get_privateuse1_backend_name()}::"
    names = [name for name in _metrics.counter_names() if name.startswith(prefix)]
    return [Fallback(name.removeprefix(prefix), _metrics.counter_value(name)) for name in sorted(names)]


def reset_fallbacks() -> None:
    """Sets all of PyTorch's counters of lazy tensors to zero, those of fallbacks() among them."""
    _metrics.reset()


def metrics_report() -> str:
    """PyTorch's report, with the backend's devices, seed, counts and memory."""
    text: str = _metrics.metrics_report()
    return text
