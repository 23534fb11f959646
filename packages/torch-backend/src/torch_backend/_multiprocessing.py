"""Tensors of tb in the queues, pipes and arguments of torch.multiprocessing: the other process gets a copy.

PyTorch sends the storage of a tensor and makes the tensor from it there. It cannot send storages of a device that it
does not know: it raises on a thread of the queue, and the reader waits for ever. A storage of tb is copied to shared
memory of the host, which travels as a storage of the CPU does, and from there to the device of the same number.
"""

from __future__ import annotations

import multiprocessing.context
import multiprocessing.reduction
from typing import Any

import torch
from torch import UntypedStorage


def send_storages_by_value() -> None:
    """Replaces what torch.multiprocessing does with a storage of tb. Called once, at import."""
    multiprocessing.reduction.register(UntypedStorage, _reduce_storage)


def _reduce_storage(storage: UntypedStorage) -> Any:
    from torch.multiprocessing.reductions import reduce_storage

    if storage.device.type != "tb":
        return reduce_storage(storage)  # type: ignore[no-untyped-call]
    torch.accelerator.synchronize(storage.device)  # a queue's thread knows nothing of the stream that wrote the storage
    copy = storage.cpu()  # type: ignore[no-untyped-call]
    _keep_until_the_process_has_started(copy)
    return _rebuild_storage, (copy, storage.device.index)


def _keep_until_the_process_has_started(copy: UntypedStorage) -> None:
    """A new process inherits the descriptors of its arguments' memory, which is done after they are pickled."""
    process: Any = multiprocessing.context.get_spawning_popen()
    if process is not None:
        process.copies_from_tb = [*getattr(process, "copies_from_tb", []), copy]


def _rebuild_storage(copy: UntypedStorage, device: int) -> UntypedStorage:
    storage: UntypedStorage = UntypedStorage(copy.size(), device=torch.device("tb", device))  # type: ignore[no-untyped-call]
    return storage.copy_(copy)
