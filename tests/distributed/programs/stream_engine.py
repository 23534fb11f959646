"""Cases of the other programs on the cuda driver, where an engine of streams serves the calls: a simulated NCCL.

All of it is simulated: the CUDA library, PyTorch's CUDA kernels, which are the CPU's, and the engine, over gloo.
"""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any

from sim_vendor import simulated

if "RANK" in os.environ:  # not in the test's process, which asks for the names of the cases
    os.environ |= simulated.variables_of_torch_cuda()
    ctypes.CDLL(os.environ["SIMULATED_BACKEND"])  # before torch, which looks for its CUDA part at the import

import torch
import torch.distributed as dist
from torch_backend.distributed import engines

from distributed.cases import Cases, Places, compare, run
from distributed.programs import collectives, data_parallel, memory, sharded, tensors

CASES = Cases()
TURNS = 20


def simulated_nccl(store: Any, options: Any) -> Any:
    gloo = dist.ProcessGroupGloo(store, options.group_rank, options.group_size, timeout=options.timeout)
    carrier = dist.ProcessGroup(store, options.group_rank, options.group_size)
    carrier._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, gloo)
    torch.ops.simulated_nccl.add_backend(carrier.boxed())
    return carrier._get_backend(torch.device("cuda"))


NOT_OF_NCCL = ("recv_from_any", "isend_irecv")  # it knows the sender, and may hang unless both calls are in one batch
for _name, _function in collectives.KINDS.items():
    if _name not in NOT_OF_NCCL:
        CASES[_name] = functools.partial(collectives.verdicts, _function, dtypes=[torch.float32, torch.int16])
CASES["subgroup"] = functools.partial(collectives.verdicts, collectives.subgroup_of, dtypes=[torch.float32])
CASES |= memory.CASES
for _name in ("plain", "small_buckets", "hook_in_python"):
    CASES[f"ddp {_name}"] = data_parallel.CASES[_name]
for _name in ("fsdp2_prefetching", "fsdp2_mixed_precision"):
    CASES[_name] = sharded.CASES[_name]
CASES["tensor_parallel"] = tensors.CASES["tensor_parallel"]


@CASES
def fsdp2_many_times(places: Places) -> dict[str, Any]:
    """The first turn whose losses and weights differ from those of the CPU, else the last."""
    for _ in range(TURNS):
        found = compare(lambda place: sharded.train(sharded.shard(place), place.device, place.rank), places)
        if found["differs"]:
            break
    return found


@CASES
def the_engine_is_used(places: Places) -> dict[str, int]:
    """The calls and waits that the simulated NCCL has counted for three of each."""
    before = torch.ops.simulated_nccl.counts()
    x = torch.ones(100, device="tb")
    for _ in range(3):
        dist.all_reduce(x, group=places.tb.group)
    assert float(x[0]) == places.tb.size**3
    calls, waits = (after - b for after, b in zip(torch.ops.simulated_nccl.counts(), before, strict=True))
    return {"calls": calls, "waits": waits}


@CASES
def call_in_a_capture(places: Places) -> str:
    """The text of the refusal; the group's next call works."""
    x, text = torch.ones(100, device="tb"), ""
    torch.accelerator.synchronize()
    try:
        with torch.tb.graph(torch.tb.Graph()):  # type: ignore[attr-defined]
            dist.all_reduce(x, group=places.tb.group)
    except RuntimeError as error:
        text = str(error)
    dist.all_reduce(x, group=places.tb.group)
    assert float(x[0]) == places.tb.size
    return text


@CASES
def barrier(places: Places) -> None:
    """It ends after the work of the stream."""
    event = torch.Event("tb")
    x = torch.ones(100_000, device="tb")
    for _ in range(5):
        x = x * 1
    event.record()
    dist.barrier(group=places.tb.group)
    assert event.query()


def main() -> None:
    torch.ops.load_library(simulated.build_for_torch("simulated_nccl"))
    engines.OF_STREAMS["cuda"] = simulated_nccl
    run(CASES)


if __name__ == "__main__":
    main()
