"""What makes PyTorch's test files take a PrivateUse1 device, and the tests that a file then has for it.

All of it is by PyTorch's public hooks for outside devices, but for the last two:

* `PrivateUse1TestBase` is instantiated for each generic class. PYTORCH_TESTING_DEVICE_FOR_CUSTOM adds it also where a
  file names the types of devices that a class is for (`only_for`, `except_for`).
* `bypass_device_restrictions` lets tests run that are for one type only (`onlyCUDA`, `onlyOn`).
* `dtypesIfCUDA`, also of an OpInfo, is CUDA's; other devices get the list for all, as XPU does where it has none.
* Skips and tolerances by a device's type (`skipCUDAIf`, `DecorateInfo(device_type=...)`) do not reach other devices:
  what fails on CUDA for that reason is an expected failure here.
* What is for the CPU alone (`onlyCPU`, `only_for="cpu"`) no accelerator runs. The hooks would let it run, so both
  names are replaced in PyTorch's module.
* `largeTensorTest` knows the memory of cuda and xpu alone. Its question is answered for the device under test, also
  where it names cuda.
"""

from __future__ import annotations

import functools
import importlib
import pathlib
import sys
import unittest
import unittest.mock
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch

from torch_backend.pytorch_tests.adaptations import adapted

FOR_CUSTOM = "PYTORCH_TESTING_DEVICE_FOR_CUSTOM"


@dataclass(frozen=True)
class DeviceTest:
    """A test for the device, and the same test for the CPU if there is one. Its name has no device in it."""

    name: str
    case: type[unittest.TestCase]
    method: str
    on_cpu: tuple[type[unittest.TestCase], str] | None


def variables(device_type: str) -> dict[str, str]:
    """The environment variables of a process that is to run tests for a device type."""
    return {FOR_CUSTOM: f"privateuse1,{device_type}", "PYTORCH_PRINT_REPRO_ON_FAILURE": "0"}


def take_device() -> None:
    """Prepares PyTorch's test classes for the PrivateUse1 device. Must precede the import of a test file."""
    testing: Any = importlib.import_module("torch.testing._internal.common_device_type")
    base = testing.PrivateUse1TestBase
    base.bypass_device_restrictions = True
    base.setUpClass()  # from here on its device_type is the backend's name, and so are the names of all classes
    testing.onlyCPU = only_cpu
    testing._has_sufficient_memory = _knows_memory_of(base.device_type, testing._has_sufficient_memory)
    testing.instantiate_device_type_tests = _not_for_the_cpu_alone(testing.instantiate_device_type_tests)


def only_cpu(test: Callable[..., Any]) -> Callable[..., Any]:
    """`onlyCPU`, which `bypass_device_restrictions` does not bypass."""

    @functools.wraps(test)
    def checked(self: Any, *arguments: Any, **named: Any) -> Any:
        if self.device_type != "cpu":
            raise unittest.SkipTest("Only runs on cpu")
        return test(self, *arguments, **named)

    return checked


def _knows_memory_of(device_type: str, known: Callable[[Any, int], bool]) -> Callable[[Any, int], bool]:
    """`_has_sufficient_memory` (bytes are free), answered by the device under test for all devices but the CPU."""

    def has_memory(device: Any, size: int) -> bool:
        if torch.device(device).type == "cpu":
            return known(device, size)
        try:
            free, _ = torch.get_device_module(device_type).mem_get_info()
        except Exception as error:
            raise unittest.SkipTest(f"Insufficient {device_type} memory: it is unknown ({error})") from error
        return bool(free >= size)

    return has_memory


def _not_for_the_cpu_alone(instantiate: Callable[..., Any]) -> Callable[..., Any]:
    """`instantiate_device_type_tests`, which makes no class for the device of one that is for the CPU alone."""

    @functools.wraps(instantiate)
    def checked(case: type, scope: dict[str, Any], except_for: Any = None, only_for: Any = None, **named: Any) -> None:
        if only_for is not None and {*([only_for] if isinstance(only_for, str) else only_for)} <= {"cpu", "meta"}:
            with unittest.mock.patch.dict("os.environ", {FOR_CUSTOM: ""}):
                instantiate(case, scope, except_for, only_for, **named)
        else:
            instantiate(case, scope, except_for, only_for, **named)

    return checked


def load(path: pathlib.Path) -> ModuleType:
    """Runs a test file as its own command would, with its folder, and the folder of all tests, on the path."""
    root = next(folder for folder in path.parents if folder.name == "test")
    sys.path[:0] = [str(path.parent), str(root)]
    module = ModuleType(path.stem)
    module.__file__ = str(path)
    sys.modules[path.stem] = module
    exec(compile(adapted(path.read_text()), path, "exec"), vars(module))
    return module


def without_device(text: str, device_type: str) -> str:
    """A method's name without the last "_DEVICE" in it, which PyTorch appended before the dtype."""
    at = text.rfind(f"_{device_type}")
    return text if at < 0 else text[:at] + text[at + 1 + len(device_type) :]


def methods(case: type[unittest.TestCase]) -> list[str]:
    """The names of a class's tests."""
    return list(unittest.defaultTestLoader.getTestCaseNames(case))


def device_tests(module: ModuleType, device_type: str) -> Iterator[DeviceTest]:
    """The tests of a file for the device, in the file's order of classes."""
    base: Any = importlib.import_module("torch.testing._internal.common_device_type").DeviceTypeTestBase
    classes = {
        name: value
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, base) and issubclass(value, unittest.TestCase)
    }
    for name, case in classes.items():
        generic = name.removesuffix(device_type.upper())
        if getattr(case, "device_type", None) != device_type or generic == name:
            continue
        cpu = classes.get(f"{generic}CPU")
        on_cpu = {without_device(method, "cpu"): method for method in methods(cpu)} if cpu else {}
        for method in methods(case):
            plain = without_device(method, device_type)
            same = on_cpu.get(plain)
            yield DeviceTest(f"{generic}.{plain}", case, method, (cpu, same) if cpu and same else None)
