"""Programs that use several processes or threads on the CPU."""

from __future__ import annotations

import multiprocessing.pool
import tempfile
import threading
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset


def double_all(received: Any, sent: Any) -> None:
    """Doubles tensors of one queue into another one, until None comes, and then waits for the answer."""
    while (item := received.get()) is not None:
        sent.put(item * 2)
    received.get()  # a tensor in shared memory needs the process that sent it


def through_queues(method: str) -> None:
    """Sends tensors to a process of this start method and back."""
    context = mp.get_context(method)
    to_child, to_parent = context.Queue(), context.Queue()
    process = context.Process(target=double_all, args=(to_child, to_parent))
    process.start()
    for tensor in (torch.arange(3), torch.ones(2, 2, dtype=torch.bfloat16), nn.Parameter(torch.ones(2)).detach()):
        to_child.put(tensor)
        print(method, to_parent.get())
    to_child.put(None)
    to_child.put(None)
    process.join()
    print(process.exitcode)


def fork() -> None:
    through_queues("fork")


def spawn() -> None:
    through_queues("spawn")


def fill(shared: Tensor, number: int) -> None:
    shared[number] = number + 1
    print(number, shared.device, flush=True)


def shared_memory() -> None:
    shared = torch.zeros(3).share_memory_()
    context = mp.get_context("fork")
    for number in range(3):
        process = context.Process(target=fill, args=(shared, number))
        process.start()
        process.join()
    print(shared, shared.is_shared(), mp.get_sharing_strategy())


def worker(rank: int, file: str) -> None:
    torch.manual_seed(rank)
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=rank, world_size=2)
    x = torch.full((3,), float(rank + 1))
    dist.all_reduce(x)
    gathered = [torch.zeros(3) for _ in range(2)]
    dist.all_gather(gathered, x * (rank + 1))
    objects: list[Any] = [None, None]
    dist.all_gather_object(objects, {"rank": rank})
    model = nn.parallel.DistributedDataParallel(nn.Linear(2, 2))
    model(torch.ones(1, 2) * rank).sum().backward()
    mesh = dist.init_device_mesh("cpu", (2,))
    sharded = dist.tensor.distribute_tensor(torch.arange(4.0), mesh, [dist.tensor.Shard(0)])
    total = sharded.sum().full_tensor()
    if rank == 0:
        print(x, gathered, objects, model.module.weight.grad, mesh, dist.get_backend(), total, flush=True)
    dist.destroy_process_group()


def distributed() -> None:
    with tempfile.TemporaryDirectory() as folder:
        mp.start_processes(worker, (f"{folder}/store",), nprocs=2, start_method="fork")


def distributed_alone() -> None:
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group(init_method=f"file://{folder}/store", rank=0, world_size=1)
        x = torch.ones(2)
        dist.broadcast(x, 0)
        dist.barrier()
        print(x, dist.group.WORLD.bound_device_id if dist.group.WORLD else None)  # the backends name tb too
        dist.destroy_process_group()


def batches(**settings: Any) -> None:
    """Prints the batches of a DataLoader with these settings."""
    data = TensorDataset(torch.arange(12.0).reshape(6, 2), torch.arange(6))
    generator = torch.Generator().manual_seed(0)
    for x, y in DataLoader(data, batch_size=4, shuffle=True, generator=generator, **settings):
        print(x, y, x.device)


def data_loader() -> None:
    batches()
    batches(num_workers=2, persistent_workers=True)


def data_loader_that_pins() -> None:
    batches(pin_memory=True)
    batches(pin_memory=True, num_workers=1)


def threads() -> None:
    torch.manual_seed(0)
    x = torch.randn(64, 64)

    def work(number: int) -> Tensor:
        with torch.no_grad():
            return (x @ x * number).sum()

    with multiprocessing.pool.ThreadPool(3) as pool:
        print(pool.map(work, range(3)))
        pool.close()
        pool.join()  # its threads end here, and are not counted
    print(torch.get_num_threads(), torch.get_num_interop_threads(), threading.active_count())
    print(torch.jit.wait(torch.jit.fork(work, 2)))
    torch.set_num_threads(2)
    print(torch.get_num_threads(), (x @ x).sum(), torch.__config__.parallel_info())
