"""What makes PyTorch's test files take a PrivateUse1 device, and the tests that a file then has for it.

All of it is by PyTorch's public hooks for outside devices:

* `PrivateUse1TestBase` is instantiated for each generic class. PYTORCH_TESTING_DEVICE_FOR_CUSTOM adds it also where a
  file names the types of devices that a class is for (`only_for`, `except_for`).
* `bypass_device_restrictions` lets tests run that are for one type only (`onlyCUDA`, `onlyOn`).
* `dtypesIfCUDA`, also of an OpInfo, is CUDA's; other devices get the list for all, as XPU does where it has none.
* Skips and tolerances by a device's type (`skipCUDAIf`, `DecorateInfo(device_type=...)`) do not reach other devices:
  what fails on CUDA for that reason is an expected failure here.
"""

from __future__ import annotations

import importlib
import os
import pathlib
import sys
import unittest
from collections.abc import Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from torch_backend.pytorch_tests.adaptations import adapted

FOR_CUSTOM = "PYTORCH_TESTING_DEVICE_FOR_CUSTOM"


@dataclass(frozen=True)
class DeviceTest:
    """A test for the device, and the same test for the CPU if there is one. Its name has no device in it."""

    name: str
    case: type[unittest.TestCase]
    method: str
    on_cpu: tuple[type[unittest.TestCase], str] | None


def take_device(device_type: str) -> None:
    """Prepares PyTorch's test classes for a device type. Must precede the import of a test file."""
    os.environ[FOR_CUSTOM] = f"privateuse1,{device_type}"
    base = importlib.import_module("torch.testing._internal.common_device_type").PrivateUse1TestBase
    base.bypass_device_restrictions = True
    base.setUpClass()  # from here on its device_type is the backend's name, and so are the names of all classes


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


def _methods(case: type[unittest.TestCase]) -> list[str]:
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
        on_cpu = {without_device(method, "cpu"): method for method in _methods(cpu)} if cpu else {}
        for method in _methods(case):
            plain = without_device(method, device_type)
            same = on_cpu.get(plain)
            yield DeviceTest(f"{generic}.{plain}", case, method, (cpu, same) if cpu and same else None)
