// Programs out of TorchScript's graphs.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/jit/ir/ir.h>

#include "program/program.h"

namespace tb {

// One instruction for each node that is no constant, in their order, and one output for each of the graph's. Throws
// NotImplementedError where the graph is no straight line: control flow, calls of methods, attributes.
std::unique_ptr<Program> from_torchscript(const torch::jit::Graph &graph, std::string name);

// Of a graph without writes, whose results are seen only at its end. Copies that functionalization made of views are views
// again; results that are views are copied at the end.
struct FunctionalProgram {
  std::unique_ptr<Program> program;
  // Inputs of the graph that it also reads as numbers. The program takes these numbers, or the tensors again, behind its
  // other inputs: what the host knows need not be read from the device.
  std::vector<size_t> numbers;
};
FunctionalProgram from_functional(const torch::jit::Graph &graph, std::string name);

} // namespace tb
