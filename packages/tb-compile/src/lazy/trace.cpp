// Makes nodes of calls.
#include "tb/python_error.h"
#include "tb/tensor_bridge.h"

#include "lazy/trace.h"

#include <ATen/ops/empty_strided.h>
#include <torch/csrc/lazy/core/ir_builder.h>
#include <torch/csrc/lazy/core/lazy_graph_executor.h>
#include <torch/csrc/lazy/core/tensor.h>
#include <torch/csrc/lazy/ts_backend/ts_lowering_context.h>
#include <torch/csrc/lazy/ts_backend/ts_node.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <sstream>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lazy/backend.h"

namespace tb::compile::lazy {
namespace {

namespace ltc = torch::lazy;
using c10::IValue;
using Shapes = std::optional<std::vector<ltc::Shape>>;

// How an argument of a traced call is lowered.
struct Argument {
  enum class Kind : uint8_t { constant, tensor, tensors, number };
  Kind kind = Kind::constant;
  IValue value = {};                                // the value of a constant
  std::vector<std::optional<size_t>> operands = {}; // of the node: one, or one for each element of a list, if present
  bool optional = false;                            // whether the schema allows absent elements
};

// One call. Numbers are operands too, so that a number that changes from step to step does not need another graph.
class Call final : public ltc::TsNode {
public:
  Call(c10::OperatorHandle op, ltc::OpKind kind, ltc::OpList operands, std::vector<ltc::Shape> &&shapes, size_t outputs,
       ltc::hash_t hash, std::vector<Argument> arguments)
      : TsNode(kind, operands, std::move(shapes), outputs, hash), op_(std::move(op)), arguments_(std::move(arguments)) {
  }

