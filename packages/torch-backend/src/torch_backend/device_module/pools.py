"""torch.tb: pools of memory apart from all other, with the names of torch.cuda. They are arenas of tb-allocator."""

from __future__ import annotations

import contextlib
import pickle
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torch_backend import _state
from torch_backend.device_module.devices import Device, device_index
from torch_backend.device_module.graphs import Pool, graph_pool_handle

if TYPE_CHECKING:
    from tb_allocator import Arena

_pools: weakref.WeakValueDictionary[Pool, MemPool] = weakref.WeakValueDictionary()


class MemPool:
    """Memory that use_mem_pool() takes tensors from. It goes back to the driver with the last of them and the pool.

    allocator: None; NotImplementedError for another one, which tb has no place for. use_on_oom: must be False. The `id`
    is for memory_snapshot(); a graph does not take it as its pool.
    """

    def __init__(self, allocator: None = None, use_on_oom: bool = False) -> None:
        if allocator is not None:
            raise NotImplementedError("torch.tb.MemPool has no allocator but tb-allocator: leave out `allocator`")
        if use_on_oom:
            raise NotImplementedError("torch.tb.MemPool cannot share its memory with others: leave out `use_on_oom`")
        self.id = graph_pool_handle()
        self.allocator = allocator
        self._arenas: dict[int, Arena] = {}
        _pools[self.id] = self

    def use_count(self) -> int:
        """The number of devices that the pool has memory of, and 1 for the pool itself."""
        return 1 + len(self._arenas)

    def snapshot(self) -> list[dict[str, Any]]:
        """The pool's segments with their blocks, as of torch.tb.memory_snapshot()."""
        found = [pickle.loads(arena._snapshot()) for _, arena in sorted(self._arenas.items())]
        return [{**segment, "segment_pool_id": self.id} for part in found for segment in part["segments"]]

    def _arena(self, number: int) -> Arena:
        if number not in self._arenas:
            import tb_allocator

            self._arenas[number] = tb_allocator.Arena(number, tag="MemPool")
        return self._arenas[number]


def pool_of_id(identity: Pool) -> MemPool:
    """The pool with this id. ValueError: there is none."""
    try:
        return _pools[identity]
    except KeyError:
        raise ValueError(f"there is no torch.tb.MemPool with the id {identity}") from None


@contextlib.contextmanager
def use_mem_pool(pool: MemPool, device: Device = None) -> Iterator[None]:
    """Context manager: what this thread allocates on the device inside the block comes from the pool.

    Other threads are not affected, so neither is a backward pass that PyTorch runs on a thread of its own.
    """
    number = device_index(device)
    _state.initialize()
    with pool._arena(number):
        yield
