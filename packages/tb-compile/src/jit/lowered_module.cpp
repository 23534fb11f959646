// Saves and loads modules with debug handles.
#include "jit/lowered_module.h"

#include <torch/csrc/jit/passes/dead_code_elimination.h>
#include <torch/csrc/jit/passes/freeze_module.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include <ATen/ops/empty.h>

#include <cstring>
#include <sstream>
#include <utility>

namespace tb::compile::jit {
namespace {

using torch::jit::Module;
using torch::jit::Node;

constexpr int64_t format = 1;

// Both preprocess(), to whose nodes the debug handles belong, and load() call this, so that the handles of the first
// match the nodes of the second.
Module prepare(Module module, const std::vector<std::string> &methods) {
  // While a saved module is loaded, the optimizer is off. Inlining, and with it freezing, would stop after one level,
  // and classes would lose methods that the graph still calls.
  const torch::jit::GraphOptimizerEnabledGuard optimize(true);
  if (!module.is_training()) {
    std::vector<std::string> kept;
    for (const std::string &name : methods)
      if (name != "forward") kept.push_back(name);
    module = torch::jit::freeze_module(module, kept);
  }
  for (const std::string &name : methods) {
    std::shared_ptr<torch::jit::Graph> graph = module.get_method(name).graph();
    torch::jit::Inline(*graph);
    torch::jit::EliminateDeadCode(graph);
  }
  return module;
}

} // namespace

std::vector<std::string> methods_of(const Spec &spec) {
  std::vector<std::string> names;
  for (const auto &entry : spec) names.push_back(entry.key().toStringRef());
  return names;
}

std::vector<Node *> nodes_of(torch::jit::Block &block) {
  std::vector<Node *> found;
  for (Node *node : block.nodes()) {
    if (node->kind() != c10::prim::Constant) found.push_back(node);
    for (torch::jit::Block *inner : node->blocks()) {
      const std::vector<Node *> more = nodes_of(*inner);
      found.insert(found.end(), more.begin(), more.end());
    }
  }
  return found;
}

c10::IValue preprocess(const Module &module, const Spec &spec, const torch::jit::BackendDebugHandleGenerator &handles) {
  std::ostringstream out;
  module.save(out);
  const std::string bytes = out.str();
  const std::vector<std::string> methods = methods_of(spec);
  const Module prepared = prepare(module.clone(), methods);
  c10::impl::GenericDict by_method(c10::StringType::get(), c10::ListType::ofInts());
  for (const std::string &name : methods) {
    const std::shared_ptr<torch::jit::Graph> graph = prepared.get_method(name).graph();
    const auto known = handles(graph);
    c10::List<int64_t> numbers;
    for (Node *node : nodes_of(*graph->block())) {
      const auto found = known.find(node);
      numbers.push_back(found == known.end() ? -1 : found->second);
    }
    by_method.insert(name, numbers);
  }
  at::Tensor blob = at::empty({static_cast<int64_t>(bytes.size())}, at::kByte);
  std::memcpy(blob.mutable_data_ptr(), bytes.data(), bytes.size());
  return c10::ivalue::Tuple::create({c10::IValue(format), c10::IValue(blob), c10::IValue(by_method)});
}

Loaded load(const c10::IValue &processed, const std::vector<std::string> &methods, c10::Device device) {
  const bool known = processed.isTuple() && processed.toTupleRef().elements().size() == 3 &&
                     processed.toTupleRef().elements()[0].isInt() &&
                     processed.toTupleRef().elements()[0].toInt() == format;
  TORCH_CHECK_VALUE(known, "the module was lowered by another version of tb-compile, whose format this one does not "
                           "know: lower it again from the original module");
  const auto &parts = processed.toTupleRef().elements();
  const at::Tensor blob = parts[1].toTensor().cpu().contiguous();
  std::istringstream in(std::string(static_cast<const char *>(blob.const_data_ptr()), blob.numel()));
  // Loaded onto the device directly, because a module cannot be moved there later in C++.
  return {prepare(torch::jit::load(in, device), methods), parts[2].toGenericDict()};
}

} // namespace tb::compile::jit
