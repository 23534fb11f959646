#include "program/from_torchscript.h"

#include <torch/csrc/jit/ir/constants.h>

#include <sstream>
#include <unordered_map>
#include <utility>

namespace tb {
namespace {

using torch::jit::Node;
using torch::jit::Value;

void make_tuple(torch::jit::Stack &stack) {
  std::vector<IValue> elements(stack.begin(), stack.end());
  stack.clear();
  stack.emplace_back(c10::ivalue::Tuple::create(std::move(elements)));
}

void check_straight(const Node &node) {
  const c10::Symbol kind = node.kind();
  const bool of_a_module = kind == c10::prim::CallMethod || kind == c10::prim::CallFunction ||
                           kind == c10::prim::GetAttr || kind == c10::prim::SetAttr;
  TORCH_CHECK_NOT_IMPLEMENTED(node.blocks().empty() && !of_a_module, kind.toQualString(),
                              " is no call of an operator: a program is one straight line");
}

Instruction instruction_of(Node &node) {
  Instruction instruction;
  instruction.name = node.kind().toQualString();
  std::ostringstream source;
  node.sourceRange().highlight(source);
  instruction.source = source.str();
  if (node.kind() == c10::prim::ListConstruct) {
    instruction.kind = Instruction::Kind::list;
    instruction.element = node.output()->type()->expectRef<c10::ListType>().getElementType();
    return instruction;
  }
  if (const c10::FunctionSchema *schema = node.maybeSchema())
    instruction.op = c10::Dispatcher::singleton().findSchema({schema->name(), schema->overload_name()});
  if (instruction.op) return instruction;
  instruction.kind = Instruction::Kind::function;
  if (node.kind() == c10::prim::TupleConstruct)
    instruction.function = make_tuple;
  else
    instruction.function = node.getOperation();
  return instruction;
}

} // namespace

std::unique_ptr<Program> from_torchscript(const torch::jit::Graph &graph, std::string name) {
  auto program = std::make_unique<Program>(std::move(name));
  std::unordered_map<const Value *, Slot> slots;
  for (const Value *value : graph.inputs()) slots[value] = program->input();
  for (const Node *one : graph.nodes()) {
    Node &node = *const_cast<Node *>(one); // its operation is made when first asked for
    if (node.kind() == c10::prim::Constant) {
      slots[node.output()] = program->constant(*torch::jit::toIValue(node.output()));
      continue;
    }
    check_straight(node);
    Instruction instruction = instruction_of(node);
    for (const Value *value : node.inputs()) instruction.operands.push_back(slots.at(value));
    const std::vector<Slot> results = program->add(std::move(instruction), node.outputs().size());
    for (size_t i = 0; i < results.size(); i++) slots[node.outputs()[i]] = results[i];
  }
  std::vector<Slot> outputs;
  for (const Value *value : graph.outputs()) outputs.push_back(slots.at(value));
  program->finish(std::move(outputs));
  return program;
}

} // namespace tb
