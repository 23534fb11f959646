"""Exported programs on tb: the parts of a graph that the device supports become programs, PyTorch runs the rest.

exported = torch.export.load("model.pt2")      # saved on any machine; the model's Python code is not needed
model = tb_compile.export.to_backend(exported, "tb")
model(x)
"""

from __future__ import annotations

from collections.abc import Callable
from operator import getitem
from typing import Any

import torch
from torch import fx
from torch.export.passes import move_to_device_pass
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from ._core import Program
from .lowering import Unsupported, lower
from .record import next_number

Supports = Callable[[torch._ops.OpOverload], bool]

_KEYS = (
    "PrivateUse1",
    "CompositeImplicitAutograd",
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
)


def has_kernel(operator: torch._ops.OpOverload) -> bool:
    """Whether the device has a kernel for an operator, or PyTorch composes it of others. Opens the device."""
    torch.tb.init()  # type: ignore[attr-defined]  # registers the driver's kernels
    name = f"{operator._schema.name}.{operator._schema.overload_name}".rstrip(".")
    return any(torch._C._dispatch_has_kernel_for_dispatch_key(name, key) for key in _KEYS)


class _Support(OperatorSupportBase):
    def __init__(self, supports: Supports) -> None:
        self._supports = supports
        self._known: dict[torch._ops.OpOverload, bool] = {}

    def is_node_supported(self, submodules: Any, node: fx.Node) -> bool:
        source: Any = node.args[0] if node.target is getitem else node
        operator = source.target
        if source.op != "call_function" or not isinstance(operator, torch._ops.OpOverload):
            return False
        if operator not in self._known:
            self._known[operator] = not operator._schema.is_mutable and self._supports(operator)
        return self._known[operator]


class Partition(torch.nn.Module):
    """A part of an exported program that runs as one program."""

    def __init__(self, program: Program, is_single: bool) -> None:
        super().__init__()
        self.program = program
        self._is_single = is_single

    def forward(self, *inputs: Any) -> Any:
        with torch.no_grad():
            results = self.program.run(list(inputs))
        return results[0] if self._is_single else tuple(results)


def to_backend(
    exported: torch.export.ExportedProgram, device: torch.device | str = "tb", supports: Supports = has_kernel
) -> fx.GraphModule:
    """Makes a module for inference, with the inputs and results of the exported program, whose parts are programs.

    exported: for any device; its parameters and constants are copied to `device`. supports: whether an operator may be
    in a program. `partitions(module)` returns the programs, and `left_out(module)` the other operators.
    NotImplementedError: the exported program writes to its inputs or buffers.
    """
    moved: Any = move_to_device_pass(exported, str(torch.device(device)))
    functional = moved.run_decompositions({})
    signature = functional.graph_signature
    written = [*signature.buffers_to_mutate.values(), *signature.user_inputs_to_mutate.values()]
    if written:
        raise NotImplementedError(
            f"to_backend: the exported program writes to {', '.join(written)}. Export it for inference (model.eval())"
        )
    module: Any = functional.module()
    partitioner = CapabilityBasedPartitioner(module, _Support(supports), allows_single_node_partition=True)
    fused: Any = partitioner.fuse_partitions(partitioner.propose_partitions())
    for name, part in list(fused.named_children()):
        if isinstance(part, fx.GraphModule) and name.startswith("fused_"):
            setattr(fused, name, _program(part, name))
    return fused  # type: ignore[no-any-return]


def _program(part: fx.GraphModule, name: str) -> torch.nn.Module:
    output: Any = part.graph.output_node()
    is_single = not isinstance(output.args[0], (tuple, list))
    if is_single:
        output.args = ((output.args[0],),)
    try:
        return Partition(lower(part, f"{name} {next_number()}"), is_single)
    except Unsupported:
        if is_single:
            output.args = output.args[0]
        part.recompile()
        return part


def partitions(module: fx.GraphModule) -> list[Program]:
    """The programs of a module that to_backend() returned, in their order."""
    called = [module.get_submodule(str(node.target)) for node in module.graph.nodes if node.op == "call_module"]
    return [child.program for child in called if isinstance(child, Partition)]


def left_out(module: fx.GraphModule) -> list[str]:
    """The names of the operators that are in no program, in their order. PyTorch runs them one by one."""
    return [str(node.target) for node in module.graph.nodes if isinstance(node.target, torch._ops.OpOverload)]
