"""Process groups of tb devices: the backend "tbccl" of torch.distributed.

The backend has no transport of its own. An engine moves the bytes: gloo where the host can reach or copy the device's
memory, NCCL on CUDA's. The extension _distributed orders its work on tb's streams. `init_process_group()` takes it for
tb, and so do the backends "tbccl", "cpu:gloo,tb:tbccl" and plain "gloo".
"""

from __future__ import annotations

import atexit
import os
from typing import Any

import torch

NAME = "tbccl"

_WAIT = "TB_DISTRIBUTED_WAIT"
_SECONDS_AT_EXIT = 5  # for calls that are pending at the end of the process


def register() -> None:
    """Registers the backend with torch.distributed. Idempotent; it uses no device and loads no library."""
    if not torch.distributed.is_available():
        return
    from torch.distributed import Backend

    if NAME in Backend.backend_list:
        return
    from torch_backend.distributed import repairs

    Backend.register_backend(NAME, _create, extended_api=True, devices=["tb"])
    repairs.install()


def _create(options: Any, backend_options: Any) -> Any:
    """The backend of one process group; torch.distributed calls this in every rank of the group."""
    from torch_backend.distributed import engines

    _load()
    group = engines.group_of_engines(options)
    torch.ops.tb_distributed.add_backend(group.boxed())
    return group._get_backend(torch.device("tb"))


_loaded = False


def _load() -> None:
    """Loads the extension with the first process group, so that other programs do not pay for it.

    Raises:
        ValueError: TB_DISTRIBUTED_WAIT is neither "stream" nor "host".
    """
    global _loaded
    if _loaded:
        return
    where = os.environ.get(_WAIT, "stream")
    if where not in ("stream", "host"):
        raise ValueError(
            f"{_WAIT}={where!r} is neither 'stream' (the current stream waits for a collective) nor 'host' (the "
            f"calling thread does)"
        )
    from tb_ops import _frames

    from torch_backend import _distributed

    _distributed._connect()
    _distributed._wait_on_host(where == "host")
    offsets = _frames.find()
    if offsets is not None:
        _distributed._record_call_sites(offsets)
    atexit.register(_distributed._end, _SECONDS_AT_EXIT * 1000)  # before tb_device's, which waits for all streams
    _loaded = True
