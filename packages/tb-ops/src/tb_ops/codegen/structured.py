"""Emits the kernels of one structured group: functional, in-place and out=. Each is a meta call and a launch."""

from __future__ import annotations

from string import Template
from typing import TYPE_CHECKING

from .model import Operator

if TYPE_CHECKING:
    from torchgen.model import NativeFunction, NativeFunctionsGroup

# The function for the worker. It calls PyTorch's out= CPU kernel, or ours of the same name
# (src/backends/host/overrides.h). Functional and out= schemas share one.
WORKER = Template("""
void $worker($parameters) { cpu::$cpu($call); }""")

KERNEL = Template("""
$definition {$checks
  Structured<at::meta::structured_$meta, Schema::$schema, $outputs> op$given;
  op.meta($checked);$results
  launch_kernel<"$operation", $worker>($device, $captured);
  return $returned;
}
""")


# Operators whose kernels read on the host whether they succeeded, or check what their meta function does not, and
# raise, so that all calls wait. If an operator has an argument check_errors, only calls in which it is true wait
# (src/dispatch/host_checks.h). Not every supported PyTorch has all of them.
CHECKED = frozenset({"_linalg_eigh.eigenvalues", "_linalg_svd.U", "_scaled_mm_v2.out", "linalg_polar.out"})
CHECKED_KERNEL = Template("""
$definition { return call_checked<at::_ops::$op>($arguments); }
""")
# PyTorch's kernels are the first to check this argument, so this checks it at the call.
APPROXIMATE = """
  at::native::get_gelutype_enum(approximate);"""
# addmm's meta function does not check that the tensor which is added to the product can be expanded to its shape.
EXPANDED = """
  if (!at::is_expandable_to(self.sizes(), op.output(0).sizes())) self.expand(op.output(0).sizes()); // raises"""
# The meta function would look for the positions in a mask, and the kernel once more.
POSITIONS = Template("""
  if (has_masks(indices)) return $kernel($arguments);""")
# Calls that only the operator's kernel checks, which therefore wait. A condition on the arguments selects them.
CHECKED_CALL = Template("""
  if ($condition) return call_checked<at::_ops::$op>($arguments);""")


def headers(group: NativeFunctionsGroup) -> list[str]:
    """The headers that a group's kernels need."""
    base = group.out.root_name
    checked = ["dispatch/call_checked.h", f"ATen/ops/{base}_ops.h"] if _checks(group) else []
    words = ["ATen/native/Gelu.h"] if _takes(group, "approximate") else []
    expanded = ["ATen/ExpandUtils.h"] if base == "addmm" else []
    return [f"ATen/ops/{base}_meta.h", f"ATen/ops/{base}_cpu_dispatch.h", *checked, *words, *expanded]


def _takes(group: NativeFunctionsGroup, name: str) -> bool:
    return name in {argument.name for argument in group.out.func.arguments.flat_non_out}


def _always_checks(group: NativeFunctionsGroup) -> bool:
    return str(group.out.func.name) in CHECKED


def _checked_calls(group: NativeFunctionsGroup) -> str | None:
    """C++ that is true for the calls that the CPU's kernel checks, and that therefore wait; None if there are none."""
    if group.out.root_name == "renorm":
        return "dim < -self.dim() || dim >= self.dim()"
    flags = [text for name, text in (("check_errors", "check_errors"), ("pivot", "!pivot")) if _takes(group, name)]
    if flags:
        return " || ".join(flags)
    if group.out.root_name == "norm" and _takes(group, "dtype"):
        return "c10::promoteTypes(self.scalar_type(), dtype) != dtype || c10::isComplexType(dtype) != self.is_complex()"
    return None


def _checks(group: NativeFunctionsGroup) -> bool:
    return _always_checks(group) or _checked_calls(group) is not None


def functions(group: NativeFunctionsGroup) -> list[NativeFunction]:
    """The schemas of a group that get a kernel, functional first."""
    return [f for f in (group.functional, group.inplace, group.out) if f is not None]


def kernel_name(function: NativeFunction) -> str:
    """A C++ name that is unique among all overloads."""
    return f"op_{str(function.func.name).replace('.', '_')}"


def group_text(group: NativeFunctionsGroup) -> str:
    """C++ of all kernels of a group."""
    return "".join((_checked_kernel if _always_checks(group) else _kernel)(group, f) for f in functions(group))


def _checked(template: Template, function: NativeFunction, operator: Operator, condition: str | None = None) -> str:
    return template.substitute(
        condition=condition,
        definition=operator.definition(kernel_name(function)),
        op=function.func.name.unambiguous_name(),
        arguments=", ".join(argument.name for argument in operator.arguments),
    )