  ltc::TSOpVector Lower(std::shared_ptr<torch::jit::GraphFunction> function,
                        ltc::TSLoweringContext *context) const override {
    const std::shared_ptr<torch::jit::Graph> graph = function->graph();
    const auto lowered = [&](size_t i) { return context->GetOutputOp(operand(i)); };
    std::vector<torch::jit::Value *> inputs;
    for (const Argument &argument : arguments_) {
      switch (argument.kind) {
      case Argument::Kind::constant:
        inputs.push_back(graph->insertConstant(argument.value));
        break;
      case Argument::Kind::tensor:
        inputs.push_back(lowered(*argument.operands[0]));
        break;
      case Argument::Kind::number:
        inputs.push_back(graph->insert(c10::aten::ScalarImplicit, {lowered(*argument.operands[0])}));
        break;
      case Argument::Kind::tensors: {
        std::vector<torch::jit::Value *> elements;
        for (const std::optional<size_t> i : argument.operands)
          elements.push_back(i ? lowered(*i) : graph->insertConstant(IValue()));
        const c10::TypePtr element =
            argument.optional ? c10::TypePtr(c10::OptionalType::ofTensor()) : c10::TypePtr(c10::TensorType::get());
        inputs.push_back(graph->insertNode(graph->createList(element, elements))->output());
        break;
      }
      }
    }
    const c10::Symbol symbol = c10::Symbol::fromQualString(op_.schema().name());
    return graph->insertNode(graph->create(symbol, inputs, op_.schema().returns().size()))->outputs().vec();
  }

private:
  const c10::OperatorHandle op_;
  const std::vector<Argument> arguments_;
};

ltc::hash_t hash_of(const IValue &value) {
  if (value.isNone()) return ltc::MHash(int64_t{-77});
  if (value.isInt()) return ltc::MHash(value.toInt());
  if (value.isDouble()) return ltc::MHash(value.toDouble());
  if (value.isBool()) return ltc::MHash(value.toBool());
  if (value.isIntList()) return ltc::Hash(value.toIntVector());
  std::ostringstream text;
  text << value;
  return ltc::Hash(text.str());
}

bool is_number(const c10::Argument &parameter, const IValue &value) {
  return value.isScalar() && parameter.type()->kind() == c10::TypeKind::NumberType;
}

// The tensors of a list; absent ones are undefined.
std::vector<at::Tensor> tensors_of(const IValue &list) {
  if (list.isTensorList()) return list.toTensorVector();
  std::vector<at::Tensor> tensors;
  for (const std::optional<at::Tensor> &tensor : list.toOptionalTensorVector())
    tensors.push_back(tensor.value_or(at::Tensor()));
  return tensors;
}

bool is_list(const IValue &value) { return value.isTensorList() || value.isOptionalTensorList(); }

// Whether the operator indexes by numbers. With masks, the number of results depends on their values.
bool indexes(const c10::OperatorHandle &op, c10::ArrayRef<IValue> arguments) {
  if (op.schema().name() != "aten::index") return false;
  const std::vector<at::Tensor> tensors = tensors_of(arguments[1]);
  return std::none_of(tensors.begin(), tensors.end(), [](const at::Tensor &index) {
    return index.defined() && (index.scalar_type() == at::kBool || index.scalar_type() == at::kByte);
  });
}

bool can_be_traced(const c10::OperatorHandle &op, c10::ArrayRef<IValue> arguments) {
  for (const at::Tag tag : op.getTags())
    if (tag == at::Tag::data_dependent_output || (tag == at::Tag::dynamic_output_shape && !indexes(op, arguments)))
      return false;
  const c10::FunctionSchema &schema = op.schema();
  if (schema.returns().empty()) return false;
  for (const c10::Argument &result : schema.returns())
    if (result.alias_info() || *result.type() != *c10::TensorType::get()) return false;
  for (const c10::Argument &parameter : schema.arguments())
    if (parameter.alias_info() && parameter.alias_info()->isWrite()) return false;
  for (const IValue &value : arguments)
    if (value.isGenerator() || value.isStorage() || value.isStream() ||
        (value.isDevice() && value.toDevice().type() != c10::DeviceType::Lazy))
      return false;
  return true;
}

std::optional<ltc::BackendDevice> device_of(c10::ArrayRef<IValue> arguments) {
  for (const IValue &value : arguments) {
    if (value.isDevice()) return backend().GetBackendDevice(value.toDevice());
    if (value.isTensor())
      if (const auto device = ltc::GetBackendDevice(value.toTensor())) return device;
    if (is_list(value))
      for (const at::Tensor &tensor : tensors_of(value))
        if (const auto device = ltc::GetBackendDevice(tensor)) return device;
  }
  return std::nullopt;
}

at::Tensor on_meta(const at::Tensor &tensor) {
  return tensor.defined()
             ? at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(c10::DeviceType::Meta))
             : tensor;
}

// Drops an exception of Python. An interrupt or another end of the program is none of an operator, and is thrown on.
void drop_refusal(const std::exception_ptr &thrown) {
  const PyGILState_STATE lock = PyGILState_Ensure();
  set_python_error(thrown);
  const bool is_refusal = PyErr_ExceptionMatches(PyExc_Exception);
  if (is_refusal) PyErr_Clear();
  try {
    if (!is_refusal) throw_python_error();
  } catch (...) {
    PyGILState_Release(lock);
    throw;
  }
  PyGILState_Release(lock);
}

Shapes shapes_of(const c10::OperatorHandle &op, c10::ArrayRef<IValue> arguments) {
  torch::jit::Stack stack;
  for (const IValue &value : arguments) {
    if (value.isTensor()) {
      stack.emplace_back(on_meta(value.toTensor()));
    } else if (value.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor &tensor : value.toTensorVector()) list.push_back(on_meta(tensor));
      stack.emplace_back(std::move(list));
    } else if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor> &tensor : value.toOptionalTensorVector())
        list.push_back(tensor ? std::optional(on_meta(*tensor)) : std::nullopt);
      stack.emplace_back(std::move(list));
    } else if (value.isDevice()) {
      stack.emplace_back(c10::Device(c10::DeviceType::Meta));
    } else {
      stack.push_back(value);
    }
  }
  try {
    op.callBoxed(&stack);
  } catch (const c10::Error &) {
    return std::nullopt;
  } catch (const std::exception &error) { // a shape kernel in Python
    if (!is_python_error(error)) throw;
    drop_refusal(std::current_exception());
    return std::nullopt;
  }
  std::vector<ltc::Shape> shapes;
  for (const IValue &value : stack) {
    if (!value.isTensor() || !value.toTensor().defined()) return std::nullopt;
    shapes.emplace_back(value.toTensor().scalar_type(), value.toTensor().sizes());
  }
  return shapes;
}

