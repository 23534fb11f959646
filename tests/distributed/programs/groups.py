"""Ways to begin and to divide process groups, and what each group serves. Each case has a default group of its own."""

from __future__ import annotations

import contextlib
import datetime
import functools
import os
import warnings
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from distributed.cases import LIMIT, Cases, run, store

RANK, SIZE = int(os.environ["RANK"]) if "RANK" in os.environ else 0, int(os.environ.get("WORLD_SIZE", "1"))
WAYS: dict[str, dict[str, Any]] = {
    "init()": {},
    "init(tbccl)": {"backend": "tbccl"},
    "init(cpu:gloo,tb:tbccl)": {"backend": "cpu:gloo,tb:tbccl"},
    "init(tb:tbccl)": {"backend": "tb:tbccl"},
    "init(gloo)": {"backend": "gloo"},
    "init(cpu:gloo,tb:gloo)": {"backend": "cpu:gloo,tb:gloo"},
    "init(tb:gloo,cpu:gloo)": {"backend": "tb:gloo,cpu:gloo"},
    "init(TB:GLOO)": {"backend": "TB:GLOO"},
    "init(cpu:tbccl,tb:tbccl)": {"backend": "cpu:tbccl,tb:tbccl"},
    "init(tb:tbccl,cpu:tbccl)": {"backend": "tb:tbccl,cpu:tbccl"},
    "init(privateuseone:gloo,cpu:gloo)": {"backend": "privateuseone:gloo,cpu:gloo"},
    "init(cpu:gloo,tb:gloo, device_id=number)": {"backend": "cpu:gloo,tb:gloo", "device_id": RANK},
    "init(device_id=number)": {"device_id": RANK},
    "init(tbccl, device_id=device)": {"backend": "tbccl", "device_id": torch.device("tb", RANK)},
}
CASES = Cases()
_made = 0


@contextlib.contextmanager
def default_group(**arguments: Any) -> Iterator[None]:
    """With keys of its own in the store of the run."""
    global _made
    _made += 1
    keys = dist.PrefixStore(f"group {_made}", store())
    dist.init_process_group(store=keys, rank=RANK, world_size=SIZE, timeout=LIMIT, **arguments)
    yield
    dist.destroy_process_group()


def use(group: dist.ProcessGroup | None = None) -> dict[str, Any]:
    """What a group gives for tensors of both devices, objects and barriers. Errors are texts."""
    number = dist.get_rank(group)

    def reduced(device: str) -> float:
        x = torch.ones(3, device=device)
        dist.all_reduce(x, group=group)
        return float(x[0])

    def objects() -> list[Any]:
        every: list[Any] = [None] * dist.get_world_size(group)
        dist.all_gather_object(every, number, group=group)
        return every

    def barrier_with_devices() -> None:
        dist.barrier(group=group, device_ids=[torch.accelerator.current_device_index()])

    found: dict[str, Any] = {}
    for name, call in {
        "tb": functools.partial(reduced, "tb"),
        "cpu": functools.partial(reduced, "cpu"),
        "barrier": lambda: dist.barrier(group=group),
        "barrier(device_ids)": barrier_with_devices,
        "objects": objects,
    }.items():
        try:
            found[name] = call()
        except Exception as error:
            found[name] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return found


def everywhere(arguments: dict[str, Any], _: None) -> dict[str, Any]:
    """The default group and those that come of it."""
    warnings.simplefilter("ignore")
    with default_group(**arguments):
        found = {"default": use(), "new_group": use(dist.new_group())}
        found["new_group(gloo)"] = use(dist.new_group(backend="gloo"))
        if "device_id" in arguments:  # PyTorch demands it for a split, and equally many groups on all ranks
            found["split_group"] = use(dist.split_group(split_ranks=[list(range(SIZE))]))
        alone = dist.new_group([SIZE - 1])  # the other ranks take part in making it
        if RANK == SIZE - 1:
            found["new_group of one"] = use(alone)
        found["local group"] = use(dist.new_group([RANK], use_local_synchronization=True))
        mesh = init_device_mesh("tb", (SIZE, 1), mesh_dim_names=("outer", "inner"))
        found["mesh"] = use(mesh["outer"].get_group())
        found["mesh of one"] = use(mesh["inner"].get_group())
        found["flattened mesh"] = use(mesh["outer", "inner"]._flatten("flat").get_group())
        return found


