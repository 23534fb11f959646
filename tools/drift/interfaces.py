"""The classes of PyTorch that a backend implements, and the headers that declare them.

A class that one of ours derives from must be here: the check fails otherwise. The others are those that the project
will derive from.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

HEADERS = {
    "c10::intrusive_ptr_target": "c10/util/intrusive_ptr.h",
    # The device.
    "c10::impl::DeviceGuardImplInterface": "c10/core/impl/DeviceGuardImplInterface.h",
    "at::AcceleratorHooksInterface": "ATen/detail/AcceleratorHooksInterface.h",
    "at::PrivateUse1HooksInterface": "ATen/detail/PrivateUse1HooksInterface.h",
    "c10::Allocator": "c10/core/Allocator.h",
    "c10::DeviceAllocator": "c10/core/CachingDeviceAllocator.h",
    "at::HostAllocator": "ATen/core/CachingHostAllocator.h",
    "c10::GeneratorImpl": "c10/core/GeneratorImpl.h",
    "at::GraphImplInterface": "ATen/core/GraphImplInterface.h",
    # Tensors, gradients and operators.
    "at::impl::VariableHooksInterface": "ATen/core/VariableHooksInterface.h",
    "torch::autograd::Node": "torch/csrc/autograd/node.h",
    "c10::OperatorKernel": "ATen/core/boxing/OperatorKernel.h",
    "c10::WarningHandler": "c10/util/Exception.h",
    "at::ObserverContext": "ATen/record_function.h",
    # Lowering.
    "torch::CustomClassHolder": "ATen/core/ivalue.h",
    "torch::jit::PyTorchBackendInterface": "torch/csrc/jit/backends/backend_interface.h",
    "torch::lazy::BackendImplInterface": "torch/csrc/lazy/backend/backend_interface.h",
    "torch::lazy::BackendDeviceType": "torch/csrc/lazy/backend/backend_device.h",
    "torch::lazy::BackendData": "torch/csrc/lazy/backend/backend_data.h",
    "torch::lazy::TSData": "torch/csrc/lazy/ts_backend/ts_backend_impl.h",
    "torch::lazy::Computation": "torch/csrc/lazy/backend/lowering_context.h",
    "torch::lazy::TSComputation": "torch/csrc/lazy/ts_backend/ts_lowering_context.h",
    "torch::lazy::Node": "torch/csrc/lazy/core/ir.h",
    "torch::lazy::TsNode": "torch/csrc/lazy/ts_backend/ts_node.h",
    # Communication and profiling.
    "c10d::Backend": "torch/csrc/distributed/c10d/Backend.hpp",
    "c10d::Backend::Options": "torch/csrc/distributed/c10d/Backend.hpp",
    "c10d::Work": "torch/csrc/distributed/c10d/Work.hpp",
    "c10d::Timer": "torch/csrc/distributed/c10d/reducer_timer.hpp",
    "torch::profiler::impl::ProfilerStubs": "torch/csrc/profiler/stubs/base.h",
    "libkineto::IActivityProfilerSession": "kineto/IActivityProfiler.h",
    "libkineto::IActivityProfiler": "kineto/IActivityProfiler.h",
}

OTHER_NAMES = {
    "at::Allocator": "c10::Allocator",
    "torch::jit::CustomClassHolder": "torch::CustomClassHolder",
}

# Namespaces of PyTorch.
NAMESPACES = ("at", "c10", "c10d", "torch", "libkineto")

# Our classes that pass every call on to another object of the same interface. A function that they do not override
# never reaches that object, and nothing says so. They may not be listed in not_overridden.toml.
FORWARDERS = {"tb::backend::ShallowCopyHooks", "tb::ops::DonatingAllocator"}


def resolve(name: str, scope: str, aliases: Mapping[str, str], known: Container[str]) -> str:
    """The full name of a class that the namespace or class `scope` calls `name`; `name` if it is not known."""
    first, separator, rest = name.partition("::")
    name = aliases.get(first, first) + separator + rest
    enclosing = scope.split("::")
    for depth in range(len(enclosing), -1, -1):
        candidate = "::".join([*enclosing[:depth], name])
        candidate = OTHER_NAMES.get(candidate, candidate)
        if candidate in known:
            return candidate
    return name
