"""Emits the kernels of one structured group: functional, in-place and out=, each a meta call, a launch, a return."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchgen.model import NativeFunction, NativeFunctionsGroup


def headers(group: NativeFunctionsGroup) -> list[str]:
    """The narrow headers a group's kernels need."""
    base = group.out.root_name
    return [f"ATen/ops/{base}_meta.h", f"ATen/ops/{base}_cpu_dispatch.h"]


def functions(group: NativeFunctionsGroup) -> list[NativeFunction]:
    """The schemas of a group that get a kernel, functional first."""
    return [f for f in (group.functional, group.inplace, group.out) if f is not None]


def kernel_name(function: NativeFunction) -> str:
    """A C++ name unique among all overloads."""
    return f"op_{str(function.func.name).replace('.', '_')}"


def group_text(group: NativeFunctionsGroup) -> str:
    """C++ of all kernels of a group. Functional and out= share the function that runs on the worker."""
    return "".join(_kernel(group, f) for f in functions(group))


def _device(function: NativeFunction, operation: str) -> str:
    """C++ of the device whose stream runs the kernel. Iterator operators check devices in their meta function."""
    from torchgen.model import DeviceCheckType

    tensors = [a for a in function.func.arguments.flat_all if str(a.type) in ("Tensor", "Tensor?")]
    if function.device_check == DeviceCheckType.NoCheck or not any(str(a.type) == "Tensor" for a in tensors):
        return "device_number(op.output(0))"
    checked = [f"&{a.name}" if str(a.type) == "Tensor" else f"({a.name} ? &*{a.name} : &undefined)" for a in tensors]
    return f'common_device("{operation}", {{{", ".join(checked)}}})'


def _kernel(group: NativeFunctionsGroup, function: NativeFunction) -> str:
    from torchgen.api import meta, structured
    from torchgen.api.translate import translate
    from torchgen.api.types import CppSignatureGroup, NativeSignature
    from torchgen.context import native_function_manager
    from torchgen.model import SchemaKind

    kind = function.func.kind()
    outs = len(group.out.func.returns)
    own_outs = [a.name for a in function.func.arguments.out]
    operation = f"aten::{group.functional.func.name if kind is not SchemaKind.inplace else function.func.name}"
    with native_function_manager(function):
        signature = NativeSignature(function.func, prefix="", symint=False)
        meta_arguments = ", ".join(
            e.expr for e in translate(list(signature.arguments()), structured.meta_arguments(group), method=False)
        )
        cpu = CppSignatureGroup.from_native_function(group.out, method=False).most_faithful_signature()
        definition = signature.defn(name=kernel_name(function))
        cpu_arguments = [(a.name, str(a.type)) for a in cpu.arguments()]

    # The worker's function calls at::cpu::NAME_outf(inputs..., outs...); in place, self is also the output.
    out_names = [a.name for a in group.out.func.arguments.out]
    captured, parameters, call = [], [], []
    for name, declared in cpu_arguments:
        if name in out_names:
            if kind is SchemaKind.inplace:
                call.append("self")
                continue
            captured.append(f"op.output({out_names.index(name)})")
            parameters.append(f"at::Tensor &{name}")
        else:
            captured.append(name)
            in_place_self = kind is SchemaKind.inplace and name == "self"
            parameters.append(f"at::Tensor &{name}" if in_place_self else f"{declared} {name}")
        call.append(name)
    worker = f"{kernel_name(function if kind is SchemaKind.inplace else group.functional)}_cpu"
    text = ""
    if kind is not SchemaKind.out:
        text = f"\nvoid {worker}({', '.join(parameters)}) {{ at::cpu::{cpu.name()}({', '.join(call)}); }}"

    given = {SchemaKind.functional: "", SchemaKind.inplace: "(self)", SchemaKind.out: f"({', '.join(own_outs)})"}[kind]
    if kind is SchemaKind.functional:
        results = [f"std::move(op.outputs[{i}])" for i in range(outs)]
    else:
        results = ["self"] if kind is SchemaKind.inplace else own_outs
    returned = results[0] if outs == 1 else "{" + ", ".join(results) + "}"
    schema = {SchemaKind.functional: "functional", SchemaKind.inplace: "in_place", SchemaKind.out: "out"}[kind]
    return f"""{text}
{definition} {{
  Structured<at::meta::structured_{meta.name(group)}, Schema::{schema}, {outs}> op{given};
  op.meta({meta_arguments});
  launch_kernel<"{operation}", {worker}>({_device(function, operation)}, {", ".join(captured)});
  return {returned};
}}
"""
