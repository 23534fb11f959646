"""The cases of a program: many in one set of processes, because each process takes seconds to import torch.

A program registers its cases and calls run(). Each rank writes what a case returns, as a line of JSON, to its file. The
ranks agree after each case: where one failed, all end, and the test starts what is left in new processes.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import functools
import gc
import json
import os
import pathlib
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import Store, TCPStore
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch_backend.conformance.bits import bit_difference

LIMIT = datetime.timedelta(seconds=30)
"""The time-out of groups: a call that one rank does not make fails before the test's own limit."""


DEVICE = os.environ.get("TB_TEST_DISTRIBUTED_DEVICE", "tb")
"""What is compared with the CPU; "cpu" tests the tests, without tb."""


@dataclass(frozen=True)
class Place:
    """Where a case computes: on tb, or on the CPU of the same processes, in a group of its own."""

    device: str
    group: dist.ProcessGroup

    @property
    def rank(self) -> int:
        return dist.get_rank()

    @property
    def size(self) -> int:
        return dist.get_world_size()

    @functools.cached_property
    def mesh(self) -> DeviceMesh:
        """Of one dimension. On tb it also sets the current device, as in programs of users."""
        return init_device_mesh("tb", (self.size,)) if self.on_tb else DeviceMesh.from_group(self.group, "cpu")

    @property
    def on_tb(self) -> bool:
        return self.device == "tb"


@dataclass(frozen=True)
class Places:
    """What a case is given: tb with tbccl, and the CPU with gloo."""

    tb: Place
    cpu: Place


Case = Callable[[Places], Any]


class Cases(dict[str, Case]):
    """Cases by name, in the order in which they run."""

    def __call__(self, function: Case) -> Case:
        """Decorates a case. What it returns must be what JSON can hold."""
        self[function.__name__] = function
        return function

    def compared(self, function: Callable[[Place], list[torch.Tensor]]) -> Callable[[Place], list[torch.Tensor]]:
        """Decorates a function that computes on one place; the case is its result on tb against that on the CPU."""
        self[function.__name__] = functools.partial(compare, function)
        return function


def compare(function: Callable[[Place], list[torch.Tensor]], places: Places) -> dict[str, Any]:
    """What both give: the first difference in words, the largest in numbers, and what fell back to the CPU."""
    expected = [tensor.detach().cpu() for tensor in function(places.cpu)]
    torch.tb.reset_fallbacks()  # type: ignore[attr-defined]
    found = [tensor.detach().cpu() for tensor in function(places.tb)]
    fallbacks = [row.operator for row in torch.tb.fallbacks()]  # type: ignore[attr-defined]
    assert len(found) == len(expected), f"{len(found)} tensors on tb, {len(expected)} on the CPU"
    texts = [bit_difference(one, other) for one, other in zip(expected, found, strict=True)]
    largest = max((distance(one, other) for one, other in zip(expected, found, strict=True)), default=0.0)
    return {"tensors": len(found), "differs": next(filter(None, texts), ""), "by": largest, "fallbacks": fallbacks}


def distance(one: torch.Tensor, other: torch.Tensor) -> float:
    """The largest absolute difference of the elements."""
    if one.shape != other.shape or not one.numel():
        return 0.0 if one.shape == other.shape else float("inf")
    wide = torch.complex128 if one.is_complex() else torch.float64
    return (one.to(wide) - other.to(wide)).abs().max().item()


@contextlib.contextmanager
def both_groups() -> Iterator[Places]:
    """The default group, and one of gloo beside it."""
    dist.init_process_group("tbccl" if DEVICE == "tb" else "gloo", timeout=LIMIT)
    gloo = dist.new_group(backend="gloo", timeout=LIMIT)
    default = dist.group.WORLD
    assert default is not None
    yield Places(Place(DEVICE, default), Place("cpu", gloo))
    # A Reducer that dies after its group joins gloo's threads with Python's lock held, and can hang.
    gc.collect()
    dist.destroy_process_group()


def store() -> Store:
    """The store of the run, whether there is a group or not."""
    return TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), timeout=LIMIT * 2)


def agree(meeting: Store, case: int, failed: bool) -> bool:
    """Whether the case failed on any rank."""
    meeting.set(f"case {case} of {os.environ['RANK']}", "failed" if failed else "passed")
    every = [f"case {case} of {rank}" for rank in range(int(os.environ["WORLD_SIZE"]))]
    meeting.wait(every)
    return any(meeting.get(key) == b"failed" for key in every)


def run(
    cases: Mapping[str, Callable[[Any], Any]],
    prepare: Callable[[], contextlib.AbstractContextManager[Any]] = both_groups,
) -> None:
    """The main function of a program: `--results FOLDER CASE...`. The cases are given what `prepare` yields."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--results", type=pathlib.Path, required=True)
    parser.add_argument("cases", nargs="*")
    asked = parser.parse_args()
    meeting = store()
    with prepare() as given, (asked.results / f"results.{os.environ['RANK']}").open("a") as file:

        def write(**fields: Any) -> None:
            file.write(json.dumps(fields) + "\n")
            file.flush()

        for number, name in enumerate(asked.cases or cases):
            write(case=name, error="the process ended in this case")
            error = ""
            try:
                write(case=name, value=cases[name](given))
            except Exception:
                error = traceback.format_exc()
                write(case=name, error=error)
            if agree(meeting, number, bool(error)):
                sys.stderr.write(error)
                sys.stderr.flush()
                os._exit(1)  # the group's state is unknown: nothing may be waited for
            gc.collect()


def number_from(variable: str, default: int) -> int:
    """A size of the tests, which a variable of the environment can raise."""
    return int(os.environ.get(variable, default))
