"""What moves the bytes of a process group: backends of PyTorch's own, for tensors that they can reach.

Gloo takes CPU tensors, and serves every driver. A library for another device serves the drivers whose memory and
streams are that device's, as `tb_driver_info.native` says: it gets tensors of its own over tb's memory, on the streams
under tb's.
"""

from __future__ import annotations

import collections
import itertools
import os
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from tb_device.discovery import BUILTIN
from torch.distributed.distributed_c10d import PrefixStore

_made: collections.defaultdict[tuple[str, tuple[int, ...]], itertools.count[int]] = collections.defaultdict(
    itertools.count
)


def group_of_engines(options: Any) -> Any:
    """A process group with gloo for CPU tensors, and with an engine of OF_STREAMS for its device.

    The gloo is one of its own, beside that which serves the group's CPU tensors: those calls begin at once, and calls
    with tb tensors when a stream comes to them, so one engine for both would see another order of calls on each rank.
    """
    # A program may make the same group again, and gloo would connect to the addresses of the first. All ranks of a
    # group have made it equally often.
    store = PrefixStore(f"tb/{next(_made[options.group_id, _ranks(options)])}/", options.store)
    group = dist.ProcessGroup(store, options.group_rank, options.group_size)
    engine = _gloo(store, options)
    group._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, engine)
    for device, make in OF_STREAMS.items():
        if _may_be_native(device) and (engine := make(PrefixStore(device, store), options)) is not None:
            # A group has one backend of a type, and that for tb will be CUSTOM.
            group._register_backend(torch.device(device), dist.ProcessGroup.BackendType.NCCL, engine)
            break  # a driver has one native device
    return group


def _ranks(options: Any) -> tuple[int, ...]:
    return tuple(options.global_ranks_in_group or range(options.group_size))


def _gloo(store: Any, options: Any) -> Any:
    engine = dist.ProcessGroupGloo(store, options.group_rank, options.group_size, timeout=options.timeout)
    # A split of the group looks both up.
    engine.options.global_ranks_in_group = list(_ranks(options))
    engine.options.group_name = options.group_id
    return engine


def _nccl(store: Any, options: Any) -> Any:
    """The installed PyTorch's NCCL; None where it has none, or no GPU."""
    if not dist.is_nccl_available() or not torch.cuda.is_available():
        return None
    nccl: Any = dist.ProcessGroupNCCL
    own = nccl.Options()
    own._timeout = options.timeout
    own.global_ranks_in_group = list(_ranks(options))
    own.group_name = options.group_id
    return nccl(store, options.group_rank, options.group_size, own)


def _may_be_native(device: str) -> bool:
    """Whether the driver's memory may be this device's. The driver is not open yet, and a process group opens none."""
    name = os.environ.get("TB_DRIVER", "")
    return name == device or name not in BUILTIN


OF_STREAMS: dict[str, Callable[[Any, Any], Any]] = {"cuda": _nccl}
"""Engines by the device of PyTorch's that they serve, which is also what such a driver calls native.

Each is called with a store of its own and the options of the group, and gives a backend, or None if it cannot serve.
"""
