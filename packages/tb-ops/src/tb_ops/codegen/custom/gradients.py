"""Emits the autograd kernel of a custom operator: a torch::autograd::Function whose backward evaluates the formulas."""

from __future__ import annotations

from string import Template

from ..model import Argument
from . import expression
from .declaration import KEPT, CustomOperator, gradient_names, plain_type

FUNCTION = Template("""
struct ${symbol}_function : torch::autograd::Function<${symbol}_function> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext *context, $parameters) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    $made = call_$symbol($arguments);
$saves    return {$outputs};
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext *context,
                                                 const torch::autograd::variable_list &given) {
$loads    torch::autograd::variable_list found($count);
$formulas    return found;
  }
};

$definition {
  const torch::autograd::variable_list outputs = ${symbol}_function::apply($arguments);
  return $returned;
}
""")

# Operators that write to an argument have no formulas. They refuse calls that need a gradient, which would be wrong.
WRITES = Template("""
$definition {
  TORCH_CHECK(!torch::autograd::compute_requires_grad($tensors),
              "$name writes to an argument and has no gradient, but an argument requires one. ",
              "Call it under torch.no_grad()");
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  call_$symbol($arguments);
$versions}
""")


def called(custom: CustomOperator) -> set[str]:
    """The operators, of the file or of PyTorch, that the formulas call."""
    texts = [text for text in (custom.gradients or {}).values() if text is not None]
    return {name for text in texts for name in expression.functions_in(text)}


def text(custom: CustomOperator, own: set[str]) -> str:
    """C++ of the function and of the kernel for the key Autograd. `own` are the operators of the file."""
    operator = custom.operator
    names = [a.name for a in operator.arguments]
    outputs = [output.name for output in custom.outputs]
    return FUNCTION.substitute(
        symbol=operator.symbol,
        parameters=operator.parameters(symbolic=True),
        made=f"at::Tensor {outputs[0]}" if len(outputs) == 1 else f"auto [{', '.join(outputs)}]",
        arguments=", ".join(names),
        saves="".join(f"    {line}\n" for line in _save(custom)),
        loads="".join(f"    {line}\n" for line in _load(custom)),
        outputs=", ".join(outputs),
        count=len(names),
        formulas="".join(f"    {line}\n" for line in _formulas(custom, own)),
        definition=operator.definition(f"{operator.symbol}_autograd", symbolic=True),
        returned=_listed([f"outputs[{i}]" for i in range(len(outputs))]),
    )


def writes_text(custom: CustomOperator, name: str) -> str:
    """C++ of the kernel for the key Autograd of an operator that writes to arguments. It counts their versions."""
    operator = custom.operator
    return WRITES.substitute(
        definition=operator.definition(f"{operator.symbol}_autograd", symbolic=True),
        tensors=", ".join(a.name for a in operator.arguments if a.schema_type.startswith("Tensor")),
        name=name,
        symbol=operator.symbol,
        arguments=", ".join(a.name for a in operator.arguments),
        versions="".join(
            f"  if (!{a.name}.is_inference()) {a.name}.unsafeGetTensorImpl()->bump_version();\n"
            for a in operator.arguments
            if a.written
        ),
    )


def _listed(values: list[str]) -> str:
    return values[0] if len(values) == 1 else "{" + ", ".join(values) + "}"


def _used(custom: CustomOperator) -> set[str]:
    texts = [text for text in (custom.gradients or {}).values() if text is not None]
    return {name for text in texts for name in expression.names_in(text)}


def _saved(custom: CustomOperator) -> list[Argument]:
    return [a for a in custom.operator.arguments if a.name in _used(custom)]


def _saved_tensors(custom: CustomOperator) -> list[str]:
    """The names of the tensors for save_for_backward: arguments, then outputs."""
    arguments = [a.name for a in _saved(custom) if a.is_tensor or a.is_optional_tensor]
    return arguments + [output.name for output in custom.outputs if output.name in _used(custom)]


def _save(custom: CustomOperator) -> list[str]:
    lines = []
    optional = {a.name for a in custom.operator.arguments if a.is_optional_tensor}
    tensors = [f"{name}.value_or(at::Tensor())" if name in optional else name for name in _saved_tensors(custom)]
    if tensors:
        lines.append(f"context->save_for_backward({{{', '.join(tensors)}}});")
    for argument in _saved(custom):
        if not argument.is_tensor and not argument.is_optional_tensor:
            value = f"std::string({argument.name})" if argument.schema_type == "str" else argument.name
            lines.append(f'context->saved_data["{argument.name}"] = {value};')
    gradients = zip(gradient_names(custom), custom.outputs, strict=True)
    constant = [output.name for gradient, output in gradients if gradient not in _used(custom)]
    if constant:
        lines.append(f"context->mark_non_differentiable({{{', '.join(constant)}}});")
    for name in _optional(custom):
        lines.append(f'context->saved_data["{name} given"] = {name}.has_value() && {name}->defined();')
    return lines


def _load(custom: CustomOperator) -> list[str]:
    used, optional = _used(custom), {a.name for a in custom.operator.arguments if a.is_optional_tensor}
    lines = [f"const at::Tensor &{name} = given[{i}];" for i, name in enumerate(gradient_names(custom)) if name in used]
    tensors = _saved_tensors(custom)
    if tensors:
        lines.append("const torch::autograd::variable_list saved = context->get_saved_variables();")
    for i, name in enumerate(tensors):
        if name in optional:
            value = f"saved[{i}].defined() ? std::optional<at::Tensor>(saved[{i}]) : std::nullopt"
            lines.append(f"const std::optional<at::Tensor> {name} = {value};")
        else:
            lines.append(f"const at::Tensor &{name} = saved[{i}];")
    for argument in _saved(custom):
        if not argument.is_tensor and not argument.is_optional_tensor:
            value = f'context->saved_data["{argument.name}"].{KEPT[plain_type(argument)]}'
            lines.append(f"const auto {argument.name} = {value};")
    return lines


def _optional(custom: CustomOperator) -> list[str]:
    return [a.name for a in custom.operator.arguments if a.is_optional_tensor]


def _formulas(custom: CustomOperator, own: set[str]) -> list[str]:
    """Lines that fill `found`. Autograd numbers only the tensors that were given, not absent optional ones."""
    places = {a.name: i for i, a in enumerate(custom.operator.arguments)}
    wanted = {name for names, text in (custom.gradients or {}).items() if text is not None for name in names}
    lines = ["size_t number = 0;"]
    for argument in custom.operator.arguments:
        if not argument.is_tensor and not argument.is_optional_tensor:
            continue
        given = f'context->saved_data["{argument.name} given"].toBool()' if argument.is_optional_tensor else ""
        if argument.name in wanted:
            needed = "context->needs_input_grad(number++)"
            lines.append(f"const bool {argument.name}_wanted = {given + ' && ' if given else ''}{needed};")
        else:
            lines.append(f"if ({given}) number++;" if given else "number++;")

    def function(name: str) -> str:
        return f"call_{name}" if name in own else f"at::{name}"

    for names, text in (custom.gradients or {}).items():
        if text is None:
            continue
        value = expression.formula(text, {*_used(custom)}, function)
        if len(names) == 1:
            lines.append(f"if ({names[0]}_wanted) found[{places[names[0]]}] = {value};")
            continue
        lines.append(f"if ({' || '.join(f'{name}_wanted' for name in names)}) {{")
        lines.append(f"  const auto [{', '.join(f'{name}_gradient' for name in names)}] = {value};")
        lines += [f"  if ({name}_wanted) found[{places[name]}] = {name}_gradient;" for name in names]
        lines.append("}")
    return lines