for _name, _arguments in WAYS.items():
    CASES[_name] = functools.partial(everywhere, _arguments)


@CASES
def names_and_devices(_: Any) -> dict[str, Any]:
    with default_group(backend="tbccl"):
        group = dist.group.WORLD
        assert group is not None
        return {
            "backend": dist.get_backend(),
            "config": dist.get_backend_config(),
            "devices": sorted(device.type for device in group._device_types),
            "pg of tb": group._get_backend(torch.device("tb")).name(),
            "default for tb": dist.get_default_backend_for_device("tb"),
            "available": dist.is_backend_available("tbccl"),
        }


@CASES
def lists_of_new_groups(_: Any) -> dict[str, Any]:
    """What groups serve that lists of devices make below a default group for the CPU alone."""
    with default_group(backend="cpu:gloo"):
        lists = ["cpu:gloo,tb:gloo", "tb:gloo", "tb:tbccl", "cpu:tbccl", "cpu:gloo,tb:tbccl", "gloo", "tbccl"]
        return {each: use(dist.new_group(backend=each)) for each in lists}


@CASES
def fake_groups(_: Any) -> dict[str, Any]:
    """Groups that move nothing: the list of each and what a sum over eight ranks gives on both devices."""
    from torch.testing._internal.distributed.fake_pg import FakeStore

    found = {}
    for backend in ("fake", "cpu:fake,tb:fake", "tb:fake"):
        dist.init_process_group(backend, rank=RANK, world_size=8, store=FakeStore())
        try:
            mesh = init_device_mesh("tb", (2, 4), mesh_dim_names=("outer", "inner"))
            x = torch.ones(3, device="tb")
            dist.all_reduce(x)
            gathered = torch.zeros(8, 3, device="tb")
            dist.all_gather_into_tensor(gathered, x)
            dist.all_reduce(x, group=mesh["inner"].get_group())
            net = fully_shard(torch.nn.Linear(8, 8).to("tb"), mesh=mesh)
            net(torch.ones(8, 8, device="tb")).sum().backward()
            parts = [parameter.grad.to_local().shape[0] for parameter in net.parameters()]
            found[backend] = [x.tolist(), list(gathered.shape), mesh.size(), parts]
        finally:
            dist.destroy_process_group()
    return found


@CASES
def sequence_numbers(_: Any) -> list[int]:
    """Before and after three calls."""
    with default_group(backend="tbccl"):
        group = dist.group.WORLD
        assert group is not None
        backend = group._get_backend(torch.device("tb"))
        dist.barrier()
        before = backend._get_sequence_number_for_group()
        x = torch.ones(3, device="tb")
        for _turn in range(3):
            dist.all_reduce(x)
        torch.accelerator.synchronize()
        return [before, backend._get_sequence_number_for_group()]


@CASES
def detailed_debugging(_: Any) -> dict[str, Any]:
    """TORCH_DISTRIBUTED_DEBUG=DETAIL: right calls work. What calls that do not match give, is a text."""
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    try:
        with default_group():
            found = use()
            try:
                dist.all_reduce(torch.ones(3 + RANK, device="tb"))
                torch.accelerator.synchronize()
                found["mismatch"] = ""
            except Exception as error:
                found["mismatch"] = f"{type(error).__name__}: {error}"
            return found
    finally:
        dist.set_debug_level(dist.DebugLevel.OFF)


@CASES
def monitored_barrier(_: Any) -> None:
    """PyTorch offers it where the backend is gloo."""
    with default_group(backend="gloo"):
        dist.monitored_barrier(timeout=datetime.timedelta(seconds=10))


@CASES
def made_and_destroyed(_: Any) -> list[float]:
    """Groups do not stay: threads of the process before and after twenty, some of which were never used."""

    def threads() -> int:
        return len(os.listdir("/proc/self/task"))

    with default_group():

        def twenty() -> None:
            for turn in range(20):
                group = dist.new_group()
                if turn % 2:
                    dist.all_reduce(torch.ones(3, device="tb"), group=group)
                    torch.accelerator.synchronize()
                dist.destroy_process_group(group)

        twenty()
        before = threads()
        twenty()
        return [before, threads()]


if __name__ == "__main__":
    run(CASES, lambda: contextlib.nullcontext(None))
