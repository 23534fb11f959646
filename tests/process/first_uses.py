"""Uses of tb that come from C++, where Python's argument parser does not see them. Each returns [2.0, 2.0, 2.0]."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable

import torch
from torch import Tensor


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
    barrier, found = threading.Barrier(2), list[Tensor]()

    def use() -> None:
        barrier.wait()
        found.append(full())

    threads = [threading.Thread(target=use) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    one, other = found
    assert one.tolist() == other.tolist()
    return one


FIRST_USES: list[Callable[[], Tensor]] = [full, empty, copy, sparse, nested, scripted, loaded, several_threads]
