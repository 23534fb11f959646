"""A store of its own for each start of the ranks, so that `torchrun --max-restarts` just works.

torchrun keeps its store when it starts ranks again. A new process group would find in it what the ranks before wrote,
such as gloo's addresses of processes that have ended, and would connect to them. Here the agent tells its ranks which
round of the rendezvous they belong to, and all they write and read from the second round on has that number in front.
The count of restarts would not do: each agent has its own, and they differ where one machine's ranks started again.
"""

from __future__ import annotations

import functools
import importlib
import os
from collections.abc import Callable
from typing import Any

from torch.distributed.distributed_c10d import PrefixStore

from torch_backend._after_import import after_import

_ROUND = "TB_RENDEZVOUS_ROUND"
"""What the agent sets for its ranks."""
_RENDEZVOUS = "torch.distributed.elastic.rendezvous"


def install() -> None:
    """Changes the agent's rendezvous when it is imported, and how a rank reaches the agent's store."""
    for module, handler, round_of in (
        (f"{_RENDEZVOUS}.dynamic_rendezvous", "DynamicRendezvousHandler", _round_of_nodes),
        (f"{_RENDEZVOUS}.static_tcp_rendezvous", "StaticTCPRendezvous", _count),
    ):
        after_import(module, functools.partial(_tell_the_round, module, handler, round_of))
    _read_and_write_by_round()


def _tell_the_round(module: str, handler: str, round_of: Callable[[Any], int]) -> None:
    found: Any = getattr(importlib.import_module(module), handler, None)
    stock = getattr(found, "next_rendezvous", None)
    if stock is None:
        return

    @functools.wraps(stock)
    def next_rendezvous(self: Any) -> Any:
        joined = stock(self)
        os.environ[_ROUND] = str(round_of(self))  # the ranks inherit the agent's environment
        return joined

    found.next_rendezvous = next_rendezvous


def _round_of_nodes(handler: Any) -> int:
    """All agents of a job have the same, also one that joined late."""
    return int(handler._state_holder.state.round)


def _count(handler: Any) -> int:
    """A static rendezvous has no rounds: every agent starts its ranks again when a rank of any of them has failed."""
    count: int = getattr(handler, "_tb_rounds", 0)
    handler._tb_rounds = count + 1
    return count


def _read_and_write_by_round() -> None:
    # Not by attribute: torch.distributed has a function of the module's name.
    rendezvous: Any = importlib.import_module("torch.distributed.rendezvous")
    stock = getattr(rendezvous, "_create_c10d_store", None)
    if stock is None:
        return

    @functools.wraps(stock)
    def create_c10d_store(*args: Any, **kwargs: Any) -> Any:
        store, this_round = stock(*args, **kwargs), os.environ.get(_ROUND, "0")
        # The ranks of other launchers, and those of TORCH_DISABLE_SHARE_RDZV_TCP_STORE, have a new store each time.
        shared = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == str(True)
        return PrefixStore(f"round {this_round}", store) if shared and this_round != "0" else store

    rendezvous._create_c10d_store = create_c10d_store
