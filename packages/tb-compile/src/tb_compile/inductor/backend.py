"""The backend `tb_inductor` of torch.compile."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch._functorch.partitioners import default_partition
from torch._inductor.codegen.common import register_backend_for_device, register_device_op_overrides
from torch._inductor.codegen.cpp_wrapper_cpu import CppWrapperCpu
from torch._inductor.custom_graph_pass import CustomPartitionerFn

from .. import _core, dynamo
from .codegen import TbOverrides, TbScheduling, TbWrapper


class KeepEverything(CustomPartitionerFn):
    """The backward pass gets what the forward pass computed. Inductor's own choice computes pointwise operators again,
    which pays where memory is slow and arithmetic free: not on a processor."""

    def __call__(self, gm: fx.GraphModule, joint_inputs: Sequence[object], **kwargs: Any) -> Any:
        kwargs.pop("compiler", None)
        return default_partition(gm, joint_inputs, **kwargs)

    def uuid(self) -> str:
        return "tb keeps everything, 1"


# What Inductor must not try on a device that is not called "cpu" and has the CPU's scheduling, and what pays on one.
PATCHES: dict[str, Any] = {
    "loop_reindexing_after_fusion": False,
    "loop_ordering_after_fusion": False,
    "layout_optimization": False,
    "cuda_backend": "cpp",  # Inductor asks this of every device that it does not know
    "cpp.dynamic_threads": True,  # the worker says how many
}


@functools.cache
def register() -> None:
    """Tells Inductor about tb, once."""
    _core._connect()
    dynamo.register()
    register_device_op_overrides("tb", TbOverrides())
    register_backend_for_device("tb", TbScheduling, TbWrapper, CppWrapperCpu)


def tb_inductor(
    graph_module: fx.GraphModule,
    example_inputs: Sequence[torch.Tensor],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    """`torch.compile(function, backend="tb_inductor")`: fused kernels, compiled by the host's C++ compiler.

    options: Inductor's. NotImplementedError: a driver whose memory the host cannot read, or a mode other than
    "default".
    """
    if mode not in (None, "default"):
        raise NotImplementedError(f"torch.compile(backend='tb_inductor', mode={mode!r}): there is no such mode yet")
    module: Any = torch.tb  # type: ignore[attr-defined]
    if not module.get_device_properties().host_accessible:
        raise NotImplementedError(
            "torch.compile(backend='tb_inductor'): its kernels run on the host, which cannot read the memory of this "
            "driver: use backend='tb'"
        )
    from torch._inductor.compile_fx import compile_fx

    register()
    patches = {**PATCHES, "custom_partitioner_fn": KeepEverything(), **(options or {})}
    compile_graph: Any = compile_fx
    compiled: Callable[..., Any] = compile_graph(graph_module, example_inputs, config_patches=patches)
    return compiled
