"""torch.tb has the public names of torch.cuda and torch.xpu, or there is a reason why not."""

import inspect

import torch
import torch.cuda.memory
import torch.xpu.memory

# Names that torch.tb has under another name.
OTHER_NAMES = {
    "CUDAGraph": "Graph",
    "ExternalStream": "get_stream_from_external",
    "XPUGraph": "Graph",
}

_LEGACY = "one of the tensor and storage types from before dtypes; torch.Tensor.type() still accepts them as text"
_DEPRECATED = "deprecated by PyTorch in favour of a name that torch.tb has"
_VENDOR = "about libraries or kernels of CUDA"
_COMPILED = "about what PyTorch was compiled for; a driver brings its own kernels"
_ALLOCATOR = "tb-allocator is the only allocator; a device with another way to allocate has a driver"
_SENSOR = "not yet: the driver table has no question for sensors"
_HOST_RESETS = "not yet: tb-allocator's statistics of pinned memory have no reset"

LEFT_OUT = {
    **{
        f"{name}{kind}": _LEGACY
        for name in ("BFloat16", "Bool", "Byte", "Char", "Double", "Float", "Half", "Int", "Long", "Short")
        for kind in ("Storage", "Tensor")
    },
    "ComplexDoubleStorage": _LEGACY,
    "ComplexFloatStorage": _LEGACY,
    "CUDAPluggableAllocator": _ALLOCATOR,
    "CudaError": "errors of tb are torch.AcceleratorError and RuntimeError",
    "DeferredCudaCallError": "calls that wait for the first use are seeds, which do not fail",
    "GreenContext": _VENDOR,
    "XPUPluggableAllocator": _ALLOCATOR,
    "caching_allocator_alloc": "tb_allocator.empty() gives memory that is no tensor",
    "caching_allocator_delete": "tb_allocator.Buffer.free() gives it back",
    "caching_allocator_disabled": _ALLOCATOR,
    "caching_allocator_enable": _ALLOCATOR,
    "change_current_allocator": _ALLOCATOR,
    "check_error": _VENDOR,
    "clock_rate": _SENSOR,
    "cudaStatus": _VENDOR,
    "cudart": _VENDOR,
    "current_blas_handle": _VENDOR,
    "current_solver_handle": _VENDOR,
    "get_allocator_backend": _ALLOCATOR,
    "get_arch_list": _COMPILED,
    "get_gencode_flags": _COMPILED,
    "has_half": _VENDOR,
    "has_magma": _VENDOR,
    "ipc_collect": "tensors go to other processes as copies, so nothing is kept for them",
    "is_tf32_supported": "TF32 is a property of some drivers' products; torch.backends.fp32_precision asks for it",
    "jiterator": _VENDOR,
    "list_gpu_processes": "drivers know nothing of other processes",
    "max_memory_cached": _DEPRECATED,
    "memory_cached": _DEPRECATED,
    "memory_usage": _SENSOR,
    "nccl": _VENDOR,
    "nvtx": _VENDOR,
    "power_draw": _SENSOR,
    "profiler": _VENDOR,
    "reset_accumulated_host_memory_stats": _HOST_RESETS,
    "reset_max_memory_allocated": _DEPRECATED,
    "reset_max_memory_cached": _DEPRECATED,
    "reset_peak_host_memory_stats": _HOST_RESETS,
    "sparse": "an empty module",
    "temperature": _SENSOR,
    "tunable": _VENDOR,
    "utilization": _SENSOR,
}  # fmt: skip


def public_names() -> set[str]:
    modules = (torch.cuda, torch.cuda.memory, torch.xpu, torch.xpu.memory)
    return {name for module in modules for name in module.__all__}


def test_a_name_is_missing_only_for_a_reason() -> None:
    missing = {name for name in public_names() if not hasattr(torch.tb, name)}
    assert missing <= {*LEFT_OUT, *OTHER_NAMES}, "add the name to torch.tb, or the reason why not to this file"


def test_a_reason_is_for_a_name_that_is_missing() -> None:
    assert not [name for name in (*LEFT_OUT, *OTHER_NAMES) if hasattr(torch.tb, name)]
    assert not [name for name in OTHER_NAMES.values() if not hasattr(torch.tb, name)]


def test_functions_take_the_arguments_of_their_models() -> None:
    """A call that names its arguments, as torch.cuda's documentation does, works on tb."""
    differing = {}
    for name in sorted(public_names()):
        ours = getattr(torch.tb, name, None)
        model = getattr(torch.cuda, name, None) or getattr(torch.xpu, name, None)
        if not inspect.isfunction(ours) or not inspect.isfunction(model):
            continue
        missing = set(inspect.signature(model).parameters) - set(inspect.signature(ours).parameters)
        if missing:
            differing[name] = missing
    assert differing == DIFFERING_ARGUMENTS


DIFFERING_ARGUMENTS: dict[str, set[str]] = {}


def test_all_names_exist_and_all_existing_ones_are_named() -> None:
    assert not [name for name in torch.tb.__all__ if not hasattr(torch.tb, name)]
    functions = {
        name
        for name, value in vars(torch.tb).items()
        if not name.startswith("_") and (inspect.isfunction(value) or inspect.isclass(value))
    }
    assert not functions - set(torch.tb.__all__)


def test_parts_of_torch_tb_are_imported_once() -> None:
    import importlib

    for name in ("amp", "memory", "random", "streams"):
        assert importlib.import_module(f"torch.tb.{name}") is getattr(torch.tb, name)
