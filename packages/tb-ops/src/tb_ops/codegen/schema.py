"""The operators of the installed PyTorch, as torchgen reads them from the yaml files in the wheel."""

from __future__ import annotations

import importlib.util
import pathlib
import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchgen.gen import ParsedYaml
    from torchgen.model import BackendIndex, NativeFunction, NativeFunctionsGroup


def native_directory() -> pathlib.Path:
    """The folder with native_functions.yaml and tags.yaml of the installed torchgen.

    Raises:
        FileNotFoundError: torch is not installed, or has no schema.
    """
    spec = importlib.util.find_spec("torchgen")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("torchgen is not installed; it comes with torch: pip install torch")
    found = pathlib.Path(next(iter(spec.submodule_search_locations))) / "packaged" / "ATen" / "native"
    if not (found / "native_functions.yaml").is_file():
        raise FileNotFoundError(f"no native_functions.yaml in {found}; this torch carries no operator schema")
    return found


def function_names(directory: pathlib.Path) -> set[str]:
    """The names of PyTorch's operators without their overloads, read without parsing the schemas."""
    return set(re.findall(r"^- func: (\w+)", (directory / "native_functions.yaml").read_text(), re.MULTILINE))


# Structured groups whose kernels are written by hand (src/backends/host). With a reduction, the CPU's out= kernel of a
# loss resizes a temporary, which is impossible with an alias. The CPU's kernels of paddings give their output other
# strides than the meta function does. That of isin with a number first gives a size which its kernel changes.
BY_HAND = frozenset(
    {
        *("mse_loss.out", "smooth_l1_loss.out", "isin.Scalar_Tensor_out"),
        *("reflection_pad3d.out", "replication_pad2d.out", "replication_pad3d.out"),
    }
)


@dataclass(frozen=True)
class Schema:
    """All native functions, and which of them have a CPU kernel."""

    directory: pathlib.Path

    @cached_property
    def _file(self) -> ParsedYaml:
        from torchgen.gen import parse_native_yaml

        return parse_native_yaml(str(self.directory / "native_functions.yaml"), str(self.directory / "tags.yaml"))

    @cached_property
    def _cpu(self) -> BackendIndex:
        return self._kernels_of("CPU")

    def _kernels_of(self, key: str) -> BackendIndex:
        from torchgen.model import DispatchKey

        return self._file.backend_indices[DispatchKey.parse(key)]

    @property
    def functions(self) -> list[NativeFunction]:
        functions: list[NativeFunction] = self._file.native_functions
        return functions

    def kernels_that_differ(self, key: str, other: str) -> set[str]:
        """The operators that have a kernel for this dispatch key, and not the same for the other one."""
        mine, others = self._kernels_of(key), self._kernels_of(other)
        found = {str(f.func.name): (mine.get_kernel(f), others.get_kernel(f)) for f in self.functions}
        return {name for name, (kernel, another) in found.items() if kernel is not None and kernel != another}

    @cached_property
    def without_device_check(self) -> set[str]:
        """The operators before which PyTorch's generated kernels for CUDA do not compare the tensors' devices."""
        from torchgen.model import DeviceCheckType

        return {str(f.func.name) for f in self.functions if f.device_check == DeviceCheckType.NoCheck}

    def cpu_body(self, function: NativeFunction) -> str | None:
        """The function that PyTorch calls for CPU tensors, "at::native::abs_out"; None if it is generated or absent."""
        kernel = self._cpu.get_kernel(function)
        if kernel is None or kernel.structured:
            return None
        return f"{kernel.cpp_namespace}::{kernel.kernel}"

    def has_cpu_kernel(self, function: NativeFunction | NativeFunctionsGroup) -> bool:
        return bool(self._cpu.has_kernel(function))

    def structured_kernel(self, function: NativeFunction) -> str | None:
        """The class of the CPU kernel of an out= function, "at::native::structured_mul_out"; None if it has none."""
        kernel = self._cpu.get_kernel(function)
        if kernel is None or not kernel.structured:
            return None
        return f"{kernel.cpp_namespace}::structured_{kernel.kernel}"

    @cached_property
    def structured_groups(self) -> list[NativeFunctionsGroup]:
        """Groups whose out= function is structured and has a CPU kernel, without those in BY_HAND, in name order."""
        from torchgen.gen import get_grouped_native_functions
        from torchgen.model import NativeFunctionsGroup

        groups = [
            g
            for g in get_grouped_native_functions(self.functions)
            if isinstance(g, NativeFunctionsGroup) and g.structured and self.has_cpu_kernel(g)
        ]
        return sorted((g for g in groups if str(g.out.func.name) not in BY_HAND), key=lambda g: str(g.out.func.name))


def installed() -> Schema:
    return Schema(native_directory())
