"""What moves the bytes of a process group: a process group of PyTorch's own, for tensors that it can reach."""

from __future__ import annotations

import collections
import itertools
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import PrefixStore

_made: collections.defaultdict[tuple[str, tuple[int, ...]], itertools.count[int]] = collections.defaultdict(
    itertools.count
)


def gloo(options: Any) -> Any:
    """A process group with gloo for CPU tensors.

    It is one of its own, beside the gloo that serves the group's CPU tensors: those calls begin at once, and calls with
    tb tensors when a stream comes to them, so one engine for both would see another order of calls on each rank.
    """
    # A program may make the same group again, and gloo would connect to the addresses of the first. All ranks of a
    # group have made it equally often.
    ranks = tuple(options.global_ranks_in_group or range(options.group_size))
    store = PrefixStore(f"tb/{next(_made[options.group_id, ranks])}/", options.store)
    engine = dist.ProcessGroupGloo(store, options.group_rank, options.group_size, timeout=options.timeout)
    # A split of the group looks both up.
    engine.options.global_ranks_in_group = list(ranks)
    engine.options.group_name = options.group_id
    group = dist.ProcessGroup(store, options.group_rank, options.group_size)
    group._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, engine)
    return group
