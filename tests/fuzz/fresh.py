"""Cases in processes of their own, in which the first use of tb comes from C++."""

from __future__ import annotations

import faulthandler
import io
import os
import random
import sys
import threading
from collections.abc import Callable, Iterable

import torch
from torch import Tensor

from .generate import generate
from .report import Run

SECONDS = 120  # a case takes less than one


def full() -> Tensor:
    twos: Tensor = torch.ops.aten.full.default([3], 2.0, device=torch.device("tb"), pin_memory=False)
    return twos


def empty() -> Tensor:
    memory: Tensor = torch.ops.aten.empty.memory_format([3], device=torch.device("tb"), pin_memory=False)
    return memory.fill_(2.0)


def copy() -> Tensor:
    twos: Tensor = torch.ops.aten._to_copy.default(torch.full([3], 2.0), device=torch.device("tb"))
    return twos


def sparse() -> Tensor:
    zeros: Tensor = torch.ops.aten.sparse_coo_tensor.size([3], layout=torch.sparse_coo, device=torch.device("tb"))
    return zeros.to_dense() + 2


def nested() -> Tensor:
    parts = [torch.full([1], 2.0), torch.full([2], 2.0)]
    made = torch.ops.aten._nested_tensor_from_tensor_list.default(parts, device=torch.device("tb"))
    return torch.cat(made.unbind())


def scripted() -> Tensor:
    twos: Tensor = torch.jit.CompilationUnit("def twos():\n  return torch.full([3], 2.0, device='tb')\n").twos()
    return twos


def loaded() -> Tensor:
    module = torch.nn.Linear(1, 3, bias=False)
    torch.nn.init.constant_(module.weight, 2.0)
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(module), file)
    file.seek(0)
    weight: Tensor = torch.jit.load(file, map_location="tb").weight.detach()  # type: ignore[no-untyped-call]
    return weight.flatten()


def several_threads() -> Tensor:
    barrier, found = threading.Barrier(2), []

    def use() -> None:
        barrier.wait()
        found.append(full())

    threads = [threading.Thread(target=use) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return (found[0] + found[1]) / 2


FIRST_USES: list[Callable[[], Tensor]] = [full, empty, copy, sparse, nested, scripted, loaded, several_threads]


def run_in_new_processes(seed: int, indices: Iterable[int], run: Run, *, keep_going: bool) -> int:
    """Runs these cases of a seed, prints what failed and how many, and returns 1 if one did, else 0."""
    count = failed = 0
    for index in indices:
        count += 1
        status = _status(seed, index, run)
        if status != 0:
            failed += 1
            print(f"case {index} of seed {seed} ended its process with status {status}", flush=True)
            if not keep_going:
                break
    print(f"{count} cases, each in a process whose first use of tb comes from C++: {failed} failed")
    return 1 if failed or not count else 0


def _status(seed: int, index: int, run: Run) -> int:
    """The exit status of a new process that runs a case; negative for a signal. This process does not use tb."""
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        _use_and_run(seed, index, run)
        sys.stdout.flush()
        os._exit(bool(run.failed))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _use_and_run(seed: int, index: int, run: Run) -> None:
    first = random.Random(f"{seed}/{index}").choice(FIRST_USES)
    try:
        twos = first()
        if str(twos.device) != "tb:0" or twos.tolist() != [2.0, 2.0, 2.0]:
            raise ValueError(f"it gave {twos}")
    except Exception as error:
        run.failed.append(first.__name__)
        print(f"the first use by {first.__name__}: {error!r}")
        return
    run.add(generate(seed, index))
