"""A pytest plugin: gives a suite its device, chooses its tests, and writes what became of each to a file at once.

The variable TB_SUITE_RUN has the path of a JSON file with the fields of Request. Each line of the log is a JSON object:
{"started": NAME} before a test, and the fields of a Result after it. NAME is a file without ".py" and a test without
the device's name. This module needs no torch_backend for the CPU, where torch is as it comes.
"""

from __future__ import annotations

import faulthandler
import functools
import json
import os
import pathlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

VARIABLE = "TB_SUITE_RUN"
NOT_ON_DEVICE = "it uses no memory of the device"
IMPORT = "(import)"
# The exit status of a process whose device does not compute any more.
DEVICE_LOST = 75
# Before pytest captures it: here a test that hangs prints all stacks.
STDERR = os.dup(2)

Name = tuple[str, str]


@dataclass(frozen=True)
class Request:
    """What a process is to run: all tests but `done`, or those of `asked`. `limit` is in seconds, for each test."""

    device: str
    log: str
    limit: float
    default_device: bool
    numpy: bool
    done: set[Name]
    asked: set[Name] | None = None

    @staticmethod
    def read() -> Request:
        fields = json.loads(pathlib.Path(os.environ[VARIABLE]).read_text())
        for key in ("done", "asked"):
            fields[key] = None if fields[key] is None else {(file, test) for file, test in fields[key]}
        return Request(**fields)


def name_of(nodeid: str, device: str) -> Name:
    """A file without ".py" and a test, from whose parameters the device's name is removed.

    >>> name_of("test/test_a.py::TestA::test_b[tb-float32]", "tb")
    ('test/test_a', 'TestA.test_b[float32]')
    """
    path, _, test = nodeid.partition("::")
    test, bracket, parameters = test.replace("::", ".").partition("[")
    kept = [part for part in parameters.removesuffix("]").split("-") if part not in (device, f"{device}:0")]
    return path.removesuffix(".py"), f"{test}[{'-'.join(kept)}]" if bracket and kept else test


