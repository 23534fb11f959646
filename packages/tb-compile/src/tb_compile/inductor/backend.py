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
from torch._inductor.custom_graph_pass import CustomGraphModulePass, CustomPartitionerFn

from .. import _core, dynamo
from ..backends import wants_graphs
from ..flex_attention import in_plain_operators
from . import config as _config
from . import operators
from .codegen import TbOverrides, TbScheduling, TbWrapper, require_host_memory

config: Any = _config  # the module replaces itself by one of settings


class KeepEverything(CustomPartitionerFn):
    """Saves all results of the forward pass for the backward pass.

    Inductor's own partitioner computes pointwise operators again. That is faster only if memory is slow compared with
    arithmetic, and not on a processor.
    """

    def __call__(self, gm: fx.GraphModule, joint_inputs: Sequence[object], **kwargs: Any) -> Any:
        kwargs.pop("compiler", None)
        return default_partition(gm, joint_inputs, **kwargs)

    def uuid(self) -> str:
        return "tb keeps everything, 1"


class PlainFlexAttention(CustomGraphModulePass):
    """Replaces flex_attention by plain operators, which Inductor fuses."""

    def __call__(self, gm: fx.GraphModule) -> None:
        in_plain_operators(gm)

    def uuid(self) -> str:
        return "tb's plain flex_attention, 1"


# Optimizations of Inductor that are slower on a processor.
PATCHES: dict[str, Any] = {
    "loop_ordering_after_fusion": False,
    "layout_optimization": False,
}


@functools.cache
def register() -> None:
    """Registers tb with Inductor, once."""
    _core._connect()
    dynamo.register()
    operators.keep()
    register_device_op_overrides("tb", TbOverrides())
    register_backend_for_device(
        "tb",
        TbScheduling,
        TbWrapper,
        CppWrapperCpu,
        device_custom_pass=PlainFlexAttention(),
        device_custom_config=config,
    )


def tb_inductor(
    graph_module: fx.GraphModule,
    example_inputs: Sequence[torch.Tensor],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    """`torch.compile(function, backend="tb_inductor")`: fused kernels, compiled by the host's C++ compiler.

    mode: "reduce-overhead" launches each graph as a device graph once calls repeat. ValueError: there is no such mode.
    options: Inductor's. NotImplementedError: the host cannot read the driver's memory.
    """
    with_graphs = wants_graphs("tb_inductor", mode)
    require_host_memory("backend='tb_inductor'")
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner

    register()
    patches = {**PATCHES, "custom_partitioner_fn": KeepEverything(), **(options or {})}
    # The backward graph is compiled later, outside of the first of these.
    inner: Any = config.patch(device_graphs=with_graphs)(compile_fx_inner)
    compile_graph: Any = compile_fx
    with config.patch(device_graphs=with_graphs):
        compiled: Callable[..., Any] = compile_graph(graph_module, example_inputs, inner, config_patches=patches)
    return compiled
