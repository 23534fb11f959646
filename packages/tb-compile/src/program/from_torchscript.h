// Programs out of TorchScript's graphs.
#pragma once
#include <memory>
#include <string>

#include <torch/csrc/jit/ir/ir.h>

#include "program/program.h"

namespace tb {

// One instruction for each node that is no constant, in their order, and one output for each of the graph's. Throws
// NotImplementedError where the graph is no straight line: control flow, calls of methods, attributes.
std::unique_ptr<Program> from_torchscript(const torch::jit::Graph &graph, std::string name);

} // namespace tb
