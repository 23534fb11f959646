"""A process that times operators on one device: python -m benchmarks.sweep.worker DEVICE.

It reads requests from stdin and answers them on stdout, one JSON object a line. It keeps the inputs of one line of the
sweep only.

- {"name", "elements", "seconds", "write": FILE or "compare": FILE} makes the inputs, and writes the result to the file
  or compares it with the one there. Answer: {"fallbacks": [operators that ran on the CPU]}.
- {} times a block of calls of about `seconds`. Answer: {"microseconds" of a call}.
- An exception's answer is {"error"}.
"""

from __future__ import annotations

import ctypes
import gc
import json
import signal
import sys
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree

from benchmarks.interleave import Call, nothing
from benchmarks.sweep.catalogue import CATALOGUE
from benchmarks.sweep.operator import Inputs

PR_SET_PDEATHSIG = 1  # sys/prctl.h
WARM_CALLS = 12  # of a size, after which tb-ops has chosen threads and kernels
WARM_SECONDS = 0.4  # of calls that take long
WARM_SHARE = 0.1  # of a block, before it: threads that were stopped wake up
# Largest difference to the largest number of the expected result, plus 1; types without an entry have to be equal.
TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4, torch.bfloat16: 3e-2}


def plain(result: object) -> list[Tensor]:
    """The tensors and numbers of a result, on the CPU."""
    return [torch.as_tensor(leaf).detach().cpu() for leaf in _pytree.tree_leaves(result)]


def difference(found: Sequence[Tensor], expected: Sequence[Tensor], random: bool) -> str:
    """How two results differ; '' if they do not. `random`: types and shapes are compared only."""
    kinds = [[(tensor.dtype, tuple(tensor.shape)) for tensor in side] for side in (found, expected)]
    if kinds[0] != kinds[1]:
        return f"results are {kinds[0]} instead of {kinds[1]}"
    for one, other in zip(found, expected, strict=True):
        if random or not one.numel():
            continue
        tolerance = TOLERANCES.get(other.dtype)
        if tolerance is None:
            if not torch.equal(one, other):
                return f"{int((one != other).sum())} of {one.numel()} elements of a result differ"
            continue
        finite = other[other.isfinite()].abs()
        bound = tolerance * (1 + (finite.max().item() if finite.numel() else 0))
        if not torch.allclose(one, other, rtol=0, atol=bound, equal_nan=True):
            apart = (one - other)[~(one.isnan() & other.isnan())]
            return f"results differ by up to {apart.abs().max().item():.3g}, more than {bound:.3g}"
    return ""


def fallbacks() -> dict[str, int]:
    """Calls by operator that fell back to the CPU; none if device tb is not loaded."""
    tb = getattr(torch, "tb", None)
    return {row.operator: row.calls for row in tb.fallbacks()} if tb else {}


class Worker:
    """Answers requests for one device."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._finish: Call = nothing if device.type == "cpu" else torch.accelerator.synchronize
        self._call: Call = nothing
        self._calls = 1

    def prepare(self, request: dict[str, Any]) -> dict[str, Any]:
        """Makes the inputs, compares or writes the result, and chooses the number of calls of a block."""
        self._call = nothing  # frees the inputs of the line before
        gc.collect()
        operator = CATALOGUE[request["name"]]
        call = operator.make(Inputs(request["elements"], self._device))
        before = fallbacks()
        result = plain(call())
        after = fallbacks()
        if "write" in request:
            torch.save(result, request["write"])
        else:
            differ = difference(torch.load(request["compare"]), result, operator.random)
            if differ:
                raise RuntimeError(differ)
        self._call = call
        self._calls = self._calibrated(request["seconds"])
        return {"fallbacks": sorted(name for name in after if after[name] > before.get(name, 0))}

    def block(self) -> dict[str, float]:
        """Microseconds of a call. The wait for the device, at the end, is timed."""
        if self._calls > 1:
            self._seconds(max(1, int(self._calls * WARM_SHARE)))
        return {"microseconds": self._seconds(self._calls) / self._calls * 1e6}

    def _seconds(self, calls: int) -> float:
        """Seconds for so many calls and the wait."""
        call = self._call
        begin = time.perf_counter()
        for _ in range(calls):
            call()
        self._finish()
        return time.perf_counter() - begin

    def _calibrated(self, seconds: float) -> int:
        """The number of calls that take about `seconds`: estimated by ever longer blocks, the least time counts."""
        single: list[float] = []
        while len(single) < WARM_CALLS and sum(single) < WARM_SECONDS:
            single.append(self._seconds(1))
        one = min(single)
        while (calls := int(seconds / 4 / one)) > 1:
            estimate = self._seconds(calls) / calls
            settled = estimate > one / 2
            one = min(one, estimate)
            if settled:
                break
        return max(1, round(seconds / one))


def serve(device: torch.device) -> None:
    """Answers requests until stdin ends."""
    worker = Worker(device)
    gc.collect()
    gc.freeze()  # collecting is quick, since it leaves out what importing made
    gc.disable()  # it would run in some of the blocks
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = worker.prepare(request) if request else worker.block()
        except Exception as error:  # the line fails, and the next ones are measured
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


def main() -> None:
    name = sys.argv[1]
    # A process that is stopped does not notice that its parent has ended.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    loaded = "torch_backend" in sys.modules
    if loaded != (name == "tb"):
        raise SystemExit(f"sweep: the process for {name} has {'' if loaded else 'not '}loaded torch_backend")
    serve(torch.device(name))


if __name__ == "__main__":
    main()
