// Converts calls of Python's graphs to instructions.
#include "program/builder.h"

#include <ATen/ScalarOps.h>
#include <torch/csrc/jit/runtime/operator.h>

#include <utility>

#include "program/values.h"

namespace nb = nanobind;

namespace tb::compile {
namespace {

bool holds_value(nb::handle value) {
  if (nb::isinstance<Value>(value)) return true;
  if (!nb::isinstance<nb::list>(value) && !nb::isinstance<nb::tuple>(value)) return false;
  for (const nb::handle one : nb::iter(value))
    if (holds_value(one)) return true;
  return false;
}

bool is_number(const c10::TypePtr &type) {
  return type->isSubtypeOf(*c10::NumberType::get()) || type->kind() == c10::TypeKind::SymIntType ||
         type->kind() == c10::TypeKind::SymFloatType;
}

void wrap_number(torch::jit::Stack &stack) {
  at::Tensor wrapped = c10::scalar_to_tensor(stack.back().toScalar());
  wrapped.unsafeGetTensorImpl()->set_wrapped_number(true);
  stack.back() = std::move(wrapped);
}

c10::OperatorName operator_name(const std::string &text) {
  const size_t dot = text.find('.', text.find("::") == std::string::npos ? 0 : text.find("::"));
  if (dot == std::string::npos) return {text, ""};
  const std::string overload = text.substr(dot + 1);
  return {text.substr(0, dot), overload == "default" ? "" : overload};
}

} // namespace

Program &Builder::program() {
  TORCH_CHECK(program_, "this builder has given its program away: make another one");
  return *program_;
}

std::vector<Value> Builder::call(const std::string &name, nb::list arguments, nb::dict keywords,
                                 const std::string &source) {
  const c10::OperatorName full = operator_name(name);
  Instruction instruction;
  instruction.name = name;
  instruction.source = source;
  const c10::FunctionSchema *schema = nullptr;
  std::shared_ptr<torch::jit::Operator> known;
  if ((instruction.op = c10::Dispatcher::singleton().findSchema(full))) {
    schema = &instruction.op->schema();
  } else if ((known = torch::jit::findOperatorFor(full))) {
    instruction.kind = Instruction::Kind::function;
    instruction.function = known->getOperation();
    schema = &known->schema();
  } else {
    throw nb::key_error(("there is no operator " + name).c_str());
  }
  const std::vector<c10::Argument> &parameters = schema->arguments();
  if (nb::len(arguments) > parameters.size())
    throw nb::type_error(c10::str(name, ": ", nb::len(arguments), " arguments for ", *schema).c_str());
  size_t matched = 0;
  for (size_t i = 0; i < parameters.size(); i++) {
    const c10::Argument &parameter = parameters[i];
    const char *key = parameter.name().c_str();
    if (i < nb::len(arguments)) {
      instruction.operands.push_back(operand(arguments[i], parameter.type(), parameter.N()));
    } else if (keywords.contains(key)) {
      instruction.operands.push_back(operand(keywords[key], parameter.type(), parameter.N()));
      matched++;
    } else if (parameter.default_value()) {
      instruction.operands.push_back(program().constant(*parameter.default_value()));
    } else {
      throw nb::type_error(c10::str(name, ": no argument '", parameter.name(), "' for ", *schema).c_str());
    }
  }
  if (matched != nb::len(keywords))
    throw nb::type_error(c10::str(name, ": arguments by keyword that are not its own, or are given twice: ",
                                  nb::str(keywords).c_str(), " for ", *schema)
                             .c_str());
  std::vector<Value> results;
  for (const Slot slot : program().add(std::move(instruction), schema->returns().size()))
    results.push_back({slot, is_number(schema->returns()[results.size()].type())});
  return results;
}

// repeat: the size of a parameter such as int[2], for which one number may be given.
Slot Builder::operand(nb::handle value, const c10::TypePtr &type, std::optional<int32_t> repeat) {
  if (type->kind() == c10::TypeKind::OptionalType && !value.is_none())
    return operand(value, type->castRaw<c10::OptionalType>()->getElementType(), repeat);
  if (nb::isinstance<Value>(value)) {
    const Value given = nb::cast<Value>(value);
    return given.is_number && type->kind() == c10::TypeKind::TensorType ? as_tensor(given.slot) : given.slot;
  }
  if (type->kind() == c10::TypeKind::ListType) {
    const c10::TypePtr &element = type->castRaw<c10::ListType>()->getElementType();
    if (holds_value(value)) return list(value, element);
    if (repeat && PyLong_Check(value.ptr())) {
      c10::impl::GenericList numbers(element);
      for (int32_t i = 0; i < *repeat; i++) numbers.push_back(to_ivalue(value, element));
      return program().constant(std::move(numbers));
    }
  }
  return program().constant(to_ivalue(value, type));
}

Slot Builder::as_tensor(Slot number) {
  Instruction instruction;
  instruction.kind = Instruction::Kind::function;
  instruction.name = "a number as a tensor";
  instruction.function = wrap_number;
  instruction.operands = {number};
  return program().add(std::move(instruction), 1)[0];
}

Slot Builder::list(nb::handle value, const c10::TypePtr &element) {
  Instruction instruction;
  instruction.kind = Instruction::Kind::list;
  instruction.name = "a list";
  instruction.element = element;
  for (const nb::handle one : nb::iter(value)) instruction.operands.push_back(operand(one, element, std::nullopt));
  return program().add(std::move(instruction), 1)[0];
}

Value Builder::element(Value list, int64_t index) {
  Instruction instruction;
  instruction.kind = Instruction::Kind::element;
  instruction.name = "an element of a list";
  instruction.index = index;
  instruction.operands = {list.slot};
  return {program().add(std::move(instruction), 1)[0]};
}

std::unique_ptr<Program> Builder::finish(nb::list outputs) {
  std::vector<Slot> slots;
  for (const nb::handle output : outputs) {
    if (nb::isinstance<Value>(output))
      slots.push_back(nb::cast<Value>(output).slot);
    else if (PyLong_Check(output.ptr()) && !PyBool_Check(output.ptr()))
      slots.push_back(program().constant(to_ivalue(output, c10::IntType::get())));
    else if (PyFloat_Check(output.ptr()))
      slots.push_back(program().constant(to_ivalue(output, c10::FloatType::get())));
    else
      slots.push_back(program().constant(to_ivalue(output, c10::TensorType::get())));
  }
  program().finish(std::move(slots));
  return std::move(program_);
}

} // namespace tb::compile
