"""PyTorch's Inductor for tb, and the backend `tb_inductor` of torch.compile."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch._functorch.partitioners import default_partition
from torch._inductor.codegen.common import register_backend_for_device, register_device_op_overrides
from torch._inductor.codegen.cpp_wrapper_cpu import CppWrapperCpu
from torch._inductor.custom_graph_pass import CustomGraphModulePass, CustomPartitionerFn

from .. import _core, dynamo
from ..backends import tb, wants_graphs
from ..flex_attention import in_plain_operators
from . import config as _config
from . import operators
from .codegen import TbOverrides, TbScheduling, TbWrapper
from .target import target

config: Any = _config  # the module replaces itself by one of settings
log = logging.getLogger(__name__)


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
    _choose_by_driver()
    register_device_op_overrides("tb", TbOverrides())
    register_backend_for_device(
        "tb",
        TbScheduling,
        TbWrapper,
        CppWrapperCpu,
        device_custom_pass=PlainFlexAttention(),
        device_custom_config=config,
    )


def _choose_by_driver() -> None:
    """Makes Inductor's entry compile graphs of tb as programs if the open driver can run no generated kernel."""
    from torch._inductor import compile_fx as module

    stock = module.compile_fx

    @functools.wraps(stock)
    def compile_fx(model_: Any, example_inputs_: Any, *arguments: Any, **keywords: Any) -> Any:
        by_users = not arguments and keywords.keys() <= {"config_patches", "compile_region_name"}
        if _is_on_tb(model_, example_inputs_) and target().place == "nowhere" and by_users:
            return _as_programs(model_, example_inputs_, keywords.get("config_patches") or {})
        return stock(model_, example_inputs_, *arguments, **keywords)

    module.compile_fx = compile_fx


def _is_on_tb(model: Any, example_inputs: Sequence[Any]) -> bool:
    """Whether a graph has a tensor of tb."""
    values = list(example_inputs)
    if isinstance(model, fx.GraphModule):
        values += [node.meta.get("example_value", node.meta.get("val")) for node in model.graph.nodes]
    return any(isinstance(value, torch.Tensor) and value.device.type == "tb" for value in values)


@functools.cache
def _say_once(reason: str) -> None:
    log.info("torch.compile runs the graphs of tb as programs, since no kernel can be generated: %s", reason)


def _as_programs(model: Any, example_inputs: Any, patches: dict[str, Any]) -> Any:
    _say_once(target().reason)
    return tb(model, example_inputs, mode="reduce-overhead" if patches.get("triton.cudagraphs") else None)


def tb_inductor(
    graph_module: fx.GraphModule,
    example_inputs: Sequence[torch.Tensor],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    """`torch.compile(function, backend="tb_inductor")`: fused kernels, or programs where no kernel can be generated.

    mode: "reduce-overhead" launches each graph as a device graph once calls repeat. ValueError: there is no such mode.
    options: Inductor's.
    """
    with_graphs = wants_graphs("tb_inductor", mode)
    if target().place == "nowhere":
        _say_once(target().reason)
        return tb(graph_module, example_inputs, mode=mode)
    from torch._inductor.compile_fx import compile_fx, compile_fx_inner

    register()
    of_host = {**PATCHES, "custom_partitioner_fn": KeepEverything()} if target().place == "host" else {}
    patches = {**of_host, **(options or {})}
    # The backward graph is compiled later, outside of the first of these.
    inner: Any = config.patch(device_graphs=with_graphs)(compile_fx_inner)
    compile_graph: Any = compile_fx
    with config.patch(device_graphs=with_graphs):
        compiled: Callable[..., Any] = compile_graph(graph_module, example_inputs, inner, config_patches=patches)
    return compiled
