"""Inductor's scheduling of kernels of the device."""

from __future__ import annotations

from typing import Any

import sympy  # type: ignore[import-untyped]
from torch._inductor import config as inductor_config
from torch._inductor.codegen.simd import SIMDScheduling
from torch._inductor.utils import get_fused_kernel_name, get_kernel_metadata
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from .device_kernel import ARGUMENTS, FUNCTION, DeviceKernel

# A kernel has one struct of 125 arguments (tb_generated_kernel): as many buffers as these, and the rest for sizes.
_MOST_BUFFERS = 64

# Settings for devices that Inductor does not know, while it generates code: it works out the dtypes of all operations,
# and computes 16-bit floats as 32-bit ones.
_SETTINGS = {
    "cuda_backend": "triton",
    "triton.codegen_upcast_to_fp32": True,
    "triton.coalesce_tiling_analysis": False,
}


def _buffers(node: Any) -> OrderedSet[str]:
    return OrderedSet(dependency.name for dependency in (*node.read_writes.reads, *node.read_writes.writes))


class DeviceScheduling(SIMDScheduling):
    """Fuses pointwise operations and reductions of rows."""

    kernel_type = DeviceKernel

    def get_backend_features(self, device: Any) -> OrderedSet[Any]:
        return OrderedSet()

    @classmethod
    def get_tiling_and_scores(
        cls, node_schedule: Any, numel: Any, reduction_numel: Any = sympy.S.One, *arguments: Any, **keywords: Any
    ) -> Any:
        """One dimension of threads, and one of a row."""
        return cls.create_tiling([numel], [reduction_numel]), None

    def can_fuse(self, node1: Any, node2: Any) -> bool:
        base: Any = super()
        return len(_buffers(node1) | _buffers(node2)) <= _MOST_BUFFERS and bool(base.can_fuse(node1, node2))

    can_fuse_vertical = can_fuse
    can_fuse_horizontal = can_fuse

    def codegen_node(self, node: Any) -> Any:
        base: Any = super()
        with inductor_config.patch(_SETTINGS):
            return base.codegen_node(node)

    def define_kernel(self, src_code: str, node_schedule: Any, kernel: Any) -> Any:
        """Writes the kernel to the generated Python code, unless it has the same text already, and returns its name."""
        wrapper: Any = V.graph.wrapper_code
        device: Any = V.graph.get_current_device_or_throw()
        index = device.index or 0
        key = f"{index} {src_code}"
        if key not in wrapper.src_to_kernel:
            function = get_fused_kernel_name(node_schedule, "original_aten")[:100]
            name = f"tb_{function}_{wrapper.next_kernel_suffix()}"
            wrapper.src_to_kernel[key] = name
            wrapper.kernel_devices[name] = index
            text = src_code.replace(FUNCTION, function)
            body = (
                f"tb_code.generated({index}, {function!r}, {ARGUMENTS!r}, {kernel.types()!r}, "
                f"{kernel.synchronizing}, r'''\n{text}''')"
            )
            origins, detailed = get_kernel_metadata(node_schedule, wrapper)
            wrapper.define_kernel(name, body, f"{origins}\n{detailed}", gpu=False)
        return wrapper.src_to_kernel[key]
