"""Inductor's interface to a device: the scheduling of kernels, and the Python code that calls them."""

from __future__ import annotations

import re
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch._inductor import config as inductor_config
from torch._inductor.codegen.common import DeviceOpOverrides
from torch._inductor.codegen.cpp import CppScheduling
from torch._inductor.codegen.wrapper import PythonWrapperCodegen, SubgraphPythonWrapperCodegen
from torch._inductor.virtualized import V

from . import config
from .target import target


class _Sizes(tuple[Any, ...]):
    """The loop sizes of a group.

    To reindex loops, Inductor multiplies the two parts of a group for every device that is not named "cpu". On the CPU
    they are tuples. No loop has this product, so nothing is reindexed.
    """

    __slots__ = ()

    def __mul__(self, other: Any) -> Any:
        return sympy.Integer(-1)


# Settings for devices that Inductor does not know, while it generates code.
_SETTINGS = {
    "cuda_backend": "cpp",  # the language of all such devices
    "cpp.dynamic_threads": True,  # the worker sets the number of threads
}


class HostScheduling(CppScheduling):
    """The CPU's scheduling, with kernels that may run on several workers at once."""

    def group_fn(self, sizes: Any) -> Any:
        base: Any = super()
        return _Sizes(_Sizes(part) for part in base.group_fn(sizes))

    def codegen_node(self, node: Any) -> Any:
        base: Any = super()
        with inductor_config.patch(_SETTINGS):
            return base.codegen_node(node)

    def flush(self) -> None:
        base: Any = super()
        with inductor_config.patch(_SETTINGS):
            base.flush()

    def define_kernel(self, src_code: str, nodes: Any, kernel_args: Any = None) -> Any:
        # An exception in a parallel region ends the process. On one thread it is reported at the next wait.
        if "TORCH_CHECK(" in src_code or "_integral(" in src_code:
            src_code = re.sub(r"^\s*#pragma omp.*$", "", src_code, flags=re.M)
        # Every kernel sets this global pointer, and two workers would write through each other's. Without it, a
        # division by zero throws.
        src_code = re.sub(r"^\s*inductor_cpu_integer_div_error_flag = .*$", "", src_code, flags=re.M)
        device = nodes[0].get_device() if nodes else None
        wrapper: Any = V.graph.wrapper_code
        wrapper.defining = device
        try:
            base: Any = super()
            name = base.define_kernel(src_code, nodes, kernel_args)
        finally:
            wrapper.defining = None
        if device is not None and device.type == "tb":
            wrapper.kernel_devices[name] = device.index or 0
        return name


class TbScheduling:
    """Makes the scheduling that fits the open driver. Inductor wants a class.

    NotImplementedError: no generated kernel runs there.
    """

    def __new__(cls, scheduler: Any) -> Any:
        found = target()
        if found.place == "nowhere":
            raise NotImplementedError(
                f"Inductor was asked for kernels of tb, and this process can run none: {found.reason}"
            )
        if found.place == "host":
            host: Any = HostScheduling
            return host(scheduler)
        from .device_scheduling import DeviceScheduling  # only here, since it needs more of Inductor's names

        return DeviceScheduling(scheduler)


class _OnTb:
    """Queues kernels of tb, and allocates memory on the device with the right number."""

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        self.defining: torch.device | None = None
        self.kernel_devices: dict[str, int] = {}
        super().__init__(*arguments, **keywords)

    def define_kernel(
        self,
        kernel_name: str,
        kernel_body: str,
        metadata: str | None = None,
        gpu: bool = True,
        cpp_definition: str | None = None,
    ) -> Any:
        if self.defining is not None and self.defining.type == "tb":
            queued = f"tb_code.kernel(async_compile, {kernel_name!r}, "
            kernel_body = kernel_body.replace("async_compile.cpp_pybinding(", queued, 1)
        base: Any = super()
        return base.define_kernel(kernel_name, kernel_body, metadata, gpu, cpp_definition)

    def _generate_kernel_call_helper(
        self, kernel_name: str, call_args: Any, *, device: Any = None, triton: bool = True, **keywords: Any
    ) -> Any:
        this: Any = self
        if kernel_name not in self.kernel_devices:
            base: Any = super()
            return base._generate_kernel_call_helper(kernel_name, call_args, device=device, triton=triton, **keywords)
        index = self.kernel_devices[kernel_name]
        arguments = [*(self._argument(one, index) for one in call_args), str(index)]
        this.writeline(this.wrap_kernel_call(kernel_name, arguments))

    @staticmethod
    def _argument(name: Any, index: int) -> Any:
        buffer = V.graph.try_get_buffer(name) if isinstance(name, str) else None
        device = buffer.get_device() if buffer is not None else None
        if device is None or device.type != "cpu":
            return name
        return f"tb_code.on_device({name}, {index})" if target().place == "host" else f"{name}.item()"

    def make_allocation(
        self, name: Any, device: Any, dtype: Any, shape: Any, stride: Any, *arguments: Any, **keywords: Any
    ) -> Any:
        base: Any = super()
        line = base.make_allocation(name, device, dtype, shape, stride, *arguments, **keywords)
        return line.replace("device='tb'", f"device='tb:{device.index or 0}'")  # PyTorch drops the number


class TbSubgraphWrapper(_OnTb, SubgraphPythonWrapperCodegen):
    """The Python code of a graph inside a graph."""


class TbWrapper(_OnTb, PythonWrapperCodegen):
    """The Python code of a compiled graph."""

    def write_header(self) -> None:
        super().write_header()
        self.header.writeline("from tb_compile.inductor import code as tb_code")

    def generate_after_suffix(self, result: Any) -> None:
        super().generate_after_suffix(result)
        graph, inputs = V.graph, V.graph.graph_inputs
        which = "inference" if graph.is_inference else "backward" if graph.is_backward else "forward"
        numbers = [i for i, one in enumerate(inputs.values()) if not hasattr(one, "get_device")]
        written = [i for i, name in enumerate(inputs) if name in graph.mutated_inputs]
        kernels = len(self.kernel_devices)
        with_graphs = config.device_graphs or inductor_config.triton.cudagraphs
        result.writeline(f"call = tb_code.loaded(call, {which!r}, {kernels}, {with_graphs}, {numbers}, {written})")

    @staticmethod
    def create(
        is_subgraph: bool, subgraph_name: Any, parent_wrapper: Any, partition_signatures: Any = None
    ) -> PythonWrapperCodegen:
        if is_subgraph:
            return TbSubgraphWrapper(subgraph_name, parent_wrapper, partition_signatures)
        return TbWrapper()


class TbOverrides(DeviceOpOverrides):
    """Lines of generated code that use devices and streams."""

    def import_get_raw_stream_as(self, name: str) -> str:
        return f"{name} = lambda index: torch.tb.current_stream(index).native_handle"

    def set_device(self, device_idx: int) -> str:
        return f"torch.tb.set_device({device_idx})"

    def synchronize(self) -> str:
        return "torch.tb.synchronize()"

    def device_guard(self, device_idx: int) -> str:
        return f"torch.tb.device({device_idx})"

    def current_stream(self) -> str:
        return "torch.tb.current_stream()"

    def cpp_kernel_type(self) -> str:
        return "void*"