def _checked_kernel(group: NativeFunctionsGroup, function: NativeFunction) -> str:
    return _checked(CHECKED_KERNEL, function, Operator.of_aten(function))


def _positions(function: NativeFunction, operator: Operator) -> str:
    names = [argument.name for argument in operator.arguments]
    return POSITIONS.substitute(
        kernel=kernel_name(function),
        arguments=", ".join("without_masks(self, indices)" if name == "indices" else name for name in names),
    )


def _device(function: NativeFunction, operator: Operator, operation: str) -> str:
    """C++ of the device whose stream runs the kernel. Iterator operators check devices in their meta function."""
    from torchgen.model import DeviceCheckType

    lists = [a.name for a in operator.arguments if a.schema_type == "Tensor[]"]
    if lists:
        return f'common_device("{operation}", {lists[0]}, op.output(0))'
    tensors = [a for a in operator.arguments if a.is_tensor or a.is_optional_tensor]
    if function.device_check == DeviceCheckType.NoCheck or not any(a.is_tensor for a in tensors):
        return "device_number(op.output(0))"
    checked = [f"&{a.name}" if a.is_tensor else f"({a.name} ? &*{a.name} : &undefined)" for a in tensors]
    return f'common_device("{operation}", {{{", ".join(checked)}}})'


def _kernel(group: NativeFunctionsGroup, function: NativeFunction) -> str:
    from torchgen.api import meta, structured
    from torchgen.api.translate import translate
    from torchgen.api.types import CppSignatureGroup, NativeSignature
    from torchgen.context import native_function_manager
    from torchgen.model import SchemaKind

    kind = function.func.kind()
    operator = Operator.of_aten(function)
    with native_function_manager(function):
        given = NativeSignature(function.func, prefix="", symint=False).arguments()
        checked = translate(list(given), structured.meta_arguments(group), method=False)
        cpu = CppSignatureGroup.from_native_function(group.out, method=False).most_faithful_signature()
        cpu_arguments = [(a.name, str(a.type)) for a in cpu.arguments()]

    # The worker's function calls cpu::NAME_outf(inputs..., outs...). In an in-place operator self is also the output.
    in_place = kind is SchemaKind.inplace
    out_names = [a.name for a in group.out.func.arguments.out]
    captured, parameters, call = [], [], []
    for name, declared in cpu_arguments:
        if name in out_names and in_place:
            call.append("self")
        elif name in out_names:
            captured.append(f"op.output({out_names.index(name)})")
            parameters.append(f"at::Tensor &{name}")
            call.append(name)
        else:
            captured.append(name)
            parameters.append(f"at::Tensor &{name}" if in_place and name == "self" else f"{declared} {name}")
            call.append(name)
    worker = f"{kernel_name(function if in_place else group.functional)}_cpu"
    worker_text = WORKER.substitute(
        worker=worker, parameters=", ".join(parameters), cpu=cpu.name(), call=", ".join(call)
    )

    schema = {SchemaKind.functional: "functional", SchemaKind.inplace: "in_place", SchemaKind.out: "out"}[kind]
    own_outs = [a.name for a in function.func.arguments.out]
    given_outputs = {SchemaKind.functional: [], SchemaKind.inplace: ["self"], SchemaKind.out: own_outs}[kind]
    returned = given_outputs or [f"std::move(op.outputs[{i}])" for i in range(len(out_names))]
    operation = f"aten::{function.func.name if in_place else group.functional.func.name}"
    condition = _checked_calls(group)
    kernel_text = KERNEL.substitute(
        definition=operator.definition(kernel_name(function)),
        checks=(_checked(CHECKED_CALL, function, operator, condition) if condition else "")
        + (APPROXIMATE if _takes(group, "approximate") else "")
        + (_positions(function, operator) if group.out.root_name == "index" else ""),
        results=EXPANDED if group.out.root_name == "addmm" and kind is not SchemaKind.inplace else "",
        meta=meta.name(group),
        schema=schema,
        outputs=len(out_names),
        given=f"({', '.join(given_outputs)})" if given_outputs else "",
        checked=", ".join(e.expr for e in checked),
        operation=operation,
        worker=worker,
        device=_device(function, operator, operation),
        captured=", ".join(captured),
        returned=returned[0] if len(returned) == 1 else "{" + ", ".join(returned) + "}",
    )
    return kernel_text if kind is SchemaKind.out else worker_text + kernel_text