def make_default(device: str) -> None:
    """Tensors are made on the device where a test names none; their random numbers are those of the CPU.

    Tolerances and expected values of tests are often right for what the CPU draws from their seed only.
    """
    import torch
    from torch.overrides import TorchFunctionMode

    made = {torch.rand, torch.randn, torch.randint, torch.randperm}
    like = {torch.rand_like, torch.randn_like}
    filled = {torch.Tensor.normal_, torch.Tensor.uniform_}

    class DrawnOnCPU(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
            named = named or {}
            if named.get("generator") is not None:
                return function(*arguments, **named)
            if function in made and "out" not in named and _type(named.get("device"), device) == device:
                drawn = function(*arguments, **(named | {"device": "cpu"})).detach()
                return drawn.to(device).requires_grad_(bool(named.get("requires_grad")))
            if function in like | filled and arguments[0].device.type == device and "device" not in named:
                host = function(torch.empty_like(arguments[0], device="cpu"), *arguments[1:], **named).detach()
                if function in like:
                    return host.to(device).requires_grad_(bool(named.get("requires_grad")))
                return arguments[0].copy_(host)
            if getattr(function, "__module__", "") == "torch.nn.init" and named["tensor"].device.type == device:
                host = torch.empty_like(named["tensor"], device="cpu")
                function(**(named | {"tensor": host}))
                with torch.no_grad():
                    return named["tensor"].copy_(host)
            return function(*arguments, **named)

    torch.set_default_device(device)
    mode: Any = DrawnOnCPU()
    mode.__enter__()  # to the end of the process


def _type(device: Any, default: str) -> str:
    """The type of a device as a call names it: None, a text, or a torch.device."""
    return str(device or default).split(":")[0]


def take_numpy(device: str) -> None:
    """Arrays of NumPy become tensors of the device, and its tensors become arrays by a copy.

    A test that makes its data by NumPy names no device, and `Tensor.numpy` is for the CPU's memory.
    """
    import torch

    whole: Any = torch
    tensor: Any = torch.Tensor
    from_numpy, numpy, array = whole.from_numpy, tensor.numpy, tensor.__array__

    def host(data: Any) -> Any:
        return data.cpu() if data.device.type == device else data

    whole.from_numpy = functools.wraps(from_numpy)(lambda data: from_numpy(data).to(device))
    tensor.numpy = functools.wraps(numpy)(lambda self, **named: numpy(host(self), **named))
    tensor.__array__ = functools.wraps(array)(lambda self, *given, **named: array(host(self), *given, **named))


class Observer:
    """Chooses the tests and records them."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.log = open(request.log, "a")  # noqa: SIM115 (to the end of the process)
        self.device: Any = None
        if request.device != "cpu":
            from torch_backend.conformance.device import Device

            self.device = Device(request.device)
        self.outcome, self.text, self.trace = "passed", "", ""

    def _write(self, line: dict[str, Any]) -> None:
        self.log.write(json.dumps(line) + "\n")
        self.log.flush()

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.outcome == "passed" or not report.nodeid:
            return
        name = (report.nodeid.partition("::")[0].removesuffix(".py"), IMPORT)
        if self._wanted(name):
            text, trace = _reason(report)
            self._write({"name": name, "outcome": report.outcome, "text": text, "trace": trace})

    def _wanted(self, name: Name) -> bool:
        asked = self.request.asked
        return name in asked if asked is not None else name not in self.request.done

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        """Leaves out what is done or not asked for, and the CPU's cases of a test that has some for the device."""
        names = [(item, name_of(item.nodeid, self.request.device)) for item in items]
        on_device = {name for item, name in names if name[1] != _test_of(item.nodeid)}
        chosen = [
            item
            for item, name in names
            if self._wanted(name) and (self.device is None or name_of(item.nodeid, "cpu") not in on_device)
        ]
        config.hook.pytest_deselected(items=[item for item in items if item not in set(chosen)])
        items[:] = chosen

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[Any]:
        name = name_of(item.nodeid, self.request.device)
        self._write({"started": name})
        self.outcome, self.text, self.trace = "passed", "", ""
        faulthandler.dump_traceback_later(self.request.limit, exit=True, file=STDERR)
        allocations = self._allocations()
        if self.device:
            self.device.reset_fallbacks()
        start = time.monotonic()
        result = yield
        seconds = round(time.monotonic() - start, 3)
        fallbacks = self.device.fallbacks() if self.device else None
        if self.outcome == "passed" and self.device and self._allocations() == allocations:
            self.outcome, self.text = "skipped", NOT_ON_DEVICE
        lost = self.outcome == "failed" and self.device and not self.device.usable()
        faulthandler.cancel_dump_traceback_later()
        fields = {"outcome": self.outcome, "text": self.text, "trace": self.trace}
        self._write({"name": name, **fields, "seconds": seconds, "fallbacks": fallbacks})
        if lost:
            os._exit(DEVICE_LOST)
        return result

    def _allocations(self) -> int:
        if not self.device:
            return 0
        return int(self.device.module.memory_stats()["allocation.all.allocated"])

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        outcome = str(report.outcome)
        if outcome == "skipped" and hasattr(report, "wasxfail"):
            outcome = "xfailed"
        if outcome == "passed" or self.outcome == "failed":
            return
        self.outcome = outcome
        self.text, self.trace = _reason(report)


def _test_of(nodeid: str) -> str:
    """The whole name of a test, with the device's."""
    return nodeid.partition("::")[2].replace("::", ".")


def _reason(report: Any) -> tuple[str, str]:
    """The error, or the reason of a skip, in one line, and the whole text."""
    if isinstance(report.longrepr, tuple):  # a skip: file, line, reason
        return " ".join(str(report.longrepr[2]).split()).removeprefix("Skipped: ")[:300], ""
    crash = getattr(report.longrepr, "reprcrash", None)
    whole = str(report.longrepr)
    lines = whole.strip().splitlines()
    text = crash.message if crash else (lines[-1] if lines else "")
    return " ".join(text.split())[:600], whole[-4000:]


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Before the suite's own conftest.py, whose imports may make tensors."""
    request = Request.read()
    if request.device != "cpu":
        if request.default_device:
            make_default(request.device)
        if request.numpy:
            take_numpy(request.device)
    early_config.pluginmanager.register(Observer(request), "suite_observer")
