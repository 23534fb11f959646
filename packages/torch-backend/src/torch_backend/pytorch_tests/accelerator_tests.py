"""Tests that take the accelerator of the process, such as those of `torch.distributed`: many are of several processes.

PyTorch's base classes ask `torch.accelerator` in some places, and know cuda, hpu and xpu in others. These answer for
the device under test here:

* `skip_if_lt_x_gpu` and `at_least_x_gpu` count its devices.
* The base of the tests of FSDP has its type, number and backend in constants.
* The base of the tests of DTensor refuses backends that it does not know; it gets one for the CPU and the device.
* Every rank has the device of its number. The bases choose it where the backend is NCCL or XCCL.

A rank is a process that multiprocessing spawns. It imports the worker's main module, which calls `prepare_rank`: the
rank has the same adapted test file as the worker, and reports to it what it used.
"""

from __future__ import annotations

import functools
import importlib
import json
import multiprocessing.process
import os
import pathlib
import re
import unittest
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import torch
import torch.distributed

from torch_backend.conformance.device import Device
from torch_backend.pytorch_tests.adaptations import adapt
from torch_backend.pytorch_tests.device_tests import DeviceTest, device_tests, load, methods, take_device

INTERNAL = "torch.testing._internal"
# Of a worker, for the ranks that it spawns: the arguments of `prepare_rank` in JSON.
RANKS = "PYTORCH_TESTS_RANKS"
ALLOCATIONS = "allocation.all.allocated"


class Use:
    """What this process does on the devices of a type, from its making or its last `restart`."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self.restart()

    def restart(self) -> None:
        self._device.reset_fallbacks()
        self._before = self._allocations()

    def _allocations(self) -> int | None:
        """Of all devices, ever; None if the device's module has no such count."""
        try:
            return sum(
                int(self._device.module.memory_stats(index)[ALLOCATIONS])
                for index in range(self._device.module.device_count())
            )
        except Exception:
            return None

    def to_json(self) -> dict[str, Any]:
        """Whether memory of the devices was allocated (None: nobody knows), and the operators that fell back."""
        now = self._allocations()
        used = None if now is None or self._before is None else now > self._before
        return {"used": used, "fallbacks": self._device.fallbacks()}


class Ranks:
    """In a worker: the reports of the processes that its tests start, in a folder that is the worker's own."""

    def __init__(self, path: pathlib.Path, device: str, folder: pathlib.Path) -> None:
        self._folder = folder
        os.environ[RANKS] = json.dumps([str(path), device, str(folder)])

    def take(self) -> list[dict[str, Any]]:
        """The reports since the last call."""
        files = list(self._folder.iterdir())
        reports = [json.loads(file.read_text()) for file in files if file.suffix == ".json"]
        for file in files:
            file.unlink()
        return reports


def prepare_rank() -> None:
    """Makes a process that a worker's test spawned ready to run its part, with the device of its rank."""
    path, name, reports = json.loads(os.environ[RANKS])
    file = pathlib.Path(path)
    device = Device(name)
    take_accelerator(file, name)
    rank = re.fullmatch(r"process (\d+)", multiprocessing.current_process().name)  # as PyTorch's bases call it
    if name != "cpu":
        device.module.set_device(int(rank[1]) % device.module.device_count() if rank else 0)
    use = Use(device)

    def report() -> None:
        written = pathlib.Path(reports, f"{os.getpid()}.part")
        written.write_text(json.dumps(use.to_json()))
        written.rename(written.with_suffix(".json"))

    process: Any = multiprocessing.process.BaseProcess
    process.run = _then(process.run, report)
    adapt(file)
    load(file)


def _then(function: Callable[[Any], None], after: Callable[[], None]) -> Callable[[Any], None]:
    """Calls one and then the other, however the first ends."""

    @functools.wraps(function)
    def both(self: Any) -> None:
        try:
            function(self)
        finally:
            after()

    return both


def take_accelerator(path: pathlib.Path, device_type: str) -> None:
    """Prepares PyTorch's test classes for the accelerator. Must precede the import of the test file."""
    if device_type == "cpu":  # stock CPU, beside the device under test
        return
    take_device()
    if not torch.distributed.is_available():
        return
    count = torch.get_device_module(device_type).device_count()
    common: Any = importlib.import_module(f"{INTERNAL}.common_distributed")
    common.skip_if_lt_x_gpu = of_so_many_devices(count, common.skip_if_lt_x_gpu)
    common.at_least_x_gpu = lambda needed: count >= needed
    backend = torch.distributed.Backend.default_device_backend_map.get(device_type, "gloo")
    text = path.read_text()
    if "common_fsdp" in text:
        fsdp: Any = importlib.import_module(f"{INTERNAL}.common_fsdp")
        fsdp.DEVICE_TYPE, fsdp.DEVICE_COUNT, fsdp.DISTRIBUTED_BACKEND = device_type, count, backend
        if hasattr(fsdp, "FSDPTestContinuous"):
            fsdp.FSDPTestContinuous.world_size = count
    if "common_dtensor" in text:
        base: Any = importlib.import_module(f"{INTERNAL}.distributed._tensor.common_dtensor").DTensorTestBase
        base.backend = property(
            lambda self: "gloo" if self.device_type == "cpu" else f"cpu:gloo,{device_type}:{backend}"
        )


def of_so_many_devices(count: int, known: Callable[..., Any]) -> Callable[..., Any]:
    """`skip_if_lt_x_gpu`, answered with the number of devices of the accelerator under test."""

    def skip_if_fewer(needed: int, **named: Any) -> Callable[..., Any]:
        def decorator(test: Callable[..., Any]) -> Callable[..., Any]:
            return test if count >= needed else known(needed, **named)(test)

        return decorator

    return functools.wraps(known)(skip_if_fewer)


def error_of_rank(text: str) -> str | None:
    """The first rank's error, in one line, from the text of a test's error; None if no rank's is in it.

    PyTorch's bases raise the stacks of all ranks that failed, so that the error itself is far behind.
    """
    start = r"(?:Process|Thread) (\d+) exited with (?:error code \d+ and )?exception:\n"
    first = re.search(rf"{start}(.*?)(?:\n\n{start}|\Z)", text, re.S)
    if first is None:
        return None
    lines = first[2].rsplit("Traceback (most recent call last):\n", 1)[-1].splitlines()
    error = next((at for at, line in enumerate(lines) if not line.startswith("  ")), 0)
    return f"rank {first[1]}: {' '.join(' '.join(lines[error:]).split())}"


def accelerator_tests(module: ModuleType, device_type: str) -> Iterator[DeviceTest]:
    """All tests of a file but those that PyTorch makes for other types of devices. None is for the CPU as well."""
    for test in device_tests(module, device_type):
        yield DeviceTest(test.name, test.case, test.method, None)
    base: Any = importlib.import_module(f"{INTERNAL}.common_device_type").DeviceTypeTestBase
    for name, case in vars(module).items():
        if isinstance(case, type) and issubclass(case, unittest.TestCase) and not issubclass(case, base):
            for method in methods(case):
                yield DeviceTest(f"{name}.{method}", case, method, None)
