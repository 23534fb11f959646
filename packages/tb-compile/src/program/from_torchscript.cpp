// Converts the nodes of a graph to instructions.
#include "program/from_torchscript.h"

#include <torch/csrc/jit/ir/constants.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>

#include <algorithm>
#include <sstream>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace tb::compile {
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
  else if (node.maybeOperator())
    instruction.function = node.getOperation();
  else // such as a dictionary, which the interpreter itself makes
    TORCH_CHECK_NOT_IMPLEMENTED(false, instruction.name, " is no operator: a program holds calls of operators only");
  return instruction;
}

// The operators by which functionalization replaces views, and the views.
struct View {
  const char *copy, *name, *overload; // an empty name is the tensor itself
};
constexpr View views[] = {
    {"aten::alias_copy", "", ""},
    {"aten::detach_copy", "", ""},
    {"aten::diagonal_copy", "aten::diagonal", ""},
    {"aten::expand_copy", "aten::expand", ""},
    {"aten::permute_copy", "aten::permute", ""},
    {"aten::select_copy", "aten::select", "int"},
    {"aten::slice_copy", "aten::slice", "Tensor"},
    {"aten::t_copy", "aten::t", ""},
    {"aten::transpose_copy", "aten::transpose", "int"},
    {"aten::unsqueeze_copy", "aten::unsqueeze", ""},
    {"aten::view_copy", "aten::reshape", ""},
};

// Whether an operator takes views with any strides without a copy of its own. The others get contiguous tensors, as
// PyTorch's lazy tensors are: a composite operator that was traced may have relied on that.
bool takes_any_strides(const Instruction &instruction) {
  if (!instruction.op) return true;
  if (instruction.op->hasTag(at::Tag::pointwise)) return true;
  static const std::unordered_set<std::string> names{
      "aten::mm",   "aten::addmm", "aten::bmm",  "aten::baddbmm",     "aten::clone", "aten::_to_copy",
      "aten::cat",  "aten::stack", "aten::copy", "aten::convolution", "aten::sum",   "aten::mean",
      "aten::amax", "aten::amin",  "aten::any",  "aten::all",         "aten::where"};
  return names.contains(instruction.op->schema().name());
}

void read_number(torch::jit::Stack &stack) {
  if (stack[0].isTensor()) stack[0] = stack[0].toTensor().item();
}

// The conversion of one graph.
class Lowering {
public:
  Lowering(const torch::jit::Graph &graph, std::string name, bool functional)
      : graph_(graph), functional_(functional), program_(std::make_unique<Program>(std::move(name))) {}

  FunctionalProgram run() {
    for (const Value *value : graph_.inputs()) slots_[value] = program_->input();
    if (functional_) add_numbers();
    for (const Node *node : graph_.nodes())
      lower(*const_cast<Node *>(node)); // a node makes its operation at the first call of getOperation()
    std::vector<Slot> outputs;
    for (const Value *value : graph_.outputs())
      outputs.push_back(views_.contains(value) ? in_order("aten::clone", slots_.at(value)) : slots_.at(value));
    program_->finish(std::move(outputs));
    return {std::move(program_), std::move(numbers_)};
  }

private:
  Slot constant(c10::IValue value) { return program_->constant(std::move(value)); }

  Slot call(const char *name, const char *overload, std::vector<Slot> operands) {
    Instruction instruction;
    instruction.op = c10::Dispatcher::singleton().findSchemaOrThrow(name, overload);
    instruction.name = name;
    instruction.operands = std::move(operands);
    return program_->add(std::move(instruction), 1)[0];
  }

  // Makes the elements contiguous by an operator that takes a memory format.
  Slot in_order(const char *name, Slot tensor) {
    return call(name, "", {tensor, constant(static_cast<int64_t>(c10::MemoryFormat::Contiguous))});
  }

  static bool reads_a_number(const Node &node) {
    return node.kind() == c10::aten::ScalarImplicit || node.kind() == c10::aten::IntImplicit ||
           node.kind() == c10::aten::FloatImplicit;
  }