// Kernels for meta tensors are often Python code, so their results are cached by operator, shapes, types and constants.
Shapes known_shapes(const c10::OperatorHandle &op, c10::ArrayRef<IValue> arguments) {
  static std::mutex mutex;
  static std::unordered_map<ltc::hash_t, Shapes, ltc::HashReducer> known;
  constexpr size_t most = 4096;

  ltc::hash_t key = ltc::Hash(c10::toString(op.operator_name()));
  const auto mix = [&](const ltc::hash_t &more) { key = ltc::HashCombine(key, more); };
  const auto mix_tensor = [&](const at::Tensor &tensor) {
    if (!tensor.defined()) return mix(ltc::MHash(int64_t{-3}));
    mix(ltc::MHash(static_cast<int64_t>(tensor.scalar_type())));
    mix(ltc::Hash(tensor.sizes().vec()));
  };
  for (size_t i = 0; i < arguments.size(); i++) {
    const IValue &value = arguments[i];
    if (value.isTensor()) {
      mix_tensor(value.toTensor());
    } else if (is_list(value)) {
      const std::vector<at::Tensor> tensors = tensors_of(value);
      mix(ltc::MHash(static_cast<int64_t>(tensors.size())));
      for (const at::Tensor &tensor : tensors) mix_tensor(tensor);
    } else if (is_number(op.schema().arguments()[i], value)) {
      mix(ltc::MHash(static_cast<int64_t>(value.toScalar().type()))); // no shape depends on its value
    } else {
      mix(hash_of(value));
    }
  }
  {
    const std::lock_guard<std::mutex> lock(mutex);
    if (const auto found = known.find(key); found != known.end()) return found->second;
  }
  Shapes shapes = shapes_of(op, arguments); // may run Python
  const std::lock_guard<std::mutex> lock(mutex);
  if (known.size() >= most) known.clear();
  known.emplace(key, shapes);
  return shapes;
}

} // namespace

bool trace(const c10::OperatorHandle &op, torch::jit::Stack *stack) {
  const c10::FunctionSchema &schema = op.schema();
  const c10::ArrayRef<IValue> given = torch::jit::last(*stack, schema.arguments().size());
  if (!can_be_traced(op, given)) return false;
  const std::optional<ltc::BackendDevice> device = device_of(given);
  if (!device) return false;
  Shapes shapes = known_shapes(op, given);
  if (!shapes) return false;

  std::vector<ltc::Value> operands;
  const auto add = [&](const at::Tensor &tensor) {
    operands.push_back(ltc::GetOrCreateLtcTensor(tensor, *device)->GetIrValue());
    return operands.size() - 1;
  };
  ltc::hash_t hash = ltc::Hash(c10::toString(op.operator_name()));
  std::vector<Argument> arguments;
  for (size_t i = 0; i < given.size(); i++) {
    const IValue &value = given[i];
    Argument argument;
    if (value.isTensor() && value.toTensor().defined()) {
      argument.kind = Argument::Kind::tensor;
      argument.operands.push_back(add(value.toTensor()));
    } else if (is_list(value)) {
      argument.kind = Argument::Kind::tensors;
      argument.optional = value.isOptionalTensorList();
      for (const at::Tensor &tensor : tensors_of(value)) {
        argument.operands.push_back(tensor.defined() ? std::optional(add(tensor)) : std::nullopt);
        hash = ltc::HashCombine(hash, ltc::MHash(static_cast<int64_t>(tensor.defined())));
      }
    } else if (is_number(schema.arguments()[i], value)) {
      argument.kind = Argument::Kind::number;
      operands.push_back(ltc::LazyGraphExecutor::Get()->GetIrValueForScalarFromCodegen(value.toScalar(), *device));
      argument.operands.push_back(operands.size() - 1);
    } else {
      if (value.isDevice())
        argument.value = c10::Device(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(device->ordinal()));
      else if (!value.isTensor())
        argument.value = value;
      hash = ltc::HashCombine(hash, ltc::HashCombine(ltc::MHash(static_cast<int64_t>(i)), hash_of(argument.value)));
    }
    // Which arguments are operands is part of the graph: an absent tensor is not one.
    hash = ltc::HashCombine(hash, ltc::MHash(static_cast<int64_t>(argument.kind)));
    arguments.push_back(std::move(argument));
  }
  const size_t outputs = schema.returns().size();
  const ltc::NodePtr node = ltc::MakeNode<Call>(op, ltc::OpKind(c10::Symbol::fromQualString(schema.name())), operands,
                                                std::move(*shapes), outputs, hash, std::move(arguments));
  torch::jit::drop(*stack, schema.arguments().size());
  for (size_t i = 0; i < outputs; i++)
    stack->emplace_back(ltc::CreateAtenFromLtcTensor(ltc::LazyTensor::Create(ltc::Value(node, i), *device)));
  return true;
}

} // namespace tb::compile::lazy
