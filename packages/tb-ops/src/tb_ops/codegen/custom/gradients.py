"""Emits the autograd kernel of a custom operator, and its node, whose gradients are the formulas.

The node is a tb::GradientNode (tb/gradient_node.h), so it works under torch.func and compiled autograd too.
"""

from __future__ import annotations

from string import Template

from ..model import Argument
from . import expression
from .declaration import KEPT, CustomOperator, gradient_names, plain_type

NODE = Template("""
struct ${symbol}_node final : tb::GradientNode<${symbol}_node> {
$members  std::vector<torch::autograd::VariableInfo> made;
  std::string name() const override { return "$title"; }
  template <class Self> static auto state(Self &self) { return std::tie($state); }
  static variable_list gradients(const variable_list &grads, const Wanted &wanted, $parameters) {
    variable_list found($count);
$grads$formulas    return found;
  }
};

$definition {
  tb::refuse_forward_derivatives("$operator", $tensors);
  c10::intrusive_ptr<${symbol}_node> node;
  if (torch::autograd::compute_requires_grad($tensors)) {
    node = c10::make_intrusive<${symbol}_node>();
    node->set_next_edges(torch::autograd::collect_next_edges($tensors));
$saves  }
  $made = [&] {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    return call_$symbol($arguments);
  }();
  if (node) {
$records  }
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


def text(custom: CustomOperator, own: set[str], name: str) -> str:
    """C++ of the node and of the kernel for the key Autograd. `own` are the operators of the file."""
    operator, members = custom.operator, _members(custom)
    outputs = [output.name for output in custom.outputs]
    tensors = _tensors(custom)
    return NODE.substitute(
        symbol=operator.symbol,
        title="".join(part.capitalize() for part in operator.symbol.split("_")) + "Backward0",
        operator=name,
        members="".join(f"  {type} {member}{{}};\n" for member, type, _ in members),
        state=", ".join([*(f"self.{member}" for member, _, _ in members), "self.made"]),
        parameters=", ".join(
            [*(parameter for _, _, parameter in members), "const std::vector<torch::autograd::VariableInfo> &made"]
        ),
        count=len(tensors),
        grads="".join(f"    {line}\n" for line in _loads(custom)),
        formulas="".join(f"    {line}\n" for line in _formulas(custom, own)),
        definition=operator.definition(f"{operator.symbol}_autograd", symbolic=True),
        tensors=", ".join(tensors),
        saves="".join(f"    {line}\n" for line in _saves(custom)),
        made=f"at::Tensor {outputs[0]}" if len(outputs) == 1 else f"auto [{', '.join(outputs)}]",
        arguments=", ".join(a.name for a in operator.arguments),
        records="".join(f"    {line}\n" for line in _records(custom)),
        returned=_listed(outputs),
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


def _tensors(custom: CustomOperator) -> list[str]:
    """The arguments that are tensors, which are the node's edges."""
    return [a.name for a in custom.operator.arguments if a.is_tensor or a.is_optional_tensor]


def _differentiable(custom: CustomOperator) -> list[tuple[str, str]]:
    """The outputs whose gradients a formula names, with the gradients' names."""
    gradients = zip(custom.outputs, gradient_names(custom), strict=True)
    return [(output.name, gradient) for output, gradient in gradients if gradient in _used(custom)]


def _members(custom: CustomOperator) -> list[tuple[str, str, str]]:
    """What the node keeps: the name, the type, and the parameter of gradients() that receives it."""
    members = []
    for argument in _saved(custom):
        if argument.is_tensor or argument.is_optional_tensor:
            name = f"{argument.name}_given" if argument.is_optional_tensor else argument.name
            members.append((argument.name, "SavedVariable", f"const at::Tensor &{name}"))
        else:
            kept = KEPT[plain_type(argument)]
            members.append((argument.name, kept, f"const {kept} &{argument.name}"))
    outputs = [output.name for output in custom.outputs if output.name in _used(custom)]
    return members + [(name, "SavedVariable", f"const at::Tensor &{name}") for name in outputs]


def _saves(custom: CustomOperator) -> list[str]:
    """Lines that save the arguments. A formula sees an optional tensor that is undefined as absent."""
    lines = []
    for argument in _saved(custom):
        name, kind = argument.name, plain_type(argument)
        if argument.is_tensor or argument.is_optional_tensor:
            value = f"{name}.value_or(at::Tensor())" if argument.is_optional_tensor else name
            lines.append(f"node->{name} = torch::autograd::SavedVariable({value}, false);")
        elif kind in ("int[]", "float[]"):
            lines.append(f"node->{name} = {name}.vec();")
        else:
            lines.append(f"node->{name} = {f'std::string({name})' if kind == 'str' else name};")
    return lines


def _records(custom: CustomOperator) -> list[str]:
    """Lines that make the node the history of the outputs, and save outputs, which then have a history."""
    names = [name for name, _ in _differentiable(custom)]
    lines = []
    for name in names:
        lines += [f"tb::record_result({name}, node);", f"node->made.emplace_back({name});"]
    for output in custom.outputs:
        if output.name in _used(custom):
            known = "true" if output.name in names else "false"
            lines.append(f"node->{output.name} = torch::autograd::SavedVariable({output.name}, {known});")
    return [*lines, "tb::report_new_node(node);"]


def _loads(custom: CustomOperator) -> list[str]:
    """Lines that give the formulas' variables their names."""
    lines = ["const variable_list given = tb::with_zeros(grads, made);"]
    lines += [f"const at::Tensor &{gradient} = given[{i}];" for i, (_, gradient) in enumerate(_differentiable(custom))]
    for argument in _saved(custom):
        if argument.is_optional_tensor:
            name = f"{argument.name}_given"
            value = f"{name}.defined() ? std::optional<at::Tensor>({name}) : std::nullopt"
            lines.append(f"const std::optional<at::Tensor> {argument.name} = {value};")
    return lines


def _formulas(custom: CustomOperator, own: set[str]) -> list[str]:
    """Lines that fill `found`."""
    places = {name: i for i, name in enumerate(_tensors(custom))}
    lines = []

    def function(name: str) -> str:
        return f"call_{name}" if name in own else f"at::{name}"

    for names, text in (custom.gradients or {}).items():
        if text is None:
            continue
        value = expression.formula(text, {*_used(custom)}, function)
        if len(names) == 1:
            lines.append(f"if (wanted[{places[names[0]]}]) found[{places[names[0]]}] = {value};")
            continue
        lines.append(f"if ({' || '.join(f'wanted[{places[name]}]' for name in names)}) {{")
        lines.append(f"  const auto [{', '.join(f'{name}_gradient' for name in names)}] = {value};")
        lines += [f"  if (wanted[{places[name]}]) found[{places[name]}] = {name}_gradient;" for name in names]
        lines.append("}")
    return lines