  void add_numbers() {
    std::unordered_map<const Value *, size_t> places;
    for (size_t i = 0; i < graph_.inputs().size(); i++) places[graph_.inputs()[i]] = i;
    for (const Node *node : graph_.nodes()) {
      if (node->kind() != c10::aten::ScalarImplicit) continue;
      const auto place = places.find(node->input());
      if (place == places.end() || number_of_.contains(node->input())) continue;
      number_of_[node->input()] = program_->input();
      numbers_.push_back(place->second);
    }
  }

  // Bounds of slices are constant tensors of the device, which the graph reads back at each run. Here they are read
  // once.
  bool fold(const Node &node) {
    if (!reads_a_number(node) || node.input()->node()->kind() != c10::prim::Constant) return false;
    const c10::Scalar number = torch::jit::toIValue(node.input())->toTensor().item();
    if (node.kind() == c10::aten::IntImplicit)
      slots_[node.output()] = constant(number.toLong());
    else if (node.kind() == c10::aten::FloatImplicit)
      slots_[node.output()] = constant(number.toDouble());
    else
      slots_[node.output()] = constant(number);
    return true;
  }

  void lower(Node &node) {
    if (node.kind() == c10::prim::Constant) {
      slots_[node.output()] = constant(*torch::jit::toIValue(node.output()));
      return;
    }
    if (functional_ && fold(node)) return;
    check_straight(node);
    if (functional_ && lower_view(node)) return;
    Instruction instruction = instruction_of(node);
    for (const Value *value : node.inputs()) instruction.operands.push_back(slots_.at(value));
    if (functional_) {
      if (const auto number = number_of_.find(node.inputs().empty() ? nullptr : node.inputs()[0]);
          number != number_of_.end() && node.kind() == c10::aten::ScalarImplicit) {
        instruction.kind = Instruction::Kind::function;
        instruction.op.reset();
        instruction.function = read_number;
        instruction.operands = {number->second};
      }
      // as_strided takes strides of the whole memory, so it needs a contiguous tensor instead of a view, too.
      if (instruction.name.starts_with("aten::as_strided") || !takes_any_strides(instruction))
        for (size_t i = 0; i < node.inputs().size(); i++)
          if (views_.contains(node.inputs()[i]))
            instruction.operands[i] = in_order("aten::contiguous", instruction.operands[i]);
    }
    const std::vector<Slot> results = program_->add(std::move(instruction), node.outputs().size());
    for (size_t i = 0; i < results.size(); i++) slots_[node.outputs()[i]] = results[i];
  }

  bool lower_view(const Node &node) {
    const c10::FunctionSchema *schema = node.maybeSchema();
    if (!schema || schema->overload_name() == "dtype") return false;
    const View *view =
        std::find_if(std::begin(views), std::end(views), [&](const View &one) { return schema->name() == one.copy; });
    if (view == std::end(views)) return false;
    std::vector<Slot> operands;
    for (const Value *value : node.inputs()) operands.push_back(slots_.at(value));
    slots_[node.output()] = *view->name ? call(view->name, view->overload, std::move(operands)) : operands[0];
    views_.insert(node.output());
    return true;
  }

  const torch::jit::Graph &graph_;
  const bool functional_;
  std::unique_ptr<Program> program_;
  std::unordered_map<const Value *, Slot> slots_, number_of_;
  std::unordered_set<const Value *> views_; // values that are views of others
  std::vector<size_t> numbers_;
};

} // namespace

std::unique_ptr<Program> from_torchscript(const torch::jit::Graph &graph, std::string name) {
  return Lowering(graph, std::move(name), false).run().program;
}

FunctionalProgram from_functional(const torch::jit::Graph &graph, std::string name) {
  const std::shared_ptr<torch::jit::Graph> own = const_cast<torch::jit::Graph &>(graph).copy();
  torch::jit::EliminateDeadCode(own); // PyTorch's lowering leaves unused tuples
  return Lowering(*own, std::move(name), true).run();
}

} // namespace tb::compile
